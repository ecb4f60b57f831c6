import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { InputError } from "../../core/errors.ts";
import { Sampler, type SamplingOptions } from "../../engine/sampling.ts";

const logits = (...values: number[]) => Float32Array.from(values);
/** Logits with these probabilities. */
const ofChances = (...chances: number[]) => Float32Array.from(chances, Math.log);

/** Distinct tokens of a number of draws, each by a sampler with another seed. */
function drawn(options: SamplingOptions, of: Float32Array, draws = 400): number[] {
  const tokens = new Set<number>();
  for (let seed = 0; seed < draws; seed++)
    tokens.add(new Sampler({ temperature: 1, ...options, seed }).sample(of).token);
  return [...tokens].sort((a, b) => a - b);
}

describe("by hand", () => {
  test("without options the most likely token, the first of equal ones, with its log probability", () => {
    const sampler = new Sampler({ logprobs: 0 });
    expect(sampler.sample(ofChances(0.2, 0.5, 0.3)).token).toBe(1);
    expect(sampler.sample(ofChances(0.2, 0.5, 0.3)).logprob).toBeCloseTo(Math.log(0.5), 6);
    expect(sampler.sample(logits(1, 3, 3)).token).toBe(1);
    expect(sampler.sample(logits(1, 3, 3)).logprob).toBeCloseTo(-Math.log(2 + Math.exp(-2)), 6);
    expect(sampler.sample(logits(-5)).logprob).toBe(0);
  });

  test("large logits do not overflow", () => {
    const { token, logprob } = new Sampler({ temperature: 1, logprobs: 0 }).sample(logits(3e38, -3e38, 0));
    expect([token, logprob]).toEqual([0, 0]);
  });

  test.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])("logits of %s are an error", (value) => {
    const why = `the model's largest logit is ${value}, expected a finite number: activations overflow`;
    for (const options of [{}, { temperature: 1 }, { temperature: 1, topK: 2 }])
      expect(() => new Sampler(options).sample(logits(value, value, value))).toThrow(why);
  });

  test("the temperature: at 0.5 probabilities are squared", () => {
    // 0.6 and 0.4 become 0.36 and 0.16, of 0.52.
    expect(shares({ temperature: 0.5 }, ofChances(0.6, 0.4))[0]).toBeCloseTo(0.36 / 0.52, 1);
    expect(shares({ temperature: 1e-300 }, ofChances(0.6, 0.4))).toEqual([1, 0]);
  });

  test("top-k keeps k tokens, the first of equal ones; 0 keeps all", () => {
    const of = ofChances(0.1, 0.4, 0.1, 0.1, 0.3);
    expect(drawn({ topK: 1 }, of)).toEqual([1]);
    expect(drawn({ topK: 3 }, of)).toEqual([0, 1, 4]);
    expect(drawn({ topK: 0 }, of)).toEqual([0, 1, 2, 3, 4]);
    expect(drawn({ topK: 9 }, of)).toEqual([0, 1, 2, 3, 4]);
  });

  test("top-p keeps the smallest set with that probability", () => {
    const of = ofChances(0.1, 0.4, 0.2, 0.3);
    expect(drawn({ topP: 0.39 }, of)).toEqual([1]);
    expect(drawn({ topP: 0.41 }, of)).toEqual([1, 3]);
    expect(drawn({ topP: 0.71 }, of)).toEqual([1, 2, 3]);
    expect(drawn({ topP: 1 }, of)).toEqual([0, 1, 2, 3]);
    // After top-k: 0.4 of 0.7 is 0.57.
    expect(drawn({ topP: 0.56, topK: 2 }, of)).toEqual([1]);
    expect(drawn({ topP: 0.58, topK: 2 }, of)).toEqual([1, 3]);
  });

  test("min-p keeps tokens with at least that share of the largest probability", () => {
    const of = ofChances(0.1, 0.4, 0.2, 0.3);
    expect(drawn({ minP: 1 }, of)).toEqual([1]);
    expect(drawn({ minP: 0.74 }, of)).toEqual([1, 3]);
    expect(drawn({ minP: 0.49 }, of)).toEqual([1, 2, 3]);
    expect(drawn({ minP: 0 }, of)).toEqual([0, 1, 2, 3]);
    // The stricter filter applies.
    expect(drawn({ minP: 1, topK: 2 }, of)).toEqual([1]);
    expect(drawn({ minP: 0.49, topP: 0.5 }, of)).toEqual([1, 3]);
    expect(drawn({ minP: 0.74, topP: 0.99 }, of)).toEqual([1, 3]);
  });

  test("the repetition penalty divides positive logits and multiplies negative ones of prompt and output tokens, once", () => {
    const sampler = new Sampler({ repetitionPenalty: 2 }, [0, 0, 3]);
    // 4 becomes 2; −1 becomes −2.
    expect(sampler.sample(logits(4, 2.5, 1, -1)).token).toBe(1);
    // Token 1 is in the output now: 2.5 becomes 1.25.
    expect(sampler.sample(logits(4, 2.5, 1, -1)).token).toBe(0);
    expect(sampler.sample(logits(4, 2.5, 2.1, -1)).token).toBe(2);
    const negative = new Sampler({ repetitionPenalty: 2 }, [0]);
    expect(negative.sample(logits(-1, -1.9)).token).toBe(1);
  });

  test("the presence penalty applies once to output tokens, not to prompt tokens", () => {
    const sampler = new Sampler({ presencePenalty: 1.5 }, [0]);
    expect(Array.from({ length: 5 }, () => sampler.sample(logits(3, 2, 0)).token)).toEqual([0, 1, 0, 0, 0]);
  });

  test("the frequency penalty counts every occurrence", () => {
    const sampler = new Sampler({ frequencyPenalty: 0.75 }, [0, 0, 0]);
    // 3, 2, 0 → 2.25 → 1.5 (token 1 has 2) → 1.25 → …
    expect(Array.from({ length: 6 }, () => sampler.sample(logits(3, 2, 0)).token)).toEqual([0, 0, 1, 0, 1, 0]);
  });

  test("penalties count output tokens that were not sampled here", () => {
    const sampler = new Sampler({ presencePenalty: 2 });
    sampler.accept(0);
    expect(sampler.sample(logits(3, 2)).token).toBe(1);
  });

  test("negative penalties favour repeated tokens", () => {
    const sampler = new Sampler({ frequencyPenalty: -1 });
    sampler.accept(1);
    expect(sampler.sample(logits(2.5, 2)).token).toBe(1);
  });

  test("a bias is added, also to penalised logits", () => {
    expect(new Sampler({ logitBias: new Map([[2, 5]]) }).sample(logits(1, 2, 0)).token).toBe(2);
    const both = { repetitionPenalty: 2, logitBias: new Map([[0, 1]]) };
    // 4 / 2 + 1, not (4 + 1) / 2.
    expect(new Sampler(both, [0]).sample(logits(4, 2.75)).token).toBe(0);
    expect(new Sampler({ logitBias: new Map([[7, 100]]) }, []).sample(logits(1, 2)).token).toBe(1);
  });

  test("log probabilities do not depend on options, and logits are not modified", () => {
    const of = ofChances(0.6, 0.4);
    const before = of.slice();
    const options = { temperature: 0.1, topK: 1, repetitionPenalty: 3, logitBias: new Map([[1, 50]]), logprobs: 0 };
    const { token, logprob } = new Sampler(options, [0]).sample(of);
    expect(token).toBe(1);
    expect(logprob).toBeCloseTo(Math.log(0.4), 6);
    expect(of).toEqual(before);
  });
});

