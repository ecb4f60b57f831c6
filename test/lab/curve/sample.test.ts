import { describe, expect, test } from "vitest";
import { InputError } from "../../../core/errors.ts";
import { type Trace, TraceBuilder } from "../../../core/trace/trace.ts";
import { hitRatioCurves } from "../../../lab/curve/curves.ts";
import { RequestGroups } from "../../../lab/curve/request-groups.ts";
import { sampleOf } from "../../../lab/curve/sample.ts";
import { SampledHits } from "../../../lab/curve/sampled-hits.ts";
import { TraceStream } from "../../../lab/trace-stream.ts";

/** A trace of content ids of 4 tokens, with the session of each request or none. */
function traceOf(prompts: readonly (readonly number[])[], sessions: readonly number[] = []): Trace {
  const builder = new TraceBuilder(4);
  prompts.forEach((keys, r) => {
    const session = sessions[r];
    builder.add({ arrivalNs: r, inputTokens: 4 * keys.length, outputTokens: 1, keys, ...(session && { session }) });
  });
  return builder.take();
}

function groupsOf(trace: Trace): number[] {
  const { keys, keyStart: start, distinctKeys: distinct, requestCount } = trace;
  const promptBlocks = Uint32Array.from({ length: requestCount }, (_, r) => start[r + 1] - start[r]);
  const blocks = { blockTokens: 4, keys, start, promptBlocks, distinct };
  const groups = new RequestGroups();
  groups.count(blocks);
  groups.add(trace, blocks);
  return [...groups.groups().byRequest];
}

/** 200 requests of another content each; with them, content of two requests is not common. */
const others = Array.from({ length: 200 }, (_, i) => [1000 + i]);

describe("groups of requests", () => {
  test("requests that share content are one group, but not those that share only what most requests begin with", () => {
    const common = others.map((keys) => [0, ...keys]);
    const groups = groupsOf(traceOf([[0, 1, 2], [0, 1, 3], [0, 4], [0, 4, 5], [0], [0], ...common]));
    expect(groups.slice(0, 6)).toEqual([0, 0, 1, 1, 2, 3]);
    expect(new Set(groups).size).toBe(204);
  });

  test("the requests of a session are one group, with all requests that share content with one of them", () => {
    const groups = groupsOf(traceOf([[1], [2], [3], [2, 7], ...others], [5, 6, 5, 5, ...others.map(() => 0)]));
    expect(groups.slice(0, 4)).toEqual([0, 0, 0, 0]);
  });
});

/** Sessions of 4 turns, interleaved. */
const conversations = traceOf(
  Array.from({ length: 1200 }, (_, r) => {
    const session = r % 300;
    return [0, ...Array.from({ length: 2 * Math.floor(r / 300) + 2 }, (_, i) => 1 + 100 * session + i)];
  }),
);
const inMemory = () => TraceStream.of(conversations, { name: "conversations", files: [], format: "made" });

describe("a sample", () => {
  test("has all requests of the chosen groups, in order", async () => {
    const sample = await sampleOf(inMemory(), { rate: 0.2, seed: 1, warmup: 300 });
    const { requestCount, keys, keyStart } = await sample.stream.whole();
    expect({ all: sample.groupCount, of: requestCount }).toEqual({ all: 300, of: 4 * sample.chosenGroups });
    expect(sample.chosenGroups).toBeGreaterThan(40);
    expect(sample.chosenGroups).toBeLessThan(80);
    expect(sample.warmup).toBe(sample.chosenGroups);
    expect(sample.commonTokens).toBe(4);
    expect(sample.squaredSize).toBeCloseTo(1, 12);
    const first = Array.from({ length: requestCount }, (_, r) => keys[keyStart[r] + 1]);
    for (let r = 0; r < requestCount; r++) {
      expect(first[r]).toBe(first[r % sample.chosenGroups]);
      expect(sample.groups[r]).toBe(sample.groups[r % sample.chosenGroups]);
    }
  });

  test("of no group is refused", async () => {
    const tiny = sampleOf(inMemory(), { rate: 1e-9, seed: 1, warmup: 0 });
    await expect(tiny).rejects.toThrow(
      new InputError(
        "--sample 1e-7% chooses none of 300 groups of requests that share content; expected a larger share",
      ),
    );
  });

  test("estimates the curve of policies with and without a stack, and another one for another seed", async () => {
    const trace = {
      name: "conversations",
      files: [],
      format: "made",
      trace: conversations,
      inputTokens: 0,
      outputTokens: 0,
    };
    const options = { blocks: [{ blocks: 1000 }, { share: 1 }], eviction: ["lru", "fifo"], warmup: 300 };
    const exact = (await hitRatioCurves(trace, options)).report;
    const first = (await hitRatioCurves(trace, { ...options, sample: 0.2 })).report;
    const other = (await hitRatioCurves(trace, { ...options, sample: 0.2, seed: 2 })).report;
    expect(exact.sample).toBeUndefined();
    const single = (await hitRatioCurves(trace, { ...options, blocks: [{ blocks: 1000 }], sample: 0.2 })).report;
    expect(single.curves.map(({ points }) => points.map(({ blocks }) => blocks))).toEqual([[1000], [1000]]);
    expect(single.curves[0].points[0].hitRatio).toEqual(first.curves[0].points[0].hitRatio);
    expect(first.sample).toMatchObject({ rate: 0.2, ofGroups: 300 });
    expect(other.sample!.requests).not.toBe(first.sample!.requests);
    expect(Math.abs(first.distinctBlocks / exact.distinctBlocks - 1)).toBeLessThan(0.1);
    first.curves.forEach(({ exact: isExact, points }, c) => {
      expect(isExact).toBe(false);
      const [, all] = points;
      expect(all.low).toBeLessThanOrEqual(all.hitRatio.block!);
      expect(all.high).toBeGreaterThanOrEqual(all.hitRatio.block!);
      expect(Math.abs(all.hitRatio.block! - exact.curves[c].points[1].hitRatio.block!)).toBeLessThan(0.02);
    });
  });
});

