import FlatQueue from "flatqueue";
import { InputError } from "../core/errors.ts";
import { chanceOf, type Random, seededRandom } from "../core/random.ts";
import { type DeviceSampling, ExecutorError } from "./executor.ts";

/** How the next token is chosen, in the order in which it is applied. */
export interface SamplingOptions {
  /** Logits of tokens that were there before (in prompt or answer) are divided by it, negative ones multiplied. */
  readonly repetitionPenalty?: number;
  /** Taken off the logits of tokens that the answer has, once. */
  readonly presencePenalty?: number;
  /** Taken off for every time that the answer has them. */
  readonly frequencyPenalty?: number;
  /** Added to the logits of tokens, penalties taken off. */
  readonly logitBias?: ReadonlyMap<number, number>;
  /** Logits are divided by it. 0: always the most likely token. */
  readonly temperature?: number;
  /** Only so many of the most likely ones; 0: all. */
  readonly topK?: number;
  /** Only the most likely ones that have this probability together. */
  readonly topP?: number;
  /** Only those that are at least this share as likely as the most likely one. */
  readonly minP?: number;
  readonly seed?: number;
  /** How likely the chosen token was is wanted, and so many of the most likely ones. */
  readonly logprobs?: number;
}

/** How likely a token was before penalties, bias, temperature and filters: the natural logarithm. */
export interface TokenLogprob {
  readonly token: number;
  readonly logprob: number;
}

/** A token that was chosen. */
export interface SampledToken {
  readonly token: number;
  /** Where it is wanted (`logprobs`), as is `top`. */
  readonly logprob?: number;
  /** The most likely ones first, of equal ones the lower token. */
  readonly top?: readonly TokenLogprob[];
}

/** Chooses a request's tokens, one after the other; the same seed chooses the same. */
export class Sampler {
  readonly #options: SamplingOptions;
  readonly #random: Random;
  /** How often the answer has each token, and whether the prompt has it (0). */
  readonly #seen = new Map<number, number>();
  readonly #penalised: boolean;

  /** @throws InputError if an option is out of its range */
  constructor(options: SamplingOptions = {}, prompt: Iterable<number> = []) {
    checkSampling(options);
    this.#options = options;
    // Mixed, for generators of neighbouring seeds begin with the same number: 0, 1, 2 … all draw 0.99… first.
    this.#random = seededRandom(Math.floor(chanceOf(options.seed ?? 0, 0) * 2 ** 32));
    const { repetitionPenalty = 1, presencePenalty = 0, frequencyPenalty = 0 } = options;
    this.#penalised = repetitionPenalty !== 1 || presencePenalty !== 0 || frequencyPenalty !== 0;
    if (repetitionPenalty !== 1) for (const token of prompt) this.#seen.set(token, 0);
  }

  /** Sampling of output token `position` on the device; undefined if penalties, a bias or logprobs need the logits. */
  onDevice(position: number): DeviceSampling | undefined {
    const { temperature = 0, topK = 0, topP = 1, minP = 0, seed = 0, logitBias, logprobs } = this.#options;
    if (this.#penalised || logitBias?.size || logprobs !== undefined) return undefined;
    return { temperature, topK, topP, minP, seed, position };
  }

  /** The next token for these logits, which are left as they are. @throws ExecutorError if they are no finite numbers */
  sample(logits: Float32Array): SampledToken {
    const scores = this.#adjusted(logits);
    const { temperature = 0, logprobs } = this.#options;
    const token = temperature === 0 ? mostLikely(scores) : this.#draw(scores, temperature);
    this.accept(token);
    return logprobs === undefined ? { token } : { token, ...logprobsOf(logits, token, logprobs) };
  }

  /** A token that came from elsewhere. */
  accept(token: number): void {
    if (this.#penalised) this.#seen.set(token, (this.#seen.get(token) ?? 0) + 1);
  }

  #adjusted(logits: Float32Array): Float32Array | Float64Array {
    const { repetitionPenalty = 1, presencePenalty = 0, frequencyPenalty = 0, logitBias } = this.#options;
    if (!this.#penalised && !logitBias?.size) return logits;
    const scores = new Float64Array(logits);
    for (const [token, count] of this.#seen) {
      if (token >= scores.length) continue;
      scores[token] = scores[token] > 0 ? scores[token] / repetitionPenalty : scores[token] * repetitionPenalty;
      if (count > 0) scores[token] -= presencePenalty + count * frequencyPenalty;
    }
    for (const [token, bias] of logitBias ?? []) if (token < scores.length) scores[token] += bias;
    return scores;
  }

  /** One of those that the filters leave, each with its chance; they are passed over in the order of the vocabulary. */
  #draw(scores: ArrayLike<number>, temperature: number): number {
    const most = scores[mostLikely(scores)];
    const weights = new Float64Array(scores.length);
    for (let token = 0; token < weights.length; token++)
      weights[token] = Math.exp((scores[token] - most) / temperature);
    const { least, ofLeast, total } = this.#kept(weights);
    let left = this.#random.unit() * total;
    let ties = 0;
    let last = 0;
    for (let token = 0; token < weights.length; token++) {
      const weight = weights[token];
      if (weight < least || (weight === least && ties++ >= ofLeast)) continue;
      last = token;
      left -= weight;
      if (left < 0) break;
    }
    return last;
  }

  /** What the filters leave: tokens above the weight `least`, the first `ofLeast` of those that have it, and their sum. */
  #kept(weights: Float64Array): { readonly least: number; readonly ofLeast: number; readonly total: number } {
    const { topK = 0, topP = 1, minP = 0 } = this.#options;
    if (topK === 0 && topP === 1) {
      const least = Math.max(minP, Number.MIN_VALUE);
      return { least, ofLeast: weights.length, total: sumFrom(weights, least) };
    }
    const sorted = (topK > 0 ? atLeast(weights, leastOf(weights, topK)) : weights.slice()).sort();
    const end = sorted.length - 1;
    const inTopK = topK > 0 ? Math.min(topK, sorted.length) : sorted.length;
    let sum = 0;
    for (let i = 0; i < inTopK; i++) sum += sorted[end - i];
    let total = 0;
    let count = 0;
    // The most likely one has the weight 1, and stays.
    while (count < inTopK && total < topP * sum && sorted[end - count] >= minP) total += sorted[end - count++];
    const least = sorted[end - count + 1];
    let ofLeast = 1;
    while (ofLeast < count && sorted[end - count + 1 + ofLeast] === least) ofLeast++;
    return { least, ofLeast, total };
  }
}

