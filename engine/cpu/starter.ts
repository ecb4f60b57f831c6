import "./no-telemetry.ts";
import { type MessagePort, parentPort, type ResourceLimits, type Worker } from "node:worker_threads";
import { InferenceSession } from "onnxruntime-node";
import { assert } from "../../core/errors.ts";
import { newThread, type Program } from "./thread.ts";

/** The program of a thread that starts the threads of all executors of this process, and says when one ends. */

/** Of a thread to be started: its number, its program, its data, and where it is talked to. */
export interface Start {
  readonly number: number;
  readonly program: Program;
  readonly data: object;
  readonly limits: ResourceLimits;
  readonly port: MessagePort;
}

export type Stop = Pick<Start, "number">;

/** A thread has ended; it threw something, if there is a message. */
export interface Ended {
  readonly number: number;
  readonly code: number;
  readonly message?: string;
}

const parent = parentPort;
assert(parent !== null, "this is the program of a thread");

// What is masked has a weight of 4e-39 (the runtime's exponential of −∞), and processors are slow at products with such
// numbers, unless they take them for 0. The runtime lets them do so in the thread that makes the first session of the process,
// and in no other one. Threads inherit it from the one that starts them. Of a session that cannot be made it holds as well.
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
  const thread = newThread(program, { ...data, port }, { transferList: [port], resourceLimits: limits });
  threads.set(number, thread);
  let message: string | undefined;
  thread.on("error", (error) => {
    message = error instanceof Error ? error.message : String(error);
  });
  thread.on("exit", (code) => {
    threads.delete(number);
    parent?.postMessage({ number, code, ...(message !== undefined && { message }) } satisfies Ended);
  });
}
