import { partsNamed } from "../run/configuration.ts";
import { serveTasks } from "../threads/serve-tasks.ts";
import { type ReplayedSize, replaySize } from "./replay-size.ts";
import type { ReplayTask, ReplayThreadData } from "./replay-threads.ts";

/** The program of a thread that replays a trace, once for each size that it receives. */
serveTasks<ReplayThreadData, ReplayTask, ReplayedSize>(
  async ({ parts, rules, ...sizes }, { batches, keepsHits }, advance) => {
    const config = { ...(await partsNamed(parts, rules)), ...sizes };
    return await replaySize({ batches: () => batches }, config, { advance, keepsHits });
  },
);
