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

test("the interval of a sample is 1.96 standard errors of a ratio of sums over groups", () => {
  // Groups (hits, lookups): (1, 4), (3, 4), (2, 8). Ratio 6/16 = 0.375; residuals −0.5, 1.5, −1; squares 3.5.
  const request = (group: number, promptBlocks: number) => ({ group, promptBlocks, inputTokens: 1, fullBlocks: 0 });
  const hits = new SampledHits("block", [request(0, 99), request(0, 4), request(1, 4), request(2, 8)], 1, 3, 0.25);
  hits.add(1, 1, 0);
  hits.add(2, 3, 0);
  hits.add(3, 2, 0);
  const error = 1.96 * Math.sqrt((0.75 * 3 * 3.5) / (2 * 16 ** 2));
  const { low, high } = hits.interval();
  expect(low).toBeCloseTo(0.375 - error, 12);
  expect(high).toBeCloseTo(0.375 + error, 12);
});

test("a sample of one group says nothing about others", () => {
  const hits = new SampledHits("token", [{ group: 0, promptBlocks: 1, inputTokens: 9, fullBlocks: 0 }], 0, 1, 0.1);
  hits.add(0, 1, 9);
  expect(hits.interval()).toEqual({ low: 0, high: 1 });
});
