import { assert, InputError, InvariantError } from "../../core/errors.ts";
import { ExecutorError } from "../executor.ts";
import type { Thread } from "./thread.ts";
import type { WorkerRequest, WorkerResponse } from "./worker.ts";

/** Client of a worker thread: one request at a time; a pending request is rejected if the worker dies. */
export class Remote {
  readonly #thread: Thread;
  #waiting: { resolve(value: unknown): void; reject(error: Error): void } | undefined;
  /** Why the worker is gone. */
  #end: Error | undefined;

  constructor(thread: Thread) {
    this.#thread = thread;
    thread.listen(
      (message) => {
        const answer = message as WorkerResponse;
        const waiting = this.#take();
        if ("value" in answer) waiting?.resolve(answer.value);
        else waiting?.reject(errorOf(answer.error));
      },
      (cause) => this.#died(cause),
    );
  }

  /** @throws ExecutorError if the worker has died or dies meanwhile, with its cause; what the worker threw */
  async ask<Value>(ask: WorkerRequest): Promise<Value> {
    if (this.#end) throw this.#end;
    assert(this.#waiting === undefined, "one call at a time");
    return new Promise<unknown>((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#thread.hold(true);
      this.#thread.post(ask);
    }) as Promise<Value>;
  }

  async close(): Promise<void> {
    if (!this.#end) {
      try {
        await this.ask({ kind: "close" });
      } finally {
        this.#end = new ExecutorError("the executor has been closed");
        await this.#thread.terminate();
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
    this.#thread.hold(false);
    return waiting;
  }
}

function errorOf({ name, message }: { readonly name: string; readonly message: string }): Error {
  if (name === "InputError") return new InputError(message);
  if (name === "InvariantError") return new InvariantError(message);
  if (name === "ExecutorError") return new ExecutorError(message);
  return new ExecutorError(`the executor failed: ${message}`);
}
