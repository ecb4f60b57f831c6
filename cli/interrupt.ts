import { exitNow } from "./print.ts";

/** Ctrl-C or SIGTERM: not an error of anybody. */
export class Interrupted extends Error {
  override name = "Interrupted";
}

let received = false;

const signals = ["SIGINT", "SIGTERM"] as const;
let left = false;

function hear(): void {
  if (received) exitNow(130);
  received = true;
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
  if (left) return;
  left = true;
  for (const signal of signals) process.off(signal, hear);
}

/** Watches signals again during an act that leaves something to clean up. */
export async function watchingSignals(act: () => Promise<void>): Promise<void> {
  if (left) watchSignals();
  try {
    await act();
  } finally {
    if (left) for (const signal of signals) process.off(signal, hear);
  }
}

/**
 * Lets waiting signals in. Long work calls it every few dozen milliseconds, as signals are not heard while it runs.
 *
 * @throws Interrupted if there was one.
 */
export async function breathe(): Promise<void> {
  await new Promise((resume) => setImmediate(resume));
  if (received) throw new Interrupted("interrupted");
}
