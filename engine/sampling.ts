import { InputError } from "../core/errors.ts";
import { chanceOf, type Random, seededRandom } from "../core/random.ts";

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
}

/** A token that was chosen, and how likely it was before temperature and filters (natural logarithm). */
export interface SampledToken {
  readonly token: number;
  readonly logProbability: number;
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

  /** The next token for these logits, which are left as they are. */
  sample(logits: Float32Array): SampledToken {
    const scores = this.#adjusted(logits);
    const { temperature = 0 } = this.#options;
    const token = temperature === 0 ? mostLikely(scores) : this.#draw(scores, temperature);
    this.accept(token);
    return { token, logProbability: logProbability(logits, token) };
  }

  /** A token that came from elsewhere. */
  accept(token: number): void {
    if (this.#penalised) this.#seen.set(token, (this.#seen.get(token) ?? 0) + 1);
  }

  #adjusted(logits: Float32Array): Float64Array {
    const scores = Float64Array.from(logits);
    const { repetitionPenalty = 1, presencePenalty = 0, frequencyPenalty = 0, logitBias } = this.#options;
    for (const [token, count] of this.#seen) {
      if (token >= scores.length) continue;
      scores[token] = scores[token] > 0 ? scores[token] / repetitionPenalty : scores[token] * repetitionPenalty;
      if (count > 0) scores[token] -= presencePenalty + count * frequencyPenalty;
    }
    for (const [token, bias] of logitBias ?? []) if (token < scores.length) scores[token] += bias;
    return scores;
  }

  #draw(scores: Float64Array, temperature: number): number {
    const { topK = 0, topP = 1, minP = 0 } = this.#options;
    // Of equal ones the lower token first, so that the order is the same everywhere.
    const order = Array.from(scores.keys()).sort((a, b) => scores[b] - scores[a] || a - b);
    if (topK > 0) order.length = Math.min(order.length, topK);
    const weights = order.map((token) => Math.exp((scores[token] - scores[order[0]]) / temperature));
    let total = weights.reduce((sum, weight) => sum + weight, 0);
    let count = weights.findIndex((weight) => weight < minP * weights[0]);
    if (count < 0) count = weights.length;
    let kept = 0;
    for (let i = 0; i < count; i++) {
      kept += weights[i];
      if (kept >= topP * total) {
        count = i + 1;
        break;
      }
    }
    total = kept;
    let left = this.#random.unit() * total;
    for (let i = 0; i < count; i++) {
      left -= weights[i];
      if (left < 0) return order[i];
    }
    return order[count - 1];
  }
}

/** The first of the largest. */
function mostLikely(scores: ArrayLike<number>): number {
  let best = 0;
  for (let token = 1; token < scores.length; token++) if (scores[token] > scores[best]) best = token;
  return best;
}

function logProbability(logits: Float32Array, token: number): number {
  const most = logits[mostLikely(logits)];
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - most);
  return logits[token] - most - Math.log(sum);
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
