/** Progress of a long call. */
export interface Progress {
  /** Such as "reading trace" or "simulating". */
  readonly doing: string;
  /** Units of work done, and their total unless it is unknown. */
  readonly done: number;
  readonly total?: number;
}

/** Progress callback and cancellation of a long call. */
export interface Control {
  /** Called repeatedly while the function runs. */
  readonly progress?: ((progress: Progress) => void) | undefined;
  /** Called with each remark about the trace, such as an inferred unit or an implausible rate of requests. */
  readonly note?: ((text: string) => void) | undefined;
  /** Once aborted, the call rejects with `Interrupted`, or returns a partial result where it documents one. */
  readonly signal?: AbortSignal | undefined;
}

/** Reports the progress of a call; returns a function that adds to the work done. `total`: undefined if it is unknown. */
export function counting({ progress }: Control, doing: string, total?: number): (work: number) => void {
  let done = 0;
  const report = () => progress?.({ doing, done, ...(total !== undefined && { total }) });
  report();
  return (work) => {
    done += work;
    report();
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
export async function yieldToEvents(signal?: AbortSignal): Promise<void> {
  await new Promise((resume) => setImmediate(resume));
  throwIfInterrupted(signal);
}

/** Calls `stop` if the signal is aborted while `act` runs. @throws Interrupted if it was aborted before */
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
