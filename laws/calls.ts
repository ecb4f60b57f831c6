import { InputError, InvariantError } from "../core/errors.ts";
import type { EvictionPlugin, EvictionPolicy, IndexPlugin, PrefixIndex, Signal } from "../core/plugins/index.ts";
import { batchMethods, indexHooks, invalidMethod, policyHooks } from "../core/plugins/optional-methods.ts";
import { callsReturn, victimIsEvictable } from "./contract-laws.ts";
import { LawBroken } from "./law.ts";

/** One call of a plug-in: its method, arguments and result, as far as those are numbers and strings. */
export interface Call {
  readonly method: string;
  readonly args: readonly unknown[];
  /** Absent while the call is running, or if it threw. */
  result?: unknown;
}

/** Records the calls of a plug-in: one list per instance that was created since `clear`. */
export class CallLog {
  /** Name of the running call. */
  open: string | undefined;
  /** A policy with `prepare` was created. */
  readsFuture = false;
  readonly #describe: (error: unknown) => string;
  readonly #starts: () => void;
  #created: Call[][] = [];

  /** `describe` formats a thrown value in one line; `starts` is called before an instance is created. */
  constructor(describe: (error: unknown) => string, starts: () => void) {
    this.#describe = describe;
    this.#starts = starts;
  }

  get created(): readonly (readonly Call[])[] {
    return this.#created;
  }

  clear(): void {
    this.#created = [];
    this.open = undefined;
  }

  start(): Call[] {
    this.#starts();
    const calls: Call[] = [];
    this.#created.push(calls);
    return calls;
  }

  /** Calls the user's code. @throws LawBroken if it throws. */
  make<Result>(calls: Call[], method: string, args: readonly unknown[], call: () => Result): Result {
    const made: Call = { method, args };
    calls.push(made);
    this.open = method;
    try {
      const result = call();
      made.result = result;
      return result;
    } catch (error) {
      // Failed assertions of the cache have their own message.
      if (error instanceof LawBroken || error instanceof InvariantError) throw error;
      throw new LawBroken(callsReturn, `${method}() threw: ${this.#describe(error)}`);
    } finally {
      this.open = undefined;
    }
  }
}

const required = ["add", "remove", "victim"] as const;
/** The optional methods whose wrappers record their arguments as text. */
const optional = [
  ...(["published", "hit", "split", "resized", "prepare", "addMany", "signal"] as const),
  ...(["nextToExpire", "expiresAt"] as const),
] as const;

/**
 * Wraps a policy: its calls are recorded and its exceptions become broken laws.
 * `create` throws InputError if the created object is not a policy.
 */
export function recordedPolicy(plugin: EvictionPlugin, log: CallLog): EvictionPlugin {
  return {
    ...plugin,
    create(context) {
      const calls = log.start();
      const inner = log.make(calls, "create", [], () => plugin.create(context));
      const missing = required.find((name) => typeof inner?.[name] !== "function");
      if (missing)
        throw new InputError(`create() returned no policy with ${missing}(), expected ${required.join(", ")}`);
      refuseInvalid(inner, [...policyHooks, ...batchMethods]);
      const policy: EvictionPolicy = {
        add: (entry) => log.make(calls, "add", [entry], () => inner.add(entry)),
        remove: (entry, why) => log.make(calls, "remove", [entry, why], () => inner.remove(entry, why)),
        victim(now) {
          const victim: unknown = log.make(calls, "victim", [], () => inner.victim(now));
          if (victim === undefined || typeof victim === "number") return victim;
          const type = victim === null ? "null" : typeof victim;
          throw new LawBroken(victimIsEvictable, `victim() returned ${type}, expected an entry or undefined`);
        },
        begin: (request, now) => log.make(calls, "begin", [request.id], () => inner.begin?.(request, now)),
      };
      if (inner.prepare) log.readsFuture = true;
      for (const name of optional) {
        const own = inner[name] as ((...args: unknown[]) => unknown) | undefined;
        if (!own) continue;
        const wrapped = (...args: unknown[]) =>
          log.make(calls, name, shownArgs(name, args), () => own.apply(inner, args));
        Object.assign(policy, { [name]: wrapped });
      }
      if (inner.admits) {
        policy.admits = (request, from, to) =>
          log.make(calls, "admits", [request.id, from, to], () => inner.admits!(request, from, to));
      }
      if (inner.takeMany) {
        policy.takeMany = (into, from, to) => {
          const taken: number[] = [];
          const end = log.make(calls, "takeMany", [to - from, taken], () => inner.takeMany!(into, from, to));
          for (let at = from; at < end; at++) taken.push(into[at]);
          return end;
        };
      }
      if (inner.takeNext) {
        policy.takeNext = (added) => log.make(calls, "takeNext", [added], () => inner.takeNext!(added));
      }
      return policy;
    },
  };
}