describe("log probabilities", () => {
  const of = ofChances(0.1, 0.4, 0.1, 0.3, 0.1);

  test("are returned only on request", () => {
    expect(new Sampler({ temperature: 1, topK: 1 }).sample(of)).toEqual({ token: 1 });
  });

  test("are in descending order, of equal ones the lower token first, regardless of options", () => {
    const { token, logprob, top } = new Sampler({ logprobs: 4, logitBias: new Map([[0, 9]]) }).sample(of);
    expect([token, logprob]).toEqual([0, expect.closeTo(Math.log(0.1), 6)]);
    expect(top?.map((one) => one.token)).toEqual([1, 3, 0, 2]);
    expect(top?.map((one) => one.logprob)).toEqual(
      [0.4, 0.3, 0.1, 0.1].map((chance) => expect.closeTo(Math.log(chance), 6)),
    );
    expect(new Sampler({ logprobs: 1 }).sample(of).top).toHaveLength(1);
  });

  test("of a whole vocabulary sum to probability 1, and are at most as many as tokens", () => {
    const floats = fc.array(fc.float({ min: -1000, max: 1000, noNaN: true }), { minLength: 1, maxLength: 50 });
    fc.assert(
      fc.property(floats, (values) => {
        const { top } = new Sampler({ logprobs: 1000 }).sample(Float32Array.from(values));
        expect(top?.map(({ token }) => token).sort((a, b) => a - b)).toEqual(values.map((_, token) => token));
        expect(top?.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0)).toBeCloseTo(1, 9);
      }),
    );
  });
});

