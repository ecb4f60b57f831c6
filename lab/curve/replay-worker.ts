import { parentPort, workerData } from "node:worker_threads";
import { assert } from "../../core/errors.ts";
import { partsNamed } from "../run/configuration.ts";
import { replaySize } from "./replay-size.ts";
import type { ReplayMessage, ReplayTask, ReplayThreadData } from "./replay-threads.ts";

/** The program of a thread that replays a trace, once for each size that it receives. */

const parent = parentPort;
assert(parent !== null, "this is the program of a thread");
const { batches, keepsHits } = workerData as ReplayThreadData;
const post = (message: ReplayMessage) => parent.postMessage(message);

parent.on("message", async ({ parts, rules, ...sizes }: ReplayTask) => {
  try {
    const config = { ...(await partsNamed(parts, rules)), ...sizes };
    const advance = (requests: number) => post({ requests });
    post({ replayed: await replaySize({ batches: () => batches }, config, { advance, keepsHits }) });
  } catch (error) {
    const { name, message } = error as Error;
    post({ error: { name, message } });
  }
});
