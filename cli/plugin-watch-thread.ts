/** `workerData` of the watch thread. */
export interface WatchData {
  /** Number of the running call of plug-in code, as in `RunningCalls`. */
  readonly outermost: Int32Array;
  /** 1 while the thread is connected to the main thread, otherwise 0. */
  readonly connected: Int32Array;
  /** Expression of the function that the main thread calls with the running time of the plug-in call in ms. */
  readonly look: string;
  readonly pollMs: number;
  /** Time between two evaluations of `look` during one call. */
  readonly lookMs: number;
  /** Growth of the process's memory that triggers an evaluation. */
  readonly growthBytes: number;
  /** Up to this process size, memory growth triggers an evaluation only in a call that spans two polls. */
  readonly smallBytes: number;
  /** The process is killed if the main thread does not evaluate the expression within this time. */
  readonly killMs: number;
}

/**
 * The program of the watch thread, whose source text is evaluated: it uses nothing outside of this function.
 *
 * Polls the number of the running call and the size of the process. When a call has not returned for a while or memory has
 * grown, it requests an evaluation on the main thread, which V8 runs even between two iterations of a loop. A call that
 * blocks outside of JavaScript, as `execSync` does, can only be killed.
 */
export function watchThread(): void {
  const { workerData } = process.getBuiltinModule("node:worker_threads");
  const { Session } = process.getBuiltinModule("node:inspector");
  const { writeSync } = process.getBuiltinModule("node:fs");
  const { outermost, connected, look, pollMs, lookMs, growthBytes, smallBytes, killMs } = workerData as WatchData;
  const { rss } = process.memoryUsage;
  let last = 0;
  let runningMs = 0;
  let lastBytes = rss();
  let waitingMs = 0;
  setInterval(() => {
    const call = Atomics.load(outermost, 0);
    if (call < 0) return;
    runningMs = call !== 0 && call === last ? runningMs + pollMs : 0;
    last = call;
    waitingMs = connected[0] === 1 && call !== 0 ? waitingMs + pollMs : 0;
    if (waitingMs >= killMs) {
      writeSync(
        2,
        `kvlab: a call of a plug-in file blocks outside of JavaScript; killed after ${waitingMs / 1000} s\n`,
      );
      process.kill(process.pid, "SIGKILL");
    }
    const bytes = rss();
    lastBytes = Math.min(lastBytes, bytes);
    const hasGrown = bytes - lastBytes >= growthBytes && (runningMs > 0 || bytes > smallBytes);
    const isDue = hasGrown || (runningMs > 0 && runningMs % lookMs === 0);
    if (connected[0] === 1 || !isDue) return;
    lastBytes = bytes;
    // In this order: after the main thread has set -1, either it sees that the thread is connected, or the thread sees -1.
    Atomics.store(connected, 0, 1);
    if (Atomics.load(outermost, 0) < 0) {
      Atomics.store(connected, 0, 0);
      return;
    }
    const session = new Session();
    session.connectToMainThread();
    session.post("Runtime.evaluate", { expression: `${look}(${runningMs})` }, () => {
      session.disconnect();
      Atomics.store(connected, 0, 0);
    });
  }, pollMs);
}
