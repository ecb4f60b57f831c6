import "./no-telemetry.ts";
import { parentPort, type Worker } from "node:worker_threads";
import { assert } from "../../core/errors.ts";
import { InferenceSession } from "./onnxruntime.ts";
import { type Ended, newThread, type Start, type Stop } from "./thread.ts";

/** The program of a thread that starts the threads of all executors of this process, and says when one ends. */

const parent = parentPort;
assert(parent !== null, "this is the program of a thread");

// What is masked has a weight of 4e-39 (the runtime's exponential of −∞), and x86 processors are slow at products with such
// numbers, unless they take them for 0. The runtime lets them do so in the thread that makes the first session of the process,
// and in no other one: a second starter, after a first one died, cannot have it again. On Linux and macOS threads inherit it from
// the one that starts them. Of a session that cannot be made it holds as well.
await InferenceSession.create(new Uint8Array(1), {
  logSeverityLevel: 4,
  extra: { session: { set_denormal_as_zero: "1" } },
}).catch(() => {});

const threads = new Map<number, Worker>();

parent.on("message", (ask: Start | Stop) => {
  if ("port" in ask) start(ask);
  else void threads.get(ask.number)?.terminate();
});

function start({ number, program, data, limits, port }: Start): void {
  let message: string | undefined;
  const failed = (error: unknown) => {
    message = error instanceof Error ? error.message : String(error);
  };
  const ended = (code: number) => {
    threads.delete(number);
    parent?.postMessage({ number, code, ...(message !== undefined && { message }) } satisfies Ended);
  };
  try {
    const thread = newThread(program, { ...data, port }, { transferList: [port], resourceLimits: limits });
    threads.set(number, thread);
    thread.on("error", failed);
    thread.on("exit", ended);
  } catch (error) {
    // The system has no room for another thread; those that there are go on.
    failed(error);
    ended(1);
  }
}
