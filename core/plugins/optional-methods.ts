import type { EvictionPolicy } from "./eviction-policy.ts";
import type { PrefixIndex } from "./prefix-index.ts";

type OptionalOf<T> = { [K in keyof T]-?: Record<never, never> extends Pick<T, K> ? K : never }[keyof T];
type Batch = "addMany" | "takeMany" | "takeNext";

/** Names of a record whose type requires every one of them. */
const namesOf = <K extends string>(all: Readonly<Record<K, true>>) => Object.keys(all) as K[];

/** Batch methods of an eviction policy. */
export const batchMethods = namesOf<Batch>({ addMany: true, takeMany: true, takeNext: true });

/** Optional methods of an eviction policy, without the batch methods. */
export const policyHooks = namesOf<Exclude<OptionalOf<EvictionPolicy>, Batch>>({
  published: true,
  hit: true,
  split: true,
  resized: true,
  begin: true,
  admits: true,
  nextToExpire: true,
  expiresAt: true,
  signal: true,
  prepare: true,
});

/** Optional methods of an index. */
export const indexHooks = namesOf<Exclude<OptionalOf<PrefixIndex>, "remembersEvicted" | "leaves">>({
  matchPartial: true,
  duplicatesOf: true,
  isLeaf: true,
  cut: true,
  evictableAlong: true,
  evictMany: true,
  stores: true,
  oldest: true,
});

/** The first of these optional members that is present and no function, as the text of an error; undefined: there is none. */
export function invalidMethod(made: object, names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = (made as Readonly<Record<string, unknown>>)[name];
    if (value !== undefined && typeof value !== "function") return `${name} is ${shown(value)}, expected a function`;
  }
  return undefined;
}

function shown(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value !== "object" || value === null) return String(value);
  return Array.isArray(value) ? "an array" : "an object";
}
