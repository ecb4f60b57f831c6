import fc from "fast-check";
import { expect, test } from "vitest";
import { InputError } from "../../core/errors.ts";
import { TraceBuilder } from "../../core/trace/trace.ts";
import { contentTokens, promptTokens } from "../../engine/content-tokens.ts";

function traceOf(unitTokens: number, rows: readonly { keys: number[]; inputTokens: number }[]) {
  const builder = new TraceBuilder(unitTokens);
  for (const [r, row] of rows.entries()) builder.add({ arrivalNs: r, outputTokens: 1, ...row });
  return builder.take();
}

function tokensOf(id: number, vocabulary: number, count: number): Int32Array {
  const tokens = new Int32Array(count);
  contentTokens(id, vocabulary, tokens, 0, count);
  return tokens;
}

const idsOf = fc.integer({ min: 0, max: 2 ** 32 - 1 });

test("prompts that share blocks begin with the same tokens, and diverge where their blocks do", () => {
  const trace = traceOf(4, [
    { keys: [0, 1, 2], inputTokens: 12 },
    { keys: [0, 1, 3], inputTokens: 10 },
  ]);
  const [a, b] = [promptTokens(trace, 0, 50_000), promptTokens(trace, 1, 50_000)];
  expect([a.length, b.length]).toEqual([12, 10]);
  expect(a.slice(0, 8)).toEqual(b.slice(0, 8));
  expect(a.slice(8, 10)).not.toEqual(b.slice(8, 10));
});

// Expected values here and in random.test.ts for `tiny`: the same definition written again in Python.
test("tokens of a content are the same in every run and on every machine", () => {
  expect([...tokensOf(0, 32_000, 6)]).toEqual([20_612, 21_667, 23_904, 17_082, 23_108, 1861]);
  expect([...tokensOf(182_790, 151_936, 6)]).toEqual([126_551, 141_947, 39_567, 93_187, 133_254, 73_647]);
});

test("a partial last block has the first tokens of its content", () => {
  fc.assert(
    fc.property(idsOf, fc.integer({ min: 2, max: 64 }), fc.nat(), (id, unit, cut) => {
      const inputTokens = 1 + (cut % unit);
      const trace = traceOf(unit, [{ keys: [id], inputTokens }]);
      expect(promptTokens(trace, 0, 1000)).toEqual(tokensOf(id, 1000, unit).slice(0, inputTokens));
    }),
  );
});

test("every token is in the vocabulary", () => {
  fc.assert(
    fc.property(idsOf, fc.integer({ min: 1, max: 300_000 }), (id, vocabulary) => {
      for (const token of tokensOf(id, vocabulary, 64)) {
        expect(token).toBeGreaterThanOrEqual(0);
        expect(token).toBeLessThan(vocabulary);
      }
    }),
  );
});

test("no two of 100,000 contents have the same block of 16, even in a vocabulary of 512", () => {
  const seen = new Set<string>();
  for (let id = 0; id < 100_000; id++) seen.add(tokensOf(id, 512, 16).join());
  expect(seen.size).toBe(100_000);
});

test("two contents have equal tokens only as often as by chance, also at different offsets", () => {
  const [ids, count, vocabulary] = [400, 256, 256];
  const all = Array.from({ length: ids }, (_, id) => tokensOf(id, vocabulary, count));
  for (const shift of [0, 1, 7]) {
    let same = 0;
    for (let id = 1; id < ids; id++)
      for (let i = shift; i < count; i++) if (all[id][i] === all[id - 1][i - shift]) same++;
    const expected = ((ids - 1) * (count - shift)) / vocabulary;
    // Six standard deviations.
    expect(Math.abs(same - expected)).toBeLessThan(6 * Math.sqrt(expected));
  }
});

test("all tokens of the vocabulary are about equally frequent", () => {
  const counts = new Float64Array(64);
  for (let id = 0; id < 1000; id++) for (const token of tokensOf(id, 64, 64)) counts[token]++;
  for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(6 * Math.sqrt(1000));
});

test("token ids are unchanged; one outside the vocabulary is refused, or folded with `fold`", () => {
  const trace = traceOf(1, [{ keys: [5, 900, 7], inputTokens: 3 }]);
  expect([...promptTokens(trace, 0, 901)]).toEqual([5, 900, 7]);
  expect(() => promptTokens(trace, 0, 900)).toThrow(
    new InputError(
      "request 0 has token 900, expected one below 900, the model's vocabulary (--fold maps token ids modulo the vocabulary)",
    ),
  );
  expect([...promptTokens(trace, 0, 256, { fold: true })]).toEqual([5, 900 % 256, 7]);
});

test("an array that is long enough is reused", () => {
  const trace = traceOf(16, [{ keys: [1, 2], inputTokens: 20 }]);
  const into = new Int32Array(32);
  const tokens = promptTokens(trace, 0, 1000, {}, into);
  expect(tokens.buffer).toBe(into.buffer);
  expect(tokens).toEqual(promptTokens(trace, 0, 1000));
  expect(promptTokens(trace, 0, 1000, {}, new Int32Array(4))).toEqual(tokens);
});
