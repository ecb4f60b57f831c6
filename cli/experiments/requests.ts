import { assert } from "../../core/errors.ts";
import type { Random } from "../../core/random.ts";
import { type Nanos, type Trace, TraceBuilder } from "../../core/trace.ts";
import { logNormal } from "../../traces/random.ts";

/** A request as an experiment describes it: a prefix that others may have, too, and the rest, which nobody else has. */
export interface Prompt {
  readonly arrivalNs?: Nanos;
  /** Which of the shared prefixes, and its length; the same number always has the same tokens. */
  readonly prefix?: { readonly id: number; readonly tokens: number };
  readonly ownTokens: number;
  readonly outputTokens: number;
  /** What the client asked for; the true length if absent. */
  readonly maxOutputTokens?: number;
}

/** The prompts as a trace of token ids; prefixes are marked, for caches that keep marked ones. */
export function traceOf(prompts: readonly Prompt[]): Trace {
  const builder = new TraceBuilder(1);
  let fresh = 0;
  const take = (count: number) => Array.from({ length: count }, () => fresh++);
  const prefixes = new Map<number, number[]>();
  const beginning = ({ id, tokens }: { id: number; tokens: number }): number[] => {
    const known = prefixes.get(id) ?? [];
    if (known.length < tokens) known.push(...take(tokens - known.length));
    prefixes.set(id, known);
    return known.slice(0, tokens);
  };
  for (const { arrivalNs = 0, prefix, ownTokens, outputTokens, maxOutputTokens = outputTokens } of prompts) {
    const shared = prefix === undefined ? [] : beginning(prefix);
    builder.add({
      arrivalNs,
      inputTokens: shared.length + ownTokens,
      outputTokens,
      maxOutputTokens,
      keys: [...shared, ...take(ownTokens)],
      generatedKeys: take(outputTokens),
      markedTokens: shared.length,
    });
  }
  return builder.take();
}

/** Lengths that add up to `total` exactly, of the spread (of the logarithm) that chats have; each at least `least`. */
export function lengthsOf(random: Random, count: number, total: number, sigma: number, least = 4): Uint32Array {
  assert(total >= count * least, `${total} tokens for ${count} lengths from ${least}`);
  const drawn = Array.from({ length: count }, () => logNormal(random, 1, sigma));
  const sum = drawn.reduce((all, length) => all + length, 0);
  const lengths = Uint32Array.from(drawn, (length) => Math.max(least, Math.floor((length / sum) * total)));
  // What rounding left or took goes to, or comes from, one after the other.
  let left = total - lengths.reduce((all, length) => all + length, 0);
  for (let i = 0; left !== 0; i = (i + 1) % count) {
    const step = left > 0 ? 1 : lengths[i] > least ? -1 : 0;
    lengths[i] += step;
    left -= step;
  }
  return lengths;
}

/** Arrivals at random, so many a second (Poisson), in order. */
export function arrivalsOf(exponential: () => number, count: number, perS: number): Nanos[] {
  let at = 0;
  return Array.from({ length: count }, () => {
    at += Math.round((exponential() / perS) * 1e9);
    return at;
  });
}
