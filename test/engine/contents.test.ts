import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { seededRandom } from "../../core/random.ts";
import { cpuBackend } from "../../engine/cpu/backend.ts";
import type { BatchResult, BatchStep, BlockData } from "../../engine/executor.ts";
import { presetRegistry } from "../../policies/registry.ts";
import {
  type Case,
  CopiesNoBlocks,
  outputsTrace,
  plantedFaults,
  SharedExecutors,
  SwapsInWrongBlocks,
  SwapsLogits,
  verified,
  Wrapped,
} from "./planted-contents.ts";
import { conversationTrace } from "./serving.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-contents-"));
const executors = new SharedExecutors({
  ...cpuBackend,
  open: (options) => cpuBackend.open({ ...options, threads: 1, folder }),
});
afterAll(async () => {
  await executors.close();
  rmSync(folder, { recursive: true });
});
const cpu = executors.backend();

describe("planted faults are found by recomputing contents, and not by comparing decisions", () => {
  test.each(plantedFaults)("%s", async (_, own, wrap) => {
    const { report } = await verified(executors.backend(wrap), own, "decisions only");
    expect([report.identical, report.contents]).toEqual([true, null]);
    const { report: checked, text } = await verified(executors.backend(wrap), own);
    expect(checked.identical).toBe(true);
    expect(checked.contents).toMatchObject({ identical: false, tolerance: null, share: 1 });
    expect(text).toMatch(/^identical: /m);
    expect(text).toMatch(/^different contents: after step \d+,/m);
    for (const line of text.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  test.each(plantedFaults.slice(1))("%s are found with the default share, too", async (_, own, wrap) => {
    const trace = conversationTrace({ seed: 4, outputs: true, requests: 240 });
    const { report } = await verified(executors.backend(wrap), { ...own, trace }, {});
    expect(report.contents).toMatchObject({ identical: false, share: null });
  });

  test("the first difference names the block, the layer, the request and the event", async () => {
    const { report, text } = await verified(
      executors.backend((to) => new CopiesNoBlocks(to)),
      { preset: "turbomind" },
    );
    const { difference } = report.contents!;
    expect(difference).toMatchObject({ what: "keys", layer: 0 });
    const { block, request, place, event, token } = difference!;
    expect(Math.floor(token / 4)).toBe(place);
    expect(event.words).toMatch(new RegExp(`^request ${request} is allocated physical block ${block}, a copy of `));
    expect(text.replace(/\s+/g, " ")).toContain(
      `the keys of token ${token} of request ${request} in layer 0, physical block ${block} (its block ${place})`,
    );
  });

  test("a swap-in of wrong blocks is attributed to the swap-in", async () => {
    const { report } = await verified(
      executors.backend((to) => new SwapsInWrongBlocks(to)),
      { preset: "vllm", swap: true },
    );
    const { request, event } = report.contents!.difference!;
    expect(event.words).toMatch(new RegExp(`^request ${request} is swapped in from host memory: `));
  });

  test("logits of another sequence are attributed to their step", async () => {
    const { report } = await verified(
      executors.backend((to) => new SwapsLogits(to)),
      { preset: "sglang" },
    );
    expect(report.contents!.difference).toMatchObject({ what: "logits", block: null, layer: null });
    expect(report.contents!.difference!.event.words).toMatch(/^a step computes /);
  });
});

describe("the contents of a thrashing cache are identical", () => {
  test.each(presetRegistry.all.map(({ name }) => name))("%s", async (preset) => {
    const storesTails = presetRegistry.get(preset).rules["store-tail"] === "true";
    const cases: Omit<Case, "preset">[] = [
      {},
      { swap: true },
      {
        scheduler: "fcfs-chunked",
        trace: conversationTrace({ seed: 6 }),
        ...(!storesTails && { outputLengths: "free" }),
      },
    ];
    for (const own of cases) {
      const { report, text } = await verified(cpu, { preset, ...own });
      expect(report.contents, text).toMatchObject({ identical: true, difference: null });
      const { sequences, blocks, hits, tokens } = report.contents!;
      // The end of each prefill, and the last step of each request.
      expect(sequences).toBeGreaterThanOrEqual(outputsTrace.requestCount);
      expect(blocks).toBeGreaterThan(sequences);
      expect(tokens).toBeGreaterThan(blocks);
      if (preset !== "tgi-simple") expect(hits).toBeGreaterThan(0);
    }
  });

  test.each([
    ["random:tiny-qwen3", "trt-llm", 4],
    ["random:tiny-mistral", "sglang", 1],
    ["random:tiny-gpt2", "lightllm", 1],
    ["random:tiny-bloom", "turbomind", 4],
  ] as const)("%s with the cache of preset %s and block size %i", async (model, preset, blockTokens) => {
    const { report } = await verified(cpu, { preset, model, blockTokens, blocks: 80 / blockTokens });
    expect(report.contents).toMatchObject({ identical: true });
  });

  test("with logits that are stored with prompts", async () => {
    const { report } = await verified(cpu, { preset: "roseinfer", blocks: 200 });
    expect(report.contents).toMatchObject({ identical: true });
    expect(report.contents!.hits).toBeGreaterThan(0);
  });
});

test("the default share limits recomputed tokens to half of the computed ones", async () => {
  const trace = conversationTrace({ seed: 9, outputs: true, requests: 100 });
  const { report } = await verified(cpu, { preset: "sglang", trace, blocks: 60 }, {});
  const { sequences, tokens, hits } = report.contents!;
  expect(hits).toBeGreaterThan(0);
  const all = await verified(cpu, { preset: "sglang", trace, blocks: 60 });
  expect(sequences).toBeLessThan(all.report.contents!.sequences);
  const computed = trace.inputTokens.reduce((sum, count) => sum + count, 0);
  expect(tokens).toBeLessThan(computed);
});

test("the device samples in steps whose logits are not compared", async () => {
  const trace = conversationTrace({ seed: 6 });
  const sampled = { with: 0, without: 0 };
  class Counts extends Wrapped {
    override executeStep(step: BatchStep): Promise<BatchResult> {
      if (step.logitsIndices.length > 1) sampled[step.sampling ? "with" : "without"]++;
      return super.executeStep(step);
    }
  }
  const own = { preset: "vllm", trace, outputLengths: "free" } as const;
  const { report } = await verified(
    executors.backend((to) => new Counts(to)),
    own,
    { share: 0.2 },
  );
  expect(report.contents).toMatchObject({ identical: true, share: 0.2 });
  expect(sampled.with).toBeGreaterThan(0);
  expect(sampled.without).toBeGreaterThan(0);
});

test("equal seeds sample the same sequences", async () => {
  const runs = [];
  for (let run = 0; run < 2; run++) runs.push(await verified(cpu, { preset: "vllm" }, { share: 0.5 }));
  const [a, b] = runs.map(({ report }) => report.contents);
  expect(a).toEqual(b);
  expect(a!.sequences).toBeGreaterThan(0);
});

describe("a backend that is not bit-exact has a tolerance", () => {
  const tolerance = { keysAndValues: 0.02, logits: 0.02 };

  /** Reads keys and values with random errors of up to 1 %. */
  class Rounds extends Wrapped {
    readonly #random = seededRandom(1);
    override async readBlocks(blocks: readonly number[]): Promise<BlockData[]> {
      const rounded = (all: BlockData["keys"]) => all.map((value) => value * (1 + 0.02 * (this.#random.unit() - 0.5)));
      const data = await super.readBlocks(blocks);
      return data.map(({ keys, values }) => ({ keys: rounded(keys), values: rounded(values) }));
    }
  }
  class RoundsAndCopiesNoBlocks extends Rounds {
    override async copyBlocks(): Promise<void> {}
  }

  test("errors within it are accepted", async () => {
    const { report, text } = await verified(
      executors.backend((to) => new Rounds(to), tolerance),
      { preset: "turbomind" },
    );
    expect(report.contents).toMatchObject({ identical: true, tolerance });
    expect(text).toMatch(/^contents within tolerance: /m);
    expect(text.replace(/\s+/g, " ")).toMatch(
      /keys and values 0\.0\d+ \(tolerance 0\.02\), of logits 0 \(tolerance 0\.02\)/,
    );
  });

  test("without it they are differences", async () => {
    const { report } = await verified(
      executors.backend((to) => new Rounds(to)),
      { preset: "turbomind" },
    );
    expect(report.contents).toMatchObject({ identical: false, tolerance: null });
    expect(report.contents!.difference!.relativeError).toBeLessThan(0.02);
  });

  test("larger errors are differences", async () => {
    const { report } = await verified(
      executors.backend((to) => new RoundsAndCopiesNoBlocks(to), tolerance),
      { preset: "turbomind" },
    );
    expect(report.contents!.identical).toBe(false);
    expect(report.contents!.difference!.relativeError).toBeGreaterThan(0.02);
    expect(report.contents!.difference!.event.words).toContain("a copy of physical block");
  });
});
