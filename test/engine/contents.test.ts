import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { verifyText } from "../../cli/verify/verify-text.ts";
import { seededRandom } from "../../core/random.ts";
import { CacheReplay } from "../../core/replica/replay.ts";
import type { Trace } from "../../core/trace/trace.ts";
import type { EngineBackend, ExecutorOptions } from "../../engine/backend.ts";
import type { ContentsTolerance } from "../../engine/contents/difference.ts";
import { cpuBackend } from "../../engine/cpu/backend.ts";
import type { BatchResult, BatchStep, BlockData, DeviceSampling, Executor } from "../../engine/executor.ts";
import { poolParts } from "../../engine/pool-parts.ts";
import { partsOf, type RunConfig } from "../../lab/run/configuration.ts";
import { engineFrom } from "../../lab/run/real-engine.ts";
import type { SimulationOptions } from "../../lab/run/simulation-options.ts";
import type { ContentsOptions } from "../../lab/verify/contents.ts";
import { verifyDecisions } from "../../lab/verify/verification.ts";
import { verifyReport } from "../../lab/verify/verify-report.ts";
import { presetRegistry, schedulerRegistry } from "../../policies/registry.ts";
import { conversationTrace, ForwardingExecutor } from "./serving.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-contents-"));
/** One executor for each model and block size. Its blocks contain data of earlier tests. */
const opened = new Map<string, Executor>();
afterAll(async () => {
  for (const executor of opened.values()) await executor.close();
  rmSync(folder, { recursive: true });
});

async function openedFor({ model, blockTokens, blockCount }: ExecutorOptions): Promise<Executor> {
  const key = `${model.config.name} ${blockTokens}`;
  const whole =
    opened.get(key) ??
    (await cpuBackend.open({ model, blockTokens, blockCount: 1200 / blockTokens, threads: 1, folder }));
  opened.set(key, whole);
  return poolParts(whole, [blockCount])[0];
}

/** The CPU backend with a wrapped executor. */
const backendOf = (wrap: (executor: Executor) => Executor, tolerance?: ContentsTolerance): EngineBackend => ({
  ...cpuBackend,
  ...(tolerance && { contentsTolerance: tolerance }),
  open: async (options) => wrap(await openedFor(options)),
});

interface Case extends SimulationOptions {
  readonly preset: string;
  readonly scheduler?: string;
  readonly swap?: boolean;
  readonly blocks?: number;
  readonly blockTokens?: number;
  readonly trace?: Trace;
  readonly tolerance?: ContentsTolerance;
}

const outputs = conversationTrace({ seed: 4, outputs: true });

/** Serves a trace in a small pool, so that blocks are evicted and sequences preempted. */
async function verified(
  {
    preset: name,
    scheduler,
    swap,
    blocks = 18,
    blockTokens = 4,

    trace = outputs,
    tolerance,
    ...options
  }: Case,
  wrap: (executor: Executor) => Executor = (executor) => executor,
  contents: ContentsOptions | "decisions only" = { share: 1 },
) {
  const preset = presetRegistry.get(name);
  const chosen = swap ? "fcfs" : scheduler;
  const parts = partsOf(
    {
      ...{ preset, index: preset.index, eviction: preset.eviction },
      ...(chosen !== undefined && { scheduler: schedulerRegistry.get(chosen) }),
    },
    {},
    "cpu",
  );
  const schedulerOptions = { ...parts.schedulerOptions, ...(swap && { swap: 1 }) };
  const config: RunConfig = { ...parts, schedulerOptions, blockTokens, blocks, seed: 1 };
  const engine = {
    ...engineFrom({ model: "random:tiny", threads: 1, pace: "none", ...options }, trace),
    backend: backendOf(wrap, tolerance),
  };
  const columns = CacheReplay.blockKeys({ ...config, blocks: undefined }, trace);
  const verification = await verifyDecisions(trace, columns, config, engine, {
    contents: contents === "decisions only" ? undefined : contents,
  });
  const input = { name: "made", files: ["made"], format: "made", trace, inputTokens: 1, outputTokens: 1 };
  const report = verifyReport(input, columns, config, engine, verification);
  return { report, text: verifyText(input, report) };
}

/** Also samples, as the CPU backend does. */
class Wrapped extends ForwardingExecutor {
  canSample(sampling: DeviceSampling): boolean {
    return this.to.canSample?.(sampling) ?? false;
  }
  override close(): Promise<void> {
    return this.to.close();
  }
}

/** Writes one row to the slot of another sequence's row, where it overwrites a token: in the sixth batch, or in every sixth. */
class WritesOneRowToAWrongBlock extends Wrapped {
  #steps = 0;
  readonly #repeats: boolean;

