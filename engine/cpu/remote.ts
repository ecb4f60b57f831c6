import type { Worker } from "node:worker_threads";
import { assert, InputError, InvariantError } from "../../core/errors.ts";
import { ExecutorError } from "../executor.ts";
import type { Answer, Ask } from "./worker.ts";

/** The other end of a worker thread: one question at a time, and whoever waits is told if the worker dies. */
export class Remote {
  readonly #worker: Worker;
  #waiting: { resolve(value: unknown): void; reject(error: Error): void } | undefined;
  /** Why the worker is gone. */
  #end: Error | undefined;

  constructor(worker: Worker) {
    this.#worker = worker;
    // A program that has ended otherwise does not wait for an idle worker.
    worker.unref();
    worker.on("message", (answer: Answer) => {
      const waiting = this.#take();
      if ("value" in answer) waiting?.resolve(answer.value);
      else waiting?.reject(errorOf(answer.error));
    });
    worker.on("messageerror", (error) => this.#died(error.message));
    worker.on("error", (error) => this.#died(error instanceof Error ? error.message : String(error)));
    worker.on("exit", (code) => this.#died(`it exited with code ${code}`));
  }

  /** @throws ExecutorError if the worker has died or dies meanwhile, with its cause; what the worker threw */
  async ask<Value>(ask: Ask): Promise<Value> {
    if (this.#end) throw this.#end;
    assert(this.#waiting === undefined, "one call at a time");
    return new Promise<unknown>((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#worker.ref();
      this.#worker.postMessage(ask);
    }) as Promise<Value>;
  }

  async close(): Promise<void> {
    if (!this.#end) {
      try {
        await this.ask({ kind: "close" });
      } finally {
        this.#end = new ExecutorError("the executor has been closed");
        await this.#worker.terminate();
      }
    }
  }

  #died(cause: string): void {
    this.#end ??= new ExecutorError(`the executor's worker thread died: ${cause}`);
    this.#take()?.reject(this.#end);
  }

  #take() {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    this.#worker.unref();
    return waiting;
  }
}

function errorOf({ name, message }: { readonly name: string; readonly message: string }): Error {
  if (name === "InputError") return new InputError(message);
  if (name === "InvariantError") return new InvariantError(message);
  return new ExecutorError(`the executor failed: ${message}`);
}
