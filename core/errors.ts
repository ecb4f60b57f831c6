/** An invariant is violated: an error of the program. Never caught, so that its stack is printed. */
export class InvariantError extends Error {
  override name = "InvariantError";
}

/** The input is wrong: a file, an option or a user's policy. The command line prints it as one line and exits with 2. */
export class InputError extends Error {
  override name = "InputError";
}

/** A trace file is wrong. The message begins with the file and, where there is one, the line. */
export class TraceError extends InputError {
  override name = "TraceError";
}

/** A plug-in broke its contract: it threw, named an entry that may not go, or has no victim although there is one. */
export class PolicyError extends InputError {
  override name = "PolicyError";
}

/** Fails with the numbers that do not fit together. The message is a function only where building it costs something. */
export function assert(condition: boolean, message: string | (() => string)): asserts condition {
  if (!condition) throw new InvariantError(typeof message === "string" ? message : message());
}