  constructor(to: Executor, repeats: boolean) {
    super(to);
    this.#repeats = repeats;
  }
  override executeStep(step: BatchStep): Promise<BatchResult> {
    const { cuSeqlensQ, slotMapping } = step;
    // The recomputation has steps of one sequence.
    if (cuSeqlensQ.length < 4) return super.executeStep(step);
    this.#steps++;
    if (this.#repeats ? this.#steps % 6 !== 0 : this.#steps !== 6) return super.executeStep(step);
    return super.executeStep({ ...step, slotMapping: slotMapping.with(0, slotMapping[slotMapping.length - 1]) });
  }
}

class SwapsInWrongBlocks extends Wrapped {
  override writeBlocks(blocks: readonly number[], data: readonly BlockData[]): Promise<void> {
    return super.writeBlocks(blocks, [...data.slice(1), data[0]]);
  }
}

class CopiesNoBlocks extends Wrapped {
  override async copyBlocks(): Promise<void> {}
}

/** Returns logits of other tokens in batches of several sequences. */
class SwapsLogits extends Wrapped {
  override async executeStep(step: BatchStep): Promise<BatchResult> {
    const result = await super.executeStep(step);
    const rows = step.logitsIndices.length;
    if (rows < 2 || result.tokens) return result;
    const width = result.logits.length / rows;
    const logits = new Float32Array(result.logits.length);
    logits.set(result.logits.subarray(width));
    logits.set(result.logits.subarray(0, width), logits.length - width);
    return { ...result, logits };
  }
}

describe("planted faults are found by recomputing contents, and not by comparing decisions", () => {
  const faults = [
    ["one row written to a wrong block", { preset: "vllm" }, (to) => new WritesOneRowToAWrongBlock(to, false)],
    ["rows written to wrong blocks", { preset: "vllm" }, (to) => new WritesOneRowToAWrongBlock(to, true)],
    ["swap-ins of wrong blocks", { preset: "vllm", swap: true }, (to) => new SwapsInWrongBlocks(to)],
    ["copies that are not carried out", { preset: "turbomind" }, (to) => new CopiesNoBlocks(to)],
    ["logits of another sequence", { preset: "sglang" }, (to) => new SwapsLogits(to)],
  ] satisfies [string, Case, (to: Executor) => Executor][];

  test.each(faults)("%s", async (_, own, wrap) => {
    const { report } = await verified(own, wrap, "decisions only");
    expect([report.identical, report.contents]).toEqual([true, null]);
    const { report: checked, text } = await verified(own, wrap);
    expect(checked.identical).toBe(true);
    expect(checked.contents).toMatchObject({ identical: false, tolerance: null, share: 1 });
    expect(text).toMatch(/^identical: /m);
    expect(text).toMatch(/^different contents: after step \d+,/m);
    for (const line of text.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  test.each(faults.slice(1))("%s are found with the default share, too", async (_, own, wrap) => {
    const trace = conversationTrace({ seed: 4, outputs: true, requests: 80 });
    const { report } = await verified({ ...own, trace }, wrap, {});
    expect(report.contents).toMatchObject({ identical: false, share: null });
  });

  test("the first difference names the block, the layer, the request and the event", async () => {
    const { report, text } = await verified({ preset: "turbomind" }, (to) => new CopiesNoBlocks(to));
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
    const { report } = await verified({ preset: "vllm", swap: true }, (to) => new SwapsInWrongBlocks(to));
    const { request, event } = report.contents!.difference!;
    expect(event.words).toMatch(new RegExp(`^request ${request} is swapped in from host memory: `));
  });

  test("logits of another sequence are attributed to their step", async () => {
    const { report } = await verified({ preset: "sglang" }, (to) => new SwapsLogits(to));
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
      const { report, text } = await verified({ preset, ...own });
      expect(report.contents, text).toMatchObject({ identical: true, difference: null });
      const { sequences, blocks, hits, tokens } = report.contents!;
      // The end of each prefill, and the last step of each request.
      expect(sequences).toBeGreaterThanOrEqual(outputs.requestCount);
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
    const { report } = await verified({ preset, model, blockTokens, blocks: 80 / blockTokens });
    expect(report.contents).toMatchObject({ identical: true });
  });

  test("with logits that are stored with prompts", async () => {
    const { report } = await verified({ preset: "roseinfer", blocks: 200 });
    expect(report.contents).toMatchObject({ identical: true });
    expect(report.contents!.hits).toBeGreaterThan(0);
  });
});

test("the default share limits recomputed tokens to half of the computed ones", async () => {
  const trace = conversationTrace({ seed: 9, outputs: true, requests: 100 });
  const { report } = await verified({ preset: "sglang", trace, blocks: 60 }, undefined, {});
  const { sequences, tokens, hits } = report.contents!;
  expect(hits).toBeGreaterThan(0);
  const all = await verified({ preset: "sglang", trace, blocks: 60 });
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
  const { report } = await verified(own, (to) => new Counts(to), { share: 0.2 });
  expect(report.contents).toMatchObject({ identical: true, share: 0.2 });
  expect(sampled.with).toBeGreaterThan(0);
  expect(sampled.without).toBeGreaterThan(0);
});

test("equal seeds sample the same sequences", async () => {
  const runs = [];
  for (let run = 0; run < 2; run++) runs.push(await verified({ preset: "vllm" }, undefined, { share: 0.5 }));
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
    const { report, text } = await verified({ preset: "turbomind", tolerance }, (to) => new Rounds(to));
    expect(report.contents).toMatchObject({ identical: true, tolerance });
    expect(text.replace(/\s+/g, " ")).toContain("within 0.02 of the largest key or value of a token and 0.02");
  });

  test("without it they are differences", async () => {
    const { report } = await verified({ preset: "turbomind" }, (to) => new Rounds(to));
    expect(report.contents).toMatchObject({ identical: false, tolerance: null });
    expect(report.contents!.difference!.relativeError).toBeLessThan(0.02);
  });

  test("larger errors are differences", async () => {
    const { report } = await verified({ preset: "turbomind", tolerance }, (to) => new RoundsAndCopiesNoBlocks(to));
    expect(report.contents!.identical).toBe(false);
    expect(report.contents!.difference!.relativeError).toBeGreaterThan(0.02);
    expect(report.contents!.difference!.event.words).toContain("a copy of physical block");
  });
});
