import type { Worker } from "node:worker_threads";
import { InputError } from "../../core/errors.ts";
import { newThread, type Program } from "../../engine/worker/thread.ts";
import { stoppingAt, throwIfInterrupted } from "../control.ts";

/** From a thread: work that it has done since the last message, the result of its task, or its error. */
export type ThreadMessage<Result> =
  | { readonly work: number }
  | { readonly result: Result }
  | { readonly error: { readonly name: string; readonly message: string } };

/** Progress and cancellation of tasks. */
export interface TaskOptions {
  /** Called with the work that a task has done since the last call. */
  readonly advance: (work: number) => void;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Threads that run tasks, one at a time each; their program calls `serveTasks`. A thread starts with the first task that needs it, and
 * all run until `close`. Tasks, results and `data` are copied to other threads, except for shared memory.
 */
export class TaskThreads<Task, Result> {
  readonly #program: Program;
  readonly #data: object;
  readonly #most: number;
  readonly #workers: Worker[] = [];

  /** `data`: the thread's `workerData`. `most`: most threads. */
  constructor(program: Program, data: object, most: number) {
    this.#program = program;
    this.#data = data;
    this.#most = most;
  }

  /** Runs all tasks; results are in their order. If a task fails, no further one begins. @throws Interrupted, InputError */
  async run(tasks: readonly Task[], { advance, signal }: TaskOptions): Promise<Result[]> {
    const results: Result[] = [];
    let next = 0;
    const serve = (worker: Worker) =>
      new Promise<void>((resolve, reject) => {
        let task = -1;
        const begin = () => {
          task = next++;
          if (task >= tasks.length) resolve();
          else worker.postMessage(tasks[task]);
        };
        worker.removeAllListeners();
        worker.on("message", (message: ThreadMessage<Result>) => {
          if ("work" in message) advance(message.work);
          else if ("error" in message) reject(errorOf(message.error));
          else {
            results[task] = message.result;
            begin();
          }
        });
        worker.on("error", reject);
        worker.on("exit", (code) => reject(new Error(`a thread exited with code ${code}`)));
        begin();
      });
    try {
      await stoppingAt(
        signal,
        () => this.close(),
        async () => {
          const count = Math.min(this.#most, tasks.length);
          while (this.#workers.length < count) this.#workers.push(newThread(this.#program, this.#data));
          await Promise.all(this.#workers.slice(0, count).map(serve));
        },
      );
    } catch (error) {
      this.close();
      throwIfInterrupted(signal);
      throw error;
    }
    return results;
  }

  /** Ends all threads. */
  close(): void {
    for (const worker of this.#workers.splice(0)) void worker.terminate();
  }
}

const errorOf = ({ name, message }: { readonly name: string; readonly message: string }): Error =>
  name === "InputError" ? new InputError(message) : new Error(message);
