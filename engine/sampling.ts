import FlatQueue from "flatqueue";
import { InputError } from "../core/errors.ts";
import { chanceOf, type Random, seededRandom } from "../core/random.ts";
import { type DeviceSampling, ExecutorError } from "./executor.ts";

/** Sampling parameters, in the order in which they are applied. */
export interface SamplingOptions {
  /** Divisor of the positive logits of tokens that occur in prompt or output; negative logits are multiplied by it. */
  readonly repetitionPenalty?: number;
  /** Subtracted from the logits of tokens that occur in the output. */
  readonly presencePenalty?: number;
  /** Subtracted once for each occurrence in the output. */
  readonly frequencyPenalty?: number;
  /** Added to the logits by token id, after penalties. */
  readonly logitBias?: ReadonlyMap<number, number>;
  /** Logits are divided by it. 0: greedy. */
  readonly temperature?: number;
  /** Samples from the K most likely tokens; 0: from all. */
  readonly topK?: number;
  /** Samples from the smallest set of most likely tokens whose probabilities sum to it. */
  readonly topP?: number;
  /** Samples from tokens with at least this fraction of the largest probability. */
  readonly minP?: number;
  readonly seed?: number;
  /** Returns the log probability of the sampled token, and of this many most likely tokens. */
  readonly logprobs?: number;
}

/** Natural logarithm of a token's probability before penalties, bias, temperature and filters. */
export interface TokenLogprob {
  readonly token: number;
  readonly logprob: number;
}

/** A sampled token. */
export interface SampledToken {
  readonly token: number;
  /** Present with the option `logprobs`, as is `top`. */
  readonly logprob?: number;
  /** The most likely tokens in descending order; the lower token id first of equal ones. */
  readonly top?: readonly TokenLogprob[];
}

/** Samples the output tokens of a request. Equal seeds sample equal tokens. */
export class Sampler {
  readonly #options: SamplingOptions;
  readonly #random: Random;
  /** Occurrences of each token in the output; 0 for a token that only the prompt has. */
  readonly #seen = new Map<number, number>();
  readonly #penalised: boolean;

  /** @throws InputError if an option is out of range */
  constructor(options: SamplingOptions = {}, prompt: Iterable<number> = []) {
    checkSampling(options);
    this.#options = options;
    // Hashed, because generators with neighbouring seeds start with almost equal numbers: 0, 1, 2 … all draw 0.99… first.
    this.#random = seededRandom(Math.floor(chanceOf(options.seed ?? 0, 0) * 2 ** 32));
    const { repetitionPenalty = 1, presencePenalty = 0, frequencyPenalty = 0 } = options;
    this.#penalised = repetitionPenalty !== 1 || presencePenalty !== 0 || frequencyPenalty !== 0;
    if (repetitionPenalty !== 1) for (const token of prompt) this.#seen.set(token, 0);
  }

  /** Device sampling of output token `position`; undefined if penalties, a bias or logprobs need the logits on the host. */
  onDevice(position: number): DeviceSampling | undefined {
    const { temperature = 0, topK = 0, topP = 1, minP = 0, seed = 0, logitBias, logprobs } = this.#options;
    if (this.#penalised || logitBias?.size || logprobs !== undefined) return undefined;
    return { temperature, topK, topP, minP, seed, position };
  }

  /** Samples the next token; does not modify `logits`. @throws ExecutorError if the largest logit is not finite */
  sample(logits: Float32Array): SampledToken {
    const scores = this.#adjusted(logits);
    const { temperature = 0, logprobs } = this.#options;
    const token = temperature === 0 ? argmax(scores) : this.#draw(scores, temperature);
    this.accept(token);
    return logprobs === undefined ? { token } : { token, ...logprobsOf(logits, token, logprobs) };
  }

  /** Counts an output token that was not sampled here. */
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

  /** Draws from the filtered distribution by inverting its cumulative sum, in the order of token ids. */
  #draw(scores: ArrayLike<number>, temperature: number): number {
    const most = scores[argmax(scores)];
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

  /** The filtered distribution: tokens with a weight above `least`, the first `ofLeast` tokens of weight `least`, and the sum. */
  #kept(weights: Float64Array): { readonly least: number; readonly ofLeast: number; readonly total: number } {
    const { topK = 0, topP = 1, minP = 0 } = this.#options;
    if (topK === 0 && topP === 1) {
      const least = Math.max(minP, Number.MIN_VALUE);
      return { least, ofLeast: weights.length, total: sumFrom(weights, least) };
    }
    const sorted = (topK > 0 ? filteredFrom(weights, kthLargest(weights, topK)) : weights.slice()).sort();
    const end = sorted.length - 1;
    const inTopK = topK > 0 ? Math.min(topK, sorted.length) : sorted.length;
    let sum = 0;
    for (let i = 0; i < inTopK; i++) sum += sorted[end - i];
    let total = 0;
    let count = 0;
    // The most likely token has weight 1 and always passes.
    while (count < inTopK && total < topP * sum && sorted[end - count] >= minP) total += sorted[end - count++];
    const least = sorted[end - count + 1];
    let ofLeast = 1;
    while (ofLeast < count && sorted[end - count + 1 + ofLeast] === least) ofLeast++;
    return { least, ofLeast, total };
  }
}

const filteredFrom = (weights: Float64Array, least: number) => weights.filter((weight) => weight >= least);

function sumFrom(weights: Float64Array, least: number): number {
  let sum = 0;
  for (let token = 0; token < weights.length; token++) if (weights[token] >= least) sum += weights[token];
  return sum;
}

/** Index of the largest score, the first of equal ones. @throws ExecutorError if that score is not finite */
export function argmax(scores: ArrayLike<number>): number {
  let best = 0;
  for (let token = 1; token < scores.length; token++) if (scores[token] > scores[best]) best = token;
  if (Number.isFinite(scores[best])) return best;
  throw new ExecutorError(
    `the model's largest logit is ${scores[best]}, expected a finite number: activations overflow`,
  );
}

function logprobsOf(logits: Float32Array, token: number, count: number): Required<Omit<SampledToken, "token">> {
  const most = logits[argmax(logits)];
  let sum = 0;
  for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i] - most);
  const logprobOf = (one: number) => logits[one] - most - Math.log(sum);
  const top = topIndices(logits, count).map((one) => ({ token: one, logprob: logprobOf(one) }));
  return { logprob: logprobOf(token), top };
}

/** Indices of the `count` largest values in descending order; the lower index first of equal ones. */
function topIndices(values: Float32Array, count: number): number[] {
  if (count === 0) return [];
  const least = kthLargest(values, count);
  const places: number[] = [];
  for (let i = 0; i < values.length; i++) if (values[i] >= least) places.push(i);
  return places.sort((a, b) => values[b] - values[a] || a - b).slice(0, count);
}

/** The smallest of the `count` largest values, with a heap of `count` values instead of a full sort. */
function kthLargest(values: ArrayLike<number>, count: number): number {
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
  /** Excludes `least`. */
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

/** @throws InputError if an option is out of range */
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
