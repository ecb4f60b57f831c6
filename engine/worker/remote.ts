import { assert, InputError, InvariantError } from "../../core/errors.ts";
import { ExecutorError, UnavailableError } from "../executor.ts";
import type { ExecutorRequest, LoadRequest, WorkerResponse } from "./protocol.ts";
import type { Thread } from "./thread.ts";

/** Client of a worker thread: one call at a time; a pending call is rejected if the worker dies. */
export class Remote<Load extends LoadRequest> {
  readonly #thread: Thread;
  #pending: { resolve(value: unknown): void; reject(error: Error): void } | undefined;
  /** Set when the worker has ended: the error of further calls. */
  #failure: Error | undefined;

  constructor(thread: Thread) {
    this.#thread = thread;
    thread.listen(
      (message) => {
        const response = message as WorkerResponse;
        const pending = this.#takePending();
        if ("value" in response) pending?.resolve(response.value);
        else pending?.reject(errorOf(response.error));
      },
      (cause) => this.#died(cause),
    );
  }

  /** @throws ExecutorError if the worker has died or dies during the call, with the cause; rethrows the worker's errors */
  async call<Value>(request: Load | ExecutorRequest, transferred: readonly ArrayBuffer[] = []): Promise<Value> {
    if (this.#failure) throw this.#failure;
    assert(this.#pending === undefined, "one call at a time");
    return new Promise<unknown>((resolve, reject) => {
      this.#pending = { resolve, reject };
      this.#thread.keepAlive(true);
      this.#thread.post(request, transferred);
    }) as Promise<Value>;
  }

  async close(): Promise<void> {
    if (!this.#failure) {
      try {
        await this.call({ kind: "close" });
      } finally {
        this.#failure = new ExecutorError("the executor has been closed");
        await this.#thread.terminate();
      }
    }
  }

  #died(cause: string): void {
    this.#failure ??= new ExecutorError(`the executor's worker thread died: ${cause}`);
    this.#takePending()?.reject(this.#failure);
  }

  #takePending() {
    const pending = this.#pending;
    this.#pending = undefined;
    this.#thread.keepAlive(false);
    return pending;
  }
}

function errorOf({ name, message }: { readonly name: string; readonly message: string }): Error {
  if (name === "InputError") return new InputError(message);
  if (name === "InvariantError") return new InvariantError(message);
  if (name === "UnavailableError") return new UnavailableError(message);
  if (name === "ExecutorError") return new ExecutorError(message);
  return new ExecutorError(`the executor failed: ${message}`);
}