const atLeast = (weights: Float64Array, least: number) => weights.filter((weight) => weight >= least);

function sumFrom(weights: Float64Array, least: number): number {
  let sum = 0;
  for (let token = 0; token < weights.length; token++) if (weights[token] >= least) sum += weights[token];
  return sum;
}

/** The first of the largest. @throws ExecutorError if that is no finite number */
export function mostLikely(scores: ArrayLike<number>): number {
  let best = 0;
  for (let token = 1; token < scores.length; token++) if (scores[token] > scores[best]) best = token;
  if (Number.isFinite(scores[best])) return best;
  throw new ExecutorError(
    `the model's largest logit is ${scores[best]}, expected a finite number: its numbers overflow`,
  );
}

function logprobsOf(logits: Float32Array, token: number, count: number): Required<Omit<SampledToken, "token">> {
  const most = logits[mostLikely(logits)];
  let sum = 0;
  for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i] - most);
  const logprobOf = (one: number) => logits[one] - most - Math.log(sum);
  const top = largest(logits, count).map((one) => ({ token: one, logprob: logprobOf(one) }));
  return { logprob: logprobOf(token), top };
}

/** The places of so many of the largest values, the largest first, of equal ones the first. */
function largest(values: Float32Array, count: number): number[] {
  if (count === 0) return [];
  const least = leastOf(values, count);
  const places: number[] = [];
  for (let i = 0; i < values.length; i++) if (values[i] >= least) places.push(i);
  return places.sort((a, b) => values[b] - values[a] || a - b).slice(0, count);
}

/** The least of so many of the largest values: without sorting them all, for mostly it is few of many. */
function leastOf(values: ArrayLike<number>, count: number): number {
  const most = new FlatQueue<number>();
  for (let i = 0; i < values.length; i++) {
    if (most.length >= count) {
      if (values[i] <= most.peekValue()!) continue;
      most.pop();
    }
    most.push(i, values[i]);
  }
  return most.peekValue()!;
}

interface Range {
  readonly least: number;
  readonly most: number;
  /** `least` itself is not in it. */
  readonly above?: true;
  readonly whole?: true;
}

const { MAX_SAFE_INTEGER } = Number;
const ranges: { readonly [Name in Exclude<keyof SamplingOptions, "logitBias">]-?: Range } = {
  repetitionPenalty: { least: 0, above: true, most: 100 },
  presencePenalty: { least: -100, most: 100 },
  frequencyPenalty: { least: -100, most: 100 },
  temperature: { least: 0, most: 100 },
  topK: { least: 0, most: MAX_SAFE_INTEGER, whole: true },
  topP: { least: 0, above: true, most: 1 },
  minP: { least: 0, most: 1 },
  logprobs: { least: 0, most: MAX_SAFE_INTEGER, whole: true },
  seed: { least: -MAX_SAFE_INTEGER, most: MAX_SAFE_INTEGER, whole: true },
};

/** @throws InputError if an option is out of its range */
export function checkSampling(options: SamplingOptions): void {
  for (const name of Object.keys(ranges) as (keyof typeof ranges)[]) {
    const value: unknown = options[name];
    const { least, most, above, whole } = ranges[name];
    if (value === undefined || isWithin(value, ranges[name])) continue;
    const lower = above ? ` above ${least}, at most ${most}` : ` from ${least} to ${most}`;
    const range = most < MAX_SAFE_INTEGER ? lower : least < 0 ? "" : ` from ${least}`;
    throw new InputError(`${name} is ${value}, expected a ${whole ? "whole number" : "number"}${range}`);
  }
  for (const [token, bias] of options.logitBias ?? []) {
    if (!isWithin(token, ranges.topK))
      throw new InputError(`logitBias has token ${token}, expected a whole number from 0`);
    if (!isWithin(bias, ranges.presencePenalty))
      throw new InputError(`logitBias of token ${token} is ${bias}, expected a number from -100 to 100`);
  }
}

function isWithin(value: unknown, { least, most, above, whole }: Range): boolean {
  if (typeof value !== "number" || !(value >= least && value <= most)) return false;
  return !(above && value === least) && (!whole || Number.isSafeInteger(value));
}
