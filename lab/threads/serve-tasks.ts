import { parentPort, workerData } from "node:worker_threads";
import { assert } from "../../core/errors.ts";
import type { ThreadMessage } from "./task-threads.ts";

/**
 * Makes this thread run the tasks of a `TaskThreads`. `advance` reports the work that a task has done since the last call; `data` is that
 * of the `TaskThreads`.
 */
export function serveTasks<Data, Task, Result>(
  run: (task: Task, data: Data, advance: (work: number) => void) => Promise<Result>,
): void {
  const parent = parentPort;
  assert(parent !== null, "this is the program of a thread");
  const post = (message: ThreadMessage<Result>) => parent.postMessage(message);
  parent.on("message", async (task: Task) => {
    try {
      post({ result: await run(task, workerData as Data, (work) => post({ work })) });
    } catch (error) {
      const { name, message } = error as Error;
      post({ error: { name, message } });
    }
  });
}