test("content that every session has is not scaled, so that a sample has room for it", async () => {
  const system = Array.from({ length: 400 }, (_, i) => i);
  // Sessions of 2 requests, 200 requests apart: a cache of 400 + 200 · 2 blocks or more has the system prompt and all sessions.
  const prompts = Array.from({ length: 800 }, (_, r) => [...system, 1000 + (r % 200) + 200 * Math.floor(r / 400)]);
  const trace = { name: "chats", files: [], format: "made", trace: traceOf(prompts), inputTokens: 0, outputTokens: 0 };
  const options = { blocks: [{ blocks: 700 }], eviction: ["lru", "fifo"] };
  const exact = (await hitRatioCurves(trace, options)).report;
  const sampled = (await hitRatioCurves(trace, { ...options, sample: 0.1 })).report;
  expect(sampled.sample!.commonBlocks).toBe(400);
  expect(Math.abs(sampled.distinctBlocks / exact.distinctBlocks - 1)).toBeLessThan(0.1);
  for (const [c, { points }] of sampled.curves.entries()) {
    const [{ hitRatio }] = exact.curves[c].points;
    expect(Math.abs(points[0].hitRatio.block! - hitRatio.block!)).toBeLessThan(0.05);
    expect(hitRatio.block).toBeGreaterThan(0.9);
  }
});

describe("the interval of a sample", () => {
  /** Groups of one request with these hits and lookups, of four times as many groups of the same sizes. */
  const hitsOf = (groups: readonly [hits: number, lookups: number][], squaredSize = 1) => {
    const requests = groups.map(([, promptBlocks], group) => ({ group, promptBlocks, inputTokens: 1, fullBlocks: 0 }));
    const sample = { chosenGroups: groups.length, groupCount: 4 * groups.length, squaredSize };
    const hits = new SampledHits("block", requests, 0, sample);
    for (const [group, [count]] of groups.entries()) hits.add(group, count, 0);
    return hits;
  };
  const half = ({ low, high }: { readonly low: number; readonly high: number }) => (high - low) / 2;
  // Ratio 3/8 = 0.375 of each three groups; residuals −0.5, 1.5, −1; squares 3.5.
  const many = Array.from({ length: 100 }, (): [number, number][] => [
    [1, 4],
    [3, 4],
    [2, 8],
  ]).flat();

  test("is as many standard errors of a ratio of sums over groups as Student's t says", () => {
    const standardError = Math.sqrt((0.75 * 300 * 350) / (299 * 1600 ** 2));
    expect(half(hitsOf(many).interval(0))).toBeCloseTo(1.968 * standardError, 5);
    // With 2 degrees of freedom the 97.5th percentile is 4.303; the expansion has 4.27.
    const three = hitsOf([
      [101, 400],
      [103, 400],
      [202, 800],
    ]);
    const few = Math.sqrt((0.75 * 3 * 3.5) / (2 * 1600 ** 2));
    expect(half(three.interval(0)) / few).toBeCloseTo(4.27, 2);
  });

  test("is longer by the size of groups that were not chosen", () => {
    expect(half(hitsOf(many, 4).interval(0))).toBeCloseTo(2 * half(hitsOf(many).interval(0)), 12);
  });

  test("is longer where the curve is steep, and not where it falls", () => {
    const hits = hitsOf(many);
    expect(half(hits.interval(0.5)) / half(hits.interval(0))).toBeCloseTo(1 + 0.5 / (1 - 0.375 + 0.5), 12);
    expect(hits.interval(-0.5)).toEqual(hits.interval(0));
  });

  test("is the ratio itself where all groups have it, also at a ratio of 1", () => {
    expect(
      hitsOf([
        [1, 1],
        [1, 1],
      ]).interval(0),
    ).toEqual({ low: 1, high: 1 });
    expect(
      hitsOf([
        [0, 1],
        [0, 1],
      ]).interval(0.5),
    ).toEqual({ low: 0, high: 0 });
  });

  test("is everything with one group, which says nothing about others", () => {
    expect(hitsOf([[1, 9]]).interval(0)).toEqual({ low: 0, high: 1 });
  });
});
