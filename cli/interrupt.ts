/** Ctrl-C or SIGTERM: not an error of anybody. */
export class Interrupted extends Error {
  override name = "Interrupted";
}

let received = false;

/** From now on a signal ends the program at its next `breathe`, a second one at once. */
export function watchSignals(): void {
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      if (received) process.exit(130);
      received = true;
    });
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
