import "./no-telemetry.ts";
import { parentPort, type Worker } from "node:worker_threads";
import { assert } from "../../core/errors.ts";
import { newThread } from "../worker/thread.ts";
import { InferenceSession } from "./onnxruntime.ts";
import type { Ended, Start, Stop } from "./thread.ts";

/** The program of a thread that starts the worker threads of all executors of this process and reports when one ends. */

const parent = parentPort;
assert(parent !== null, "this is the program of a thread");

// Masked tokens have a weight of 4e-39 (the runtime's exponential of −∞), a denormal, which makes products slow on x86 unless
// the processor flushes denormals to zero. The runtime sets this flag only in the thread that creates the first session of
// the process, so that a second starter, after the first one died, cannot set it again. On Linux and macOS threads inherit
// the flag from the thread that starts them. Creating a session sets it even if the creation fails, as here.
await InferenceSession.create(new Uint8Array(1), {
  logSeverityLevel: 4,
  extra: { session: { set_denormal_as_zero: "1" } },
}).catch(() => {});

const threads = new Map<number, Worker>();

parent.on("message", (request: Start | Stop) => {
  if ("port" in request) start(request);
  else void threads.get(request.number)?.terminate();
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
    // The system cannot start another thread; running threads continue.
    failed(error);
    ended(1);
  }
}
