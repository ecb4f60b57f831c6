import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readTrace, type Trace } from "../../../core/trace/trace.ts";
import { type ChatOptions, chat, chatSource } from "../../../traces/generators/chat.ts";
import { failureOf } from "../files.ts";

const generate = (options: ChatOptions = {}) => readTrace(chatSource(options));

function digestOf(trace: Trace): string {
  const hash = createHash("sha256");
  const { arrivalNs, inputTokens, outputTokens, maxOutputTokens, keys, keyStart, optional } = trace;
  const { session, parent, thinkNs } = optional;
  for (const column of [arrivalNs, inputTokens, outputTokens, maxOutputTokens, keys, keyStart]) hash.update(column);
  for (const column of [session!, parent!, thinkNs!]) hash.update(column);
  return hash.digest("hex").slice(0, 16);
}

test("the same options give the same trace, on every machine and in every version", async () => {
  const golden = "0068f136e338d640";
  expect(digestOf(await generate())).toBe(golden);
  expect(digestOf(await generate({ seed: 2 }))).not.toBe(golden);
});

test("a trace with fewer requests is the beginning of a longer one", async () => {
  const [few, many] = [await generate({ requests: 50 }), await generate({ requests: 9000 })];
  expect([...few.keys]).toEqual([...many.keys.subarray(0, few.keys.length)]);
  expect([...few.arrivalNs]).toEqual([...many.arrivalNs.subarray(0, 50)]);
});

test("a turn sends the whole history, the output and a new message, after the output and a think time", async () => {
  const trace = await generate({ requests: 500 });
  const { session, parent, thinkNs } = trace.optional;
  let continued = 0;
  for (let r = 0; r < trace.requestCount; r++) {
    const p = parent![r];
    if (p < 0) continue;
    continued++;
    expect(session![r]).toBe(session![p]);
    expect(trace.inputTokens[r]).toBeGreaterThan(trace.inputTokens[p] + trace.outputTokens[p]);
    const answerNs = Math.round((trace.outputTokens[p] / chat.parameters.outputTokensPerS.default) * 1e9);
    expect(trace.arrivalNs[r]).toBe(trace.arrivalNs[p] + answerNs + thinkNs![r]);
    const whole = Math.floor(trace.inputTokens[p] / trace.unitTokens);
    const keysFrom = (row: number) => trace.keys.subarray(trace.keyStart[row], trace.keyStart[row] + whole);
    expect(keysFrom(r)).toEqual(keysFrom(p));
  }
  expect(continued).toBeGreaterThan(200);
});

const someOptions = fc.record({
  requests: fc.integer({ min: 1, max: 150 }),
  seed: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  unitTokens: fc.integer({ min: 2, max: 64 }),
  systemPrompts: fc.integer({ min: 1, max: 5 }),
  systemTokens: fc.integer({ min: 0, max: 100 }),
  turns: fc.double({ min: 1, max: 6, noNaN: true }),
  userTokens: fc.integer({ min: 1, max: 50 }),
  maxInputTokens: fc.integer({ min: 1, max: 300 }),
});

test("a trace is valid for all options: lengths, order, dense ids, one prefix per id", async () => {
  await fc.assert(
    fc.asyncProperty(someOptions, async (options) => {
      const trace = await generate(options);
      expect(trace.requestCount).toBe(options.requests);
      const parents = new Map<number, number>();
      for (let r = 0; r < trace.requestCount; r++) {
        const keys = trace.keys.subarray(trace.keyStart[r], trace.keyStart[r + 1]);
        expect(keys.length).toBe(Math.ceil(trace.inputTokens[r] / options.unitTokens));
        expect(trace.inputTokens[r]).toBeLessThanOrEqual(options.maxInputTokens);
        expect(trace.maxOutputTokens[r]).toBeGreaterThanOrEqual(trace.outputTokens[r]);
        if (r > 0) expect(trace.arrivalNs[r]).toBeGreaterThanOrEqual(trace.arrivalNs[r - 1]);
        keys.forEach((key, i) => {
          const before = i === 0 ? -1 : keys[i - 1];
          if (!parents.has(key)) expect(key).toBe(parents.size);
          expect(parents.get(key) ?? before).toBe(before);
          parents.set(key, before);
        });
      }
      expect(trace.distinctKeys).toBe(parents.size);
    }),
    { numRuns: 60 },
  );
});

/** Hits of a FIFO cache of blocks; with `renew` an LRU cache. */
function hitsOf(keys: Uint32Array, blocks: number, renew: boolean): number {
  const cache = new Set<number>();
  let hits = 0;
  for (const key of keys) {
    if (cache.has(key)) {
      hits++;
      if (!renew) continue;
      cache.delete(key);
    } else if (cache.size === blocks) cache.delete(cache.values().next().value!);
    cache.add(key);
  }
  return hits;
}

test("hit ratios of policies differ on the built-in example at every relevant capacity", async () => {
  const { keys, distinctKeys } = await generate();
  for (const share of [0.01, 0.05, 0.1, 0.25, 0.5]) {
    const blocks = Math.floor(share * distinctKeys);
    const [fifo, lru] = [hitsOf(keys, blocks, false), hitsOf(keys, blocks, true)];
    expect(lru / keys.length - fifo / keys.length).toBeGreaterThan(0.01);
    expect(1 - distinctKeys / keys.length - lru / keys.length).toBeGreaterThan(0.01);
  }
});

test.each<[Record<string, unknown>, string]>([
  [{ requests: 0 }, "requests is 0, expected a whole number from 1 to 100000000"],
  [{ seed: 0.5 }, "seed is 0.5, expected a whole number from 0 to 4294967295"],
  [{ turns: Number.NaN }, "turns is NaN, expected a number from 1 to 1000"],
  [{ thinkS: -1 }, "thinkS is -1, expected a number from 0 to 86400"],
  [{ unitTokens: 1 }, "unitTokens is 1, expected a whole number from 2 to 65536"],
])("%j is refused", async (options, message) => {
  expect(await failureOf(async () => chatSource(options))).toBe(message);
});
