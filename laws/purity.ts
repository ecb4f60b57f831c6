import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import os from "node:os";
import type { Law } from "./law.ts";

export const pure: Law = {
  name: "pure",
  says: "it reads no clock, no chance but context.random, and nothing of the process",
};

type Call = (...args: never[]) => unknown;

/** Users' files are imported as data. */
const userCode = /data:text\/javascript/;

/** Milliseconds of a day in the future: no clock that somebody's code reads here is the real one. */
const firstMs = Date.UTC(2030, 0, 1);

/**
 * Everything that differs from run to run: clocks, chance, the process. Replaced for the rest of the program, so that
 * what is read is known, and which call reads it. Somebody's code sees a clock of ours, which jumps from one cache to
 * the next and stands still in two of four; everybody else the real one.
 */
export class Sources {
  /** The call of somebody's code that is under way; undefined in our own code. */
  reader: () => string | undefined = () => undefined;
  /** What was read, with the calls that did. */
  readonly #uses = new Map<string, Set<string>>();
  #clockMs = firstMs;
  #caches = 0;

  constructor() {
    this.#replaceDate();
    const clock = "the wall clock";
    this.#replace(performance, "now", clock, "performance.now", () => this.#tick() - firstMs);
    this.#replace(process, "uptime", clock, "process.uptime", () => (this.#tick() - firstMs) / 1000);
    this.#replaceHrtime();
    this.#replace(Math, "random", "chance that is not seeded", "Math.random");
    for (const name of ["getRandomValues", "randomUUID"] as const)
      this.#replace(globalThis.crypto, name, "chance that is not seeded", `crypto.${name}`);
    for (const name of ["randomBytes", "randomInt", "randomUUID", "randomFillSync"] as const)
      this.#replace(crypto, name, "chance that is not seeded", `crypto.${name}`);
    for (const name of ["setTimeout", "setInterval", "setImmediate"] as const)
      this.#replace(globalThis, name, "the wall clock, with a timer", name);
    for (const name of ["memoryUsage", "cpuUsage", "resourceUsage"] as const)
      this.#replace(process, name, "the state of the process", `process.${name}`);
    for (const name of ["pid", "ppid"] as const) this.#replaceValue(process, name, `process.${name}`);
    for (const name of ["hostname", "freemem", "uptime", "loadavg"] as const)
      this.#replace(os, name, "the state of the machine", `os.${name}`);
    // Named imports of these modules are bound anew.
    syncBuiltinESMExports();
  }

  /** Each source with who reads it: "reads the wall clock (Date.now) in add()". */
  uses(): string[] {
    return [...this.#uses].map(([source, readers]) => `reads ${source} ${[...readers].join(", ")}`);
  }

  /** A cache of its own: the clock is another one. */
  jump(): void {
    this.#clockMs += 86_400_000;
    this.#caches++;
  }

  #tick(): number {
    if (this.#caches % 4 < 2) this.#clockMs++;
    return this.#clockMs;
  }

  /** Whether somebody's code reads, which is then written down. */
  #isRead(what: string, name: string): boolean {
    const reader = this.reader();
    if (reader === undefined) return false;
    const source = `${what} (${name})`;
    const readers = this.#uses.get(source);
    if (readers) readers.add(reader);
    else this.#uses.set(source, new Set([reader]));
    return true;
  }

  #replace<T extends object>(owner: T, key: keyof T & string, what: string, name: string, ours?: () => unknown): void {
    const original = owner[key] as Call | undefined;
    const isFixed = Object.getOwnPropertyDescriptor(owner, key)?.configurable === false;
    if (typeof original !== "function" || isFixed) return;
    const isRead = () => this.#isRead(what, name);
    const replaced = function (this: unknown, ...args: never[]) {
      const read = isRead();
      return read && ours ? ours() : original.apply(this, args);
    };
    Object.defineProperty(owner, key, {
      value: Object.assign(replaced, original),
      configurable: true,
      writable: true,
      enumerable: true,
    });
  }

  #replaceValue<T extends object>(owner: T, key: keyof T & string, name: string): void {
    const value = owner[key];
    const get = () => {
      // Importing node:process reads all of it.
      if (userCode.test(new Error().stack?.split("\n")[2] ?? "")) this.#isRead("the state of the process", name);
      return value;
    };
    Object.defineProperty(owner, key, { get, configurable: true, enumerable: true });
  }

  #replaceHrtime(): void {
    const { hrtime } = process;
    const nanos = () => BigInt(this.#tick() - firstMs) * 1_000_000n;
    const bigint = () => (this.#isRead("the wall clock", "process.hrtime.bigint") ? nanos() : hrtime.bigint());
    const ours = (before?: [number, number]): [number, number] => {
      if (!this.#isRead("the wall clock", "process.hrtime")) return hrtime(before);
      const now = nanos() - (before ? BigInt(before[0]) * 1_000_000_000n + BigInt(before[1]) : 0n);
      return [Number(now / 1_000_000_000n), Number(now % 1_000_000_000n)];
    };
    process.hrtime = Object.assign(ours, { bigint });
  }

  #replaceDate(): void {
    const original = Date;
    const { now } = Date;
    const isRead = (name: string) => this.#isRead("the wall clock", name);
    Date.now = () => (isRead("Date.now") ? this.#tick() : now());
    globalThis.Date = new Proxy(original, {
      construct: (_, args: [], newTarget) =>
        args.length === 0 && isRead("new Date")
          ? Reflect.construct(original, [this.#tick()], newTarget)
          : Reflect.construct(original, args, newTarget),
      apply: () => (isRead("Date") ? new original(this.#tick()).toString() : original()),
    });
  }
}