/** @throws InputError if one of these optional methods is not a function */
function refuseInvalid(made: object, names: readonly string[]): void {
  const invalid = invalidMethod(made, names);
  if (invalid !== undefined) throw new InputError(invalid);
}

function shownArgs(method: (typeof optional)[number], args: readonly unknown[]): readonly unknown[] {
  if (method === "addMany") return [...(args[0] as Int32Array).subarray(0, args[1] as number)];
  if (method === "prepare") return [];
  if (method === "signal") return [(args[0] as Signal).name, args[1]];
  return args.filter((arg) => typeof arg === "number");
}

const requiredOfIndex = [
  ...["match", "matched", "referenced", "released", "insert", "evict", "drop"],
  ...["blocks", "isEvictable", "entryOf", "grow", "expectKeys"],
] as (keyof PrefixIndex)[];

/** Wraps an index: its calls are recorded and its exceptions become broken laws; `create` throws as above. */
export function recordedIndex(plugin: IndexPlugin, log: CallLog): IndexPlugin {
  return {
    ...plugin,
    create(context, blockCount) {
      const calls = log.start();
      const inner = log.make(calls, "create", [blockCount], () => plugin.create(context, blockCount));
      const missing = requiredOfIndex.find((name) => typeof inner?.[name] !== "function");
      if (missing)
        throw new InputError(`create() returned no index with ${missing}(), expected ${requiredOfIndex.join(", ")}`);
      refuseInvalid(inner, indexHooks);
      return new Proxy(inner, {
        get(_, name: keyof PrefixIndex & string) {
          const value: unknown = Reflect.get(inner, name, inner);
          if (typeof value !== "function") return value;
          return (...args: unknown[]) => {
            const numbers = args.filter((arg) => typeof arg === "number");
            return log.make(calls, name, numbers, () => value.apply(inner, args));
          };
        },
        set: (_, name, value) => Reflect.set(inner, name, value),
      });
    },
  };
}

const mostCalls = 40;

/** The calls as text, in order; repeated identical calls are left out. */
export function callLines(calls: readonly Call[], { victims = true } = {}): string[] {
  const words = calls.filter(({ method }) => victims || method !== "victim").map(wordsOf);
  return words.filter((word, at) => word !== words[at - 1]);
}

/** The last calls, with the number of those before them. */
export function lastCalls(lines: readonly string[]): string {
  const shown = lines.slice(-mostCalls);
  const before = lines.length - shown.length;
  return `${before > 0 ? `… ${before} calls before … ` : ""}${shown.join(" ")}`;
}

/** Two lists of calls, from shortly before their first difference. */
export function fromDivergence(one: readonly string[], other: readonly string[]): readonly [string, string] {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at++;
  const from = Math.max(0, at - 12);
  const part = (lines: readonly string[]) => {
    const shown = lines.slice(from, at + 6);
    return `${from > 0 ? "… " : ""}${shown.join(" ")}${lines.length > at + 6 ? " …" : ""}`;
  };
  return [part(one), part(other)];
}

function wordsOf({ method, args, ...call }: Call): string {
  if (method === "begin") return `begin(request ${args[0]})`;
  if (method === "takeMany") return `takeMany(${args[0]}) → ${(args[1] as number[]).join(" ")}`;
  const called = `${method}(${args.join(", ")})`;
  return method === "victim" && "result" in call ? `${called} → ${call.result ?? "none"}` : called;
}