/** Number of draws of each token by one sampler. */
function shares(options: SamplingOptions, of: Float32Array, draws = 4000): number[] {
  const sampler = new Sampler({ temperature: 1, seed: 11, ...options });
  const counts = new Array<number>(of.length).fill(0);
  for (let i = 0; i < draws; i++) counts[sampler.sample(of).token]++;
  return counts.map((count) => count / draws);
}

/** Probabilities by the definitions, from the whole vocabulary and without sorting. */
function chances(
  options: SamplingOptions,
  of: readonly number[],
  prompt: readonly number[],
  output: readonly number[],
) {
  const { temperature = 1, topK = 0, topP = 1, minP = 0 } = options;
  const { repetitionPenalty = 1, presencePenalty = 0, frequencyPenalty = 0, logitBias } = options;
  const scores = of.map((logit, token) => {
    const times = output.filter((other) => other === token).length;
    let score = logit;
    if (times > 0 || prompt.includes(token)) score = score > 0 ? score / repetitionPenalty : score * repetitionPenalty;
    if (times > 0) score -= presencePenalty;
    return score - times * frequencyPenalty + (logitBias?.get(token) ?? 0);
  });
  const most = Math.max(...scores);
  const weights = scores.map((score) => Math.exp((score - most) / temperature));
  const isBefore = (a: number, b: number) => scores[a] > scores[b] || (scores[a] === scores[b] && a < b);
  const before = (token: number) => scores.map((_, other) => other).filter((other) => isBefore(other, token));
  const total = (tokens: readonly number[]) => tokens.reduce((sum, token) => sum + weights[token], 0);
  const all = scores.map((_, token) => token);
  const inTopK = all.filter((token) => topK === 0 || before(token).length < topK);
  const kept = inTopK.filter((token) => total(before(token)) < topP * total(inTopK) && weights[token] >= minP);
  return all.map((token) => (kept.includes(token) ? weights[token] / total(kept) : 0));
}

describe("against the definitions", () => {
  const cases = fc.record({
    // Quarters, so that ties are frequent and no sum is near a bound by rounding alone.
    of: fc.array(
      fc.integer({ min: -12, max: 12 }).map((n) => n / 4),
      { minLength: 2, maxLength: 8 },
    ),
    prompt: fc.array(fc.nat(7), { maxLength: 4 }),
    output: fc.array(fc.nat(7), { maxLength: 4 }),
    options: fc.record({
      temperature: fc.constantFrom(0.5, 0.7, 1, 2.3),
      topK: fc.constantFrom(0, 0, 1, 2, 3, 5),
      topP: fc.constantFrom(1, 1, 0.9123, 0.5123, 0.0123),
      minP: fc.constantFrom(0, 0, 0.0511, 0.3011),
      repetitionPenalty: fc.constantFrom(1, 1.3, 0.8),
      presencePenalty: fc.constantFrom(0, 0.6, -0.4),
      frequencyPenalty: fc.constantFrom(0, 0.35, -0.2),
      logitBias: fc.constantFrom(new Map(), new Map([[1, 1.5]]), new Map([[0, -4]])),
    }),
  });

  test("only tokens with a probability above 0 are sampled, each about as often as its probability", () => {
    fc.assert(
      fc.property(cases, fc.nat(1000), ({ of, prompt, output, options }, seed) => {
        const tokens = (all: readonly number[]) => all.filter((token) => token < of.length);
        const expected = chances(options, of, tokens(prompt), tokens(output));
        const draws = 500;
        const counts = of.map(() => 0);
        for (let i = 0; i < draws; i++) {
          const sampler = new Sampler({ ...options, seed: seed * draws + i }, tokens(prompt));
          for (const token of tokens(output)) sampler.accept(token);
          counts[sampler.sample(Float32Array.from(of)).token]++;
        }
        expected.forEach((chance, token) => {
          if (chance === 0) expect(counts[token]).toBe(0);
          // Five standard deviations.
          const bound = 5 * Math.sqrt(draws * chance * (1 - chance)) + 1;
          expect(Math.abs(counts[token] - draws * chance)).toBeLessThan(bound);
        });
      }),
      { numRuns: 60 },
    );
  });

  test("at temperature 0 the largest logit is chosen, regardless of the filters", () => {
    fc.assert(
      fc.property(cases, ({ of, prompt, output, options }) => {
        const tokens = (all: readonly number[]) => all.filter((token) => token < of.length);
        const sampler = new Sampler({ ...options, temperature: 0 }, tokens(prompt));
        for (const token of tokens(output)) sampler.accept(token);
        const only = { ...options, topK: 1 };
        const best = chances(only, of, tokens(prompt), tokens(output)).indexOf(1);
        expect(sampler.sample(Float32Array.from(of)).token).toBe(best);
      }),
    );
  });
});

