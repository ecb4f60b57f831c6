import { assert } from "../../core/errors.ts";
import type { Random } from "../../core/random.ts";
import { type Nanos, type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import { logNormal } from "../../traces/random.ts";

/** A request of an experiment: a prefix that other requests may share, and a unique remainder. */
export interface Prompt {
  readonly arrivalNs?: Nanos;
  /** Its session, from 1: in a closed loop its requests arrive one after the other. */
  readonly session?: number;
  /** A shared prefix and its length; equal ids have equal tokens. */
  readonly prefix?: { readonly id: number; readonly tokens: number };
  readonly ownTokens: number;
  readonly outputTokens: number;
  /** The length of the output if absent. */
  readonly maxOutputTokens?: number;
}

/** The prompts as a trace of token ids; prefixes are marked, for caches that store only marked prefixes. */
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
  for (const { arrivalNs = 0, session, prefix, ownTokens, outputTokens, maxOutputTokens = outputTokens } of prompts) {
    const shared = prefix === undefined ? [] : beginning(prefix);
    builder.add({
      arrivalNs,
      ...(session !== undefined && { session }),
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

/** A log-normal distribution of lengths: standard deviation of the logarithm, minimum and maximum. */
export interface Spread {
  readonly sigma: number;
  readonly least: number;
  readonly most: number;
}

/** Lengths that add up to `total` exactly. */
export function lengthsOf(random: Random, count: number, total: number, { sigma, least, most }: Spread): Uint32Array {
  assert(total >= count * least && total <= count * most, `${total} tokens in ${count} lengths of ${least} to ${most}`);
  const drawn = Array.from({ length: count }, () => logNormal(random, 1, sigma));
  const scaled = (scale: number) =>
    Uint32Array.from(drawn, (length) => Math.min(most, Math.max(least, Math.floor(length * scale))));
  const sumOf = (lengths: Uint32Array) => lengths.reduce((sum, length) => sum + length, 0);
  // The largest scale at which the sum does not exceed the total; the rest is distributed one by one.
  let low = 0;
  for (let step = total; step > 1e-3; step /= 2) if (sumOf(scaled(low + step)) <= total) low += step;
  const lengths = scaled(low);
  let left = total - sumOf(lengths);
  for (let i = 0; left > 0; i = (i + 1) % count) {
    if (lengths[i] === most) continue;
    lengths[i]++;
    left--;
  }
  return lengths;
}
