import { InputError } from "../core/errors.ts";
import { type Random, seededRandom } from "../core/random.ts";

/** How the next token is chosen, in the order in which it is applied. */
export interface SamplingOptions {
  /** 0: always the most likely one. */
  readonly temperature?: number;
  /** Only so many of the most likely ones; 0: all. */
  readonly topK?: number;
  /** Only the most likely ones that have this probability together. */
  readonly topP?: number;
  /** Only those that are at least this share as likely as the most likely one. */
  readonly minP?: number;
  /** Logits of tokens that were there before (in prompt or answer) are divided by it, negative ones multiplied. */
  readonly repetitionPenalty?: number;
  /** Taken off the logits of tokens that the answer has, once. */
  readonly presencePenalty?: number;
  /** Taken off for every time that the answer has them. */
  readonly frequencyPenalty?: number;
  /** Added to the logits of tokens. */
  readonly logitBias?: ReadonlyMap<number, number>;
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
    this.#random = seededRandom(options.seed ?? 0);
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

const ranges: Readonly<Record<string, readonly [least: number, most: number]>> = {
  temperature: [0, 100],
  topK: [0, Number.MAX_SAFE_INTEGER],
  topP: [Number.MIN_VALUE, 1],
  minP: [0, 1],
  repetitionPenalty: [Number.MIN_VALUE, 100],
  presencePenalty: [-100, 100],
  frequencyPenalty: [-100, 100],
};

function checkSampling(options: SamplingOptions): void {
  for (const [name, [least, most]] of Object.entries(ranges)) {
    const value = options[name as keyof SamplingOptions];
    if (value === undefined || (typeof value === "number" && value >= least && value <= most)) continue;
    throw new InputError(
      `${name} is ${value}, expected ${least === Number.MIN_VALUE ? "above 0" : `from ${least}`} to ${most}`,
    );
  }
}
