/** How far a long call has come. */
export interface Progress {
  /** Such as "reading trace" or "simulating". */
  readonly doing: string;
  /** Units of work done; their number in all, unless it is unknown. */
  readonly done: number;
  readonly total?: number;
}

/** How a caller follows and stops a long call. */
export interface Control {
  readonly progress?: ((progress: Progress) => void) | undefined;
  /** Once aborted, the call rejects with `Interrupted`, or returns a partial result where it documents one. */
  readonly signal?: AbortSignal | undefined;
}

/** Reports the progress of a call whose amount of work is known; returns what adds to the work done. */
export function counting({ progress }: Control, doing: string, total: number): (work: number) => void {
  let done = 0;
  progress?.({ doing, done, total });
  return (work) => {
    done += work;
    progress?.({ doing, done, total });
  };
}

/** The call was stopped by its `AbortSignal`. */
export class Interrupted extends Error {
  override name = "Interrupted";

  constructor(what = "") {
    super(`interrupted${what}`);
  }
}

/** @throws Interrupted if the signal is aborted */
export function throwIfInterrupted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new Interrupted();
}

/**
 * Lets timers, signals and callbacks run. Long calls await it every few dozen milliseconds.
 *
 * @throws Interrupted if the signal is aborted
 */
export async function breathe(signal?: AbortSignal): Promise<void> {
  await new Promise((resume) => setImmediate(resume));
  throwIfInterrupted(signal);
}

/** Calls `stop` if the signal is aborted while `act` runs. @throws Interrupted if it is aborted already */
export async function stoppingAt<Result>(
  signal: AbortSignal | undefined,
  stop: () => void,
  act: () => Promise<Result>,
): Promise<Result> {
  throwIfInterrupted(signal);
  signal?.addEventListener("abort", stop, { once: true });
  try {
    return await act();
  } finally {
    signal?.removeEventListener("abort", stop);
  }
}
