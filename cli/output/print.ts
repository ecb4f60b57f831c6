/** Where the program's own output goes, whatever happens to `process.stdout` later. */
const write = process.stdout.write.bind(process.stdout);

/** Ends the program, also where users' code may not. */
export const exitNow: (code?: number | string | null) => never = process.exit.bind(process);

/** The output could not be written, as to a full disk: not an error of the program or of its input. */
export class OutputError extends Error {
  override name = "OutputError";
}

/** Writes to stdout. @throws OutputError, unless the error comes later and as an event (`endWithReader`). */
export function print(text: string): void {
  try {
    write(text);
  } catch (error) {
    throw outputError(error as NodeJS.ErrnoException);
  }
}

export const outputError = ({ code, message }: NodeJS.ErrnoException) =>
  new OutputError(`the output cannot be written (${code ?? message})`);

/** From now on all that is not printed with `print`, such as `console.log` in a user's policy, goes to stderr. */
export function keepStdoutClean(): void {
  process.stdout.write = process.stderr.write.bind(process.stderr) as typeof process.stdout.write;
}

/** When all is written. */
export const printed = () => new Promise<void>((done) => write("", () => done()));

/** One line on stderr, whatever the message. */
export function complain(message: string, exitCode: number): number {
  process.stderr.write(`kvlab: ${message.trim().replace(/\s*\n\s*/g, " ")}\n`);
  return exitCode;
}
