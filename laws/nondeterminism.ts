import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import os from "node:os";
import type { Law } from "./law.ts";

export const noHiddenInputs: Law = {
  name: "no-hidden-inputs",
  statement: "it reads no clock, no random source other than context.random, and no state of the process",
};

type Call = (...args: never[]) => unknown;

/** Users' files are imported as data URLs. */
const userCode = /data:text\/javascript/;

/** Start of the fake clock, in ms since 1970: later than now, so that a plug-in never sees the real time. */
const firstMs = Date.UTC(2030, 0, 1);

/**
 * Replaces all sources of nondeterminism (clocks, random numbers, process state) until `restore`, and records which of them a
 * plug-in reads in which call. Within a call of the plug-in, clocks are fake: they differ between caches
 * by a jump, and do not advance in two of four caches. All other code reads the real clocks.
 */
export class NondeterministicSources {
  /** The running call of the plug-in, as text; undefined outside of the plug-in. */
  reader: () => string | undefined = () => undefined;
  /** By source: the calls that read it. */
  readonly #uses = new Map<string, Set<string>>();
  /** Each restores one original. */
  readonly #restored: (() => void)[] = [];
  #clockMs = firstMs;
  #caches = 0;

  constructor() {
    this.#replaceDate();
    const clock = "the wall clock";
    this.#replace(performance, "now", clock, "performance.now", () => this.#tick() - firstMs);
    this.#replace(process, "uptime", clock, "process.uptime", () => (this.#tick() - firstMs) / 1000);
    this.#replaceHrtime();
    this.#replace(Math, "random", "unseeded random numbers", "Math.random");
    for (const name of ["getRandomValues", "randomUUID"] as const)
      this.#replace(globalThis.crypto, name, "unseeded random numbers", `crypto.${name}`);
    for (const name of ["randomBytes", "randomInt", "randomUUID", "randomFillSync"] as const)
      this.#replace(crypto, name, "unseeded random numbers", `crypto.${name}`);
    for (const name of ["setTimeout", "setInterval", "setImmediate"] as const)
      this.#replace(globalThis, name, "the wall clock, with a timer", name);
    for (const name of ["memoryUsage", "cpuUsage", "resourceUsage"] as const)
      this.#replace(process, name, "the state of the process", `process.${name}`);
    for (const name of ["pid", "ppid"] as const) this.#replaceValue(process, name, `process.${name}`);
    for (const name of ["hostname", "freemem", "uptime", "loadavg"] as const)
      this.#replace(os, name, "the state of the machine", `os.${name}`);
    // Updates named imports of these modules.
    syncBuiltinESMExports();
  }

  /** Restores the originals. */
  restore(): void {
    for (const restored of this.#restored.splice(0).reverse()) restored();
    syncBuiltinESMExports();
  }

  /** Each source with the calls that read it: "reads the wall clock (Date.now) in add()". */
  uses(): string[] {
    return [...this.#uses].map(([source, readers]) => `reads ${source} ${[...readers].join(", ")}`);
  }

  /** Advances the fake clock by a day; called for each new cache. */
  jump(): void {
    this.#clockMs += 86_400_000;
    this.#caches++;
  }

  #tick(): number {
    if (this.#caches % 4 < 2) this.#clockMs++;
    return this.#clockMs;
  }

  /** Records the read and returns true if a plug-in's call is running. */
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
    const value = Object.assign(replaced, original);
    this.#define(owner, key, { value, configurable: true, writable: true, enumerable: true });
  }

  #define(owner: object, key: string, descriptor: PropertyDescriptor): void {
    const before = Object.getOwnPropertyDescriptor(owner, key);
    this.#restored.push(() => {
      if (before) Object.defineProperty(owner, key, before);
      else delete (owner as Record<string, unknown>)[key];
    });
    Object.defineProperty(owner, key, descriptor);
  }

  #replaceValue<T extends object>(owner: T, key: keyof T & string, name: string): void {
    const value = owner[key];
    const get = () => {
      // An import of node:process reads all properties; only reads from user code count.
      if (userCode.test(new Error().stack?.split("\n")[2] ?? "")) this.#isRead("the state of the process", name);
      return value;
    };
    this.#define(owner, key, { get, configurable: true, enumerable: true });
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
    this.#restored.push(() => {
      process.hrtime = hrtime;
    });
  }

  #replaceDate(): void {
    const original = Date;
    const { now } = Date;
    const isRead = (name: string) => this.#isRead("the wall clock", name);
    Date.now = () => (isRead("Date.now") ? this.#tick() : now());
    this.#restored.push(() => {
      Date.now = now;
      globalThis.Date = original;
    });
    globalThis.Date = new Proxy(original, {
      construct: (_, args: [], newTarget) =>
        args.length === 0 && isRead("new Date")
          ? Reflect.construct(original, [this.#tick()], newTarget)
          : Reflect.construct(original, args, newTarget),
      apply: () => (isRead("Date") ? new original(this.#tick()).toString() : original()),
    });
  }
}
