import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { windowLoadOf } from "../../../lab/run/window-load.ts";
import { schedulerRegistry } from "../../../policies/registry.ts";
import { cachedTokenBytes, kvTokenBytes, windowBytes, windowLayers } from "../../../sim/cost/kv-bytes.ts";
import { modelNamed, modelNames } from "../../../sim/cost/models.ts";

const gptOss = modelNamed("gpt-oss-20b");
const load = { sequences: 128, stepTokens: 2048, blockTokens: 16 };

describe("sliding-window layers", () => {
  test("a cached token of gpt-oss-20b has KV in 12 of 24 layers", () => {
    expect(kvTokenBytes(gptOss, 2)).toBe(49_152);
    expect(cachedTokenBytes(gptOss, 2)).toBe(24_576);
    expect(cachedTokenBytes(gptOss, 2, 8)).toBe(24_576 / 8);
  });

  test("a window of 128 tokens is in at most 9 blocks of 16 of each running sequence", () => {
    expect(windowBytes(gptOss, 2, load)).toBe((128 * 9 * 16 + 2048) * 24_576);
    // One block has one token: a window of 128 is 127 tokens before the current one, and that one.
    expect(windowBytes(gptOss, 2, { sequences: 1, stepTokens: 0, blockTokens: 1 })).toBe(128 * 24_576);
  });

  test.each(modelNames)("%s: without window layers beside full attention nothing is reserved", (name) => {
    const shape = modelNamed(name);
    const isHybrid = name.startsWith("gpt-oss");
    expect(windowLayers(shape) > 0).toBe(isHybrid);
    if (isHybrid) return;
    expect(cachedTokenBytes(shape, 2)).toBe(kvTokenBytes(shape, 2));
    expect(windowBytes(shape, 2, load)).toBe(0);
  });

  test("for every length, blocks of cached tokens and the window are never more than all layers of all tokens", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10_000 }), fc.integer({ min: 1, max: 64 }), (tokens, blockTokens) => {
        const blocks = Math.ceil(tokens / blockTokens);
        const cached = blocks * blockTokens * cachedTokenBytes(gptOss, 2);
        const window = windowBytes(gptOss, 2, { sequences: 1, stepTokens: 0, blockTokens });
        const all = blocks * blockTokens * kvTokenBytes(gptOss, 2);
        if (tokens >= 128 + 2 * blockTokens) expect(cached + window).toBeLessThanOrEqual(all);
        expect(cached).toBe(all / 2);
      }),
    );
  });

  test("the limits are the scheduler's options; 0 and no option stand for the default", () => {
    const of = (name: string, options = {}) => windowLoadOf(schedulerRegistry.get(name), options, 16);
    expect(of("fcfs-chunked")).toEqual({ sequences: 128, stepTokens: 2048, blockTokens: 16 });
    expect(of("fcfs-chunked", { "max-num-seqs": 7 }).sequences).toBe(7);
    expect(of("tgi-queue").sequences).toBe(256);
    expect(of("naive").sequences).toBe(1);
  });
});
