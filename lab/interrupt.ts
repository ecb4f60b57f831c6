import { exitNow } from "./print.ts";

/** Ctrl-C or SIGTERM: not an error of anybody. */
export class Interrupted extends Error {
  override name = "Interrupted";

  constructor(what = "") {
    super(`interrupted${what}`);
  }
}

/** What has come, and what is to be done about it. */
const state: {
  received: boolean;
  /** What a first signal does, where it does not end the program: one of each run that is under way. */
  readonly stops: Set<() => void>;
  /** What was done is kept: the program does not end at its next `breathe`. */
  keeps: boolean;
  /** What the program is to end with when that has stopped. */
  exitCode: number | undefined;
  /** Signals are the system's. */
  left: boolean;
} = { received: false, stops: new Set(), keeps: false, exitCode: undefined, left: false };

const signals = ["SIGINT", "SIGTERM"] as const;

function hear(): void {
  const { stops } = state;
  if (state.received) {
    if (stops.size > 0) endBySystem();
    exitNow(130);
  }
  state.received = true;
  state.keeps = stops.size > 0;
  for (const stop of stops) stop();
}

/** A thread that is in the middle of a step cannot be ended from here without a crash; shells take this for 130, too. */
function endBySystem(): never {
  process.emit("exit", 130);
  for (const signal of signals) process.off(signal, hear);
  process.kill(process.pid, "SIGINT");
  exitNow(130);
}

/** From now on a signal ends the program at its next `breathe`, a second one at once. */
export function watchSignals(): void {
  for (const signal of signals) process.on(signal, hear);
}

/**
 * From now on a signal ends the program at once, by the system's hand: a user's policy may loop for ever, and then no
 * handler of ours would run.
 */
export function leaveSignals(): void {
  if (state.left) return;
  state.left = true;
  for (const signal of signals) process.off(signal, hear);
}

/** Watches signals again during an act in which no user's code runs. */
export async function watchingSignals<Result>(act: () => Promise<Result>): Promise<Result> {
  if (state.left) watchSignals();
  try {
    return await act();
  } finally {
    if (state.left) for (const signal of signals) process.off(signal, hear);
  }
}

/**
 * While it acts, a signal calls `stopping` and does not end the program: what was done is kept. A second one does, at once.
 *
 * @throws Interrupted if there was a signal before
 */
export async function stoppingAtSignal<Result>(stopping: () => void, act: () => Promise<Result>): Promise<Result> {
  if (state.received || state.exitCode !== undefined) throw new Interrupted();
  // Of its own, as several runs may be stopped alike.
  const stop = () => stopping();
  state.stops.add(stop);
  try {
    return await act();
  } finally {
    state.stops.delete(stop);
    if (state.exitCode !== undefined && state.stops.size === 0) exitNow(state.exitCode);
  }
}

/** Ends the program: at once, or when what is under way has stopped, as if there had been a signal. */
export function endSoon(code: number): void {
  if (state.stops.size === 0) exitNow(code);
  state.exitCode = code;
  for (const stop of state.stops) stop();
}

/**
 * Lets waiting signals in. Long work calls it every few dozen milliseconds, as signals are not heard while it runs.
 *
 * @throws Interrupted if there was one, and it was not said what to keep.
 */
export async function breathe(): Promise<void> {
  await new Promise((resume) => setImmediate(resume));
  if (state.received && !state.keeps) throw new Interrupted();
}