describe("seeds", () => {
  const of = ofChances(0.4, 0.3, 0.2, 0.1);
  const run = (seed: number) => {
    const sampler = new Sampler({ temperature: 1, seed });
    return Array.from({ length: 40 }, () => sampler.sample(of).token);
  };

  test("equal seeds sample equal tokens, other seeds others", () => {
    expect(run(7)).toEqual(run(7));
    expect(run(7)).not.toEqual(run(8));
    const unseeded = new Sampler({ temperature: 1 });
    expect(run(0)).toEqual(Array.from({ length: 40 }, () => unseeded.sample(of).token));
  });

  test("draws of one sampler have the expected distribution", () => {
    // Chi-squared of 3 degrees: below 16.3 with chance 0.999.
    const counts = shares({}, of, 20_000).map((share) => share * 20_000);
    const expected = [8000, 6000, 4000, 2000];
    const chi = counts.reduce((sum, count, token) => sum + (count - expected[token]) ** 2 / expected[token], 0);
    expect(chi).toBeLessThan(16.3);
  });

  test("the first draws of consecutive seeds have the expected distribution, too", () => {
    for (const place of [0, 1, 2]) {
      const counts = [0, 0, 0, 0];
      for (let seed = 0; seed < 5000; seed++) counts[run(seed)[place]]++;
      [2000, 1500, 1000, 500].forEach((expectedCount, token) => {
        expect(Math.abs(counts[token] - expectedCount)).toBeLessThan(5 * Math.sqrt(expectedCount));
      });
    }
  });
});

test.each([
  [{ temperature: -0.1 }, "temperature is -0.1, expected a number from 0 to 100"],
  [{ temperature: Number.NaN }, "temperature is NaN, expected a number from 0 to 100"],
  [{ topK: -1 }, "topK is -1, expected a whole number from 0"],
  [{ topK: 2.5 }, "topK is 2.5, expected a whole number from 0"],
  [{ topP: 0 }, "topP is 0, expected a number above 0, at most 1"],
  [{ topP: 1.01 }, "topP is 1.01, expected a number above 0, at most 1"],
  [{ minP: -0.5 }, "minP is -0.5, expected a number from 0 to 1"],
  [{ minP: 2 }, "minP is 2, expected a number from 0 to 1"],
  [{ repetitionPenalty: 0 }, "repetitionPenalty is 0, expected a number above 0, at most 100"],
  [
    { repetitionPenalty: Number.POSITIVE_INFINITY },
    "repetitionPenalty is Infinity, expected a number above 0, at most 100",
  ],
  [{ presencePenalty: 101 }, "presencePenalty is 101, expected a number from -100 to 100"],
  [{ frequencyPenalty: -101 }, "frequencyPenalty is -101, expected a number from -100 to 100"],
  [{ logprobs: -1 }, "logprobs is -1, expected a whole number from 0"],
  [{ seed: 0.5 }, "seed is 0.5, expected a whole number"],
  [{ logitBias: new Map([[-1, 1]]) }, "logitBias has token -1, expected a whole number from 0"],
  [{ logitBias: new Map([[3, 101]]) }, "logitBias of token 3 is 101, expected a number from -100 to 100"],
  [{ temperature: "1" as unknown as number }, "temperature is 1, expected a number from 0 to 100"],
])("%o is refused", (options: SamplingOptions, line) => {
  expect(() => new Sampler(options)).toThrow(new InputError(line));
});
