/** An invariant is violated: a bug in kvlab. Never caught, so that its stack trace is printed. */
export class InvariantError extends Error {
  override name = "InvariantError";
}

/** Invalid input: a file, an option or a user's plug-in. The command line prints the message as one line and exits with 2. */
export class InputError extends Error {
  override name = "InputError";
}

/** Invalid trace file. The message begins with the file and, where there is one, the line number. */
export class TraceError extends InputError {
  override name = "TraceError";
}

/** A plug-in broke its contract: it threw, its victim is not evictable, or it has no victim although entries are evictable. */
export class PolicyError extends InputError {
  override name = "PolicyError";
}

/** Throws an `InvariantError`; the message states the numbers that disagree. It is a function where it is costly to build. */
export function assert(condition: boolean, message: string | (() => string)): asserts condition {
  if (!condition) throw new InvariantError(typeof message === "string" ? message : message());
}
