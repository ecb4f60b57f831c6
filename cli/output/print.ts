import { Writable } from "node:stream";

/** The original `process.stdout.write`: `keepStdoutClean` replaces it for plug-in code. */
const write = process.stdout.write.bind(process.stdout);

/** The original `process.exit`, which is replaced for plug-in code. */
export const exitNow: (code?: number | string | null) => never = process.exit.bind(process);

/** The output cannot be written, for example to a full disk: neither a bug nor bad input. */
export class OutputError extends Error {
  override name = "OutputError";
}

/** Writes to stdout. @throws OutputError, unless the error is reported later by an event (`endWithReader`). */
export function print(text: string): void {
  try {
    write(text);
  } catch (error) {
    throw outputError(error as NodeJS.ErrnoException);
  }
}

export const outputError = ({ code, message }: NodeJS.ErrnoException) =>
  new OutputError(`the output cannot be written (${code ?? message})`);

/** Redirects all output but that of `print`, such as `console.log` in a plug-in file, to stderr. */
export function keepStdoutClean(): void {
  process.stdout.write = process.stderr.write.bind(process.stderr) as typeof process.stdout.write;
}

/** Standard output as a stream, with back-pressure. An error of a pipe ends the program by its event (`endWithReader`). */
export const standardOutput = (): Writable =>
  new Writable({
    write(chunk: Uint8Array, _, done) {
      try {
        write(chunk, (error) => {
          if (!error) done();
        });
      } catch (error) {
        done(outputError(error as NodeJS.ErrnoException));
      }
    },
  });

/** Resolves when all output is written. */
export const printed = () => new Promise<void>((done) => write("", () => done()));

/** An error message as one line. */
export const oneLine = (message: string) => `kvlab: ${message.trim().replace(/\s*\n\s*/g, " ")}\n`;

/** Writes the message as one line to stderr and returns the exit code. */
export function complain(message: string, exitCode: number): number {
  process.stderr.write(oneLine(message));
  return exitCode;
}
