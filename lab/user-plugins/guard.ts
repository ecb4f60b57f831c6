import { InvariantError, PolicyError, TraceError } from "../../core/errors.ts";
import { invalidMethod } from "../../core/plugins/optional-methods.ts";
import { type PluginCode, runningCalls } from "./running-calls.ts";
import { messageOf } from "./user-code.ts";

/** The members of an object that a plug-in creates. */
export interface Contract {
  /** "policy", "router", … as in messages. */
  readonly noun: string;
  readonly required: readonly string[];
  readonly optional?: readonly string[];
  /** Optional methods that are not copied. */
  readonly uncopied?: readonly string[];
  /** Properties that are numbers. */
  readonly numbers?: readonly string[];
  /** Properties that are copied. */
  readonly flags?: readonly string[];
}

/** Errors that name the plug-in that caused them. */
const allReported = new WeakSet<Error>();

function reported(error: PolicyError): PolicyError {
  allReported.add(error);
  return error;
}

type Methods = Record<string, (...args: never[]) => unknown>;

/** Calls the code of a user's plug-in: every exception becomes a PolicyError with file, method and request. */
export class Guard implements PluginCode {
  /** The plug-in's file, or the name of one that was passed as a value. */
  readonly file: string;
  /** The request that the plug-in was last called for. */
  request: number | undefined;

  constructor(file: string) {
    this.file = file;
  }

  get when(): string {
    return this.request === undefined ? "" : ` at request ${this.request}`;
  }

  describe(method: string): string {
    return `${method}()${this.when}`;
  }

  /** An error that names the file and the request. */
  error(method: string, why: string): PolicyError {
    return reported(new PolicyError(`${this.file}: ${method}${this.when} ${why}`));
  }

  /** The error of a method with an unexpected result. */
  result(method: string, found: unknown, expected: string): PolicyError {
    const shown = typeof found === "number" ? String(found) : found === null ? "null" : typeof found;
    return reported(new PolicyError(`${this.file}: ${method}() returned ${shown}${this.when}, expected ${expected}`));
  }

  call<Result>(method: string, call: () => Result): Result {
    runningCalls.enter(this, method);
    try {
      return call();
    } catch (error) {
      throw this.thrown(method, error);
    } finally {
      runningCalls.leave();
    }
  }

  /**
   * The error to report for one that a method threw; errors of other plug-ins, of the cache or of a trace file are unchanged.
   */
  thrown(method: string, error: unknown): unknown {
    if (
      error instanceof InvariantError ||
      error instanceof TraceError ||
      (error instanceof Error && allReported.has(error))
    )
      return error;
    return reported(new PolicyError(`${this.file}: ${method}() threw${this.when}: ${messageOf(error)}`));
  }

  /**
   * The object with guarded methods.
   *
   * @throws PolicyError if a required method or number is missing, or an optional method is not a function
   */
  object<T extends object>(
    made: T,
    { noun, required, optional = [], uncopied = [], numbers = [], flags = [] }: Contract,
  ): T {
    const own = made as Record<string, unknown> | undefined;
    for (const method of required) {
      if (typeof own?.[method] === "function") continue;
      throw new PolicyError(
        `${this.file}: create() returned no ${noun} with ${method}(), expected ${required.join(", ")}`,
      );
    }
    const invalid = invalidMethod(made, [...optional, ...uncopied]);
    if (invalid !== undefined) throw new PolicyError(`${this.file}: ${invalid}`);
    const guarded: Record<string, unknown> = {};
    for (const name of numbers) {
      if (typeof this.call(name, () => own?.[name]) !== "number")
        throw new PolicyError(`${this.file}: create() returned no ${noun} with ${name}, expected a number`);
      Object.defineProperty(guarded, name, { get: () => this.call(name, () => own?.[name]), enumerable: true });
    }
    for (const name of flags) if (own?.[name] !== undefined) guarded[name] = own[name];
    for (const name of [...required, ...optional]) {
      const method = (own as Methods)[name];
      if (method === undefined) continue;
      guarded[name] = (...args: never[]) => this.call(name, () => method.apply(made, args));
    }
    return guarded as T;
  }
}
