import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { noLoad, type StepLoad } from "../../../core/serving/step-load.ts";
import type { CostModel } from "../../../sim/cost/cost-model.ts";
import { type Efficiency, efficiencyOf } from "../../../sim/cost/efficiency.ts";
import { type Hardware, hardwareNamed, hardwareNames } from "../../../sim/cost/hardware.ts";
import { modelNamed, modelNames } from "../../../sim/cost/models.ts";
import { Roofline, type RooflineOptions } from "../../../sim/cost/roofline.ts";

/** An engine that reaches the peak rates of the data sheet, without fixed times. */
const ideal: Efficiency = {
  ...{ memory: 1, matrices: 1, overlap: 1, experts: 1, attention: 1, kv: 1, cached: 1, links: 1 },
  ...{ matrixUs: 0, waveUs: 0, expertsUs: 0, attentionUs: 0, tileUs: 0, emptyTileUs: 0, decodeUs: 0, decodeTileUs: 0 },
  ...{ elementwiseUs: 0, samplerUs: 0, stepUs: 0, allReduceUs: 0, tail: 0, reread: 0, skew: 0 },
};

type Own = Partial<Omit<RooflineOptions, "hardware">> & { model?: string; gpu?: string; hardware?: Partial<Hardware> };

function rooflineOf({ model = "llama-3.1-8b", gpu = "h200", hardware, ...own }: Own = {}): CostModel {
  const device = { ...hardwareNamed(gpu), ...hardware };
  return new Roofline({ shape: modelNamed(model), blockTokens: 16, ...own, hardware: device });
}

/** The load of a decode step of `sequences` sequences, each of which reads `context` tokens. */
function decoding(sequences: number, context: number, windowTokens = context): StepLoad {
  return {
    ...noLoad(),
    ...{ sequences, logits: sequences, decodeTokens: sequences },
    decodeContextTokens: sequences * context,
    decodeWindowTokens: sequences * Math.min(context, windowTokens),
  };
}

/** The load of a prefill step of `sequences` prompts, each with `tokens` tokens after `from` cached ones. */
function prompts(sequences: number, tokens: number, from = 0): StepLoad {
  const pairs = tokens * from + (tokens * (tokens + 1)) / 2;
  return {
    ...noLoad(),
    ...{ sequences, logits: sequences, prefillSequences: sequences, prefillTokens: sequences * tokens },
    ...{ prefillContextTokens: sequences * (from + tokens), prefillWindowTokens: sequences * (from + tokens) },
    ...{ prefillPairs: sequences * pairs, prefillWindowPairs: sequences * pairs },
  };
}

describe("worked by hand, at the peak rates of the data sheet", () => {
  test("one decode reads all weights but the embeddings, and its KV", () => {
    // Llama-3.1-8B: 8,030,261,248 − 128,256 · 4096 parameters of two bytes, 131,072 bytes per token; H200: 4.8 TB/s.
    const ns = (2 * (8_030_261_248 - 525_336_576) + 1000 * 131_072) / 4800;
    // Elementwise kernels and logits are a twentieth of a percent.
    expect(rooflineOf({ efficiency: ideal }).stepNs(decoding(1, 1000)) / ns).toBeCloseTo(1, 2);
  });

  test("128 decodes of 1,500 tokens each read the weights once, and 25 GB of KV", () => {
    const ns = (2 * (8_030_261_248 - 525_336_576) + 128 * 1500 * 131_072) / 4800;
    const found = rooflineOf({ efficiency: ideal }).stepNs(decoding(128, 1500));
    // In addition: logits, 131 MB in float32, and 5.5 MB per token of elementwise kernels; norms are in no matrix.
    const besides = (128 * (128_256 * 8 + 2 * 32 * (8 * 4096 + 2 * 5120 + 3 * 14_336)) - 2 * 65 * 4096) / 4800;
    expect(found).toBe(Math.round(ns + besides));
  });

  test("prefill of 2,048 tokens takes the time of its arithmetic: two operations per parameter and token, four per pair and head in tiles of 64 queries", () => {
    const matrices = (2 * (6_979_588_096 - 65 * 4096) * 2048) / 989_500;
    // For each KV head 128 tiles of 16 tokens × 4 heads, each with the keys of its last token: 16, 32, … 2,048.
    const attention = (4 * 128 * 32 * 8 * 64 * (16 * ((128 * 129) / 2))) / 989_500;
    const logits = (2 * 525_336_576) / 4800;
    const besides = (128_256 * 8 + 2048 * 2 * 32 * (8 * 4096 + 2 * 5120 + 3 * 14_336)) / 4800;
    // One unit computes all tiles, so that none is idle in the last wave.
    const found = rooflineOf({ efficiency: ideal, hardware: { units: 1 } }).stepNs(prompts(1, 2048));
    expect(found).toBe(Math.round(matrices + attention + logits + besides));
  });

  test("DeepSeek-V3: one token reads 8 of 256 experts, and the whole latent vector of MLA on each device", () => {
    const efficiency = { ...ideal };
    const alone = rooflineOf({ model: "deepseek-v3", efficiency, tensorParallel: 8 });
    const more = alone.stepNs(decoding(1, 101_000)) - alone.stepNs(decoding(1, 1000));
    // 70,272 bytes per token from memory; its arithmetic, 16 of 128 heads with 576 + 512 numbers, takes less.
    expect(more / ((100_000 * 70_272) / 4800)).toBeCloseTo(1, 3);
    const weights = (number: number) => alone.stepNs(decoding(number, 1));
    const expert = 3 * 7168 * 2048;
    const second = 8 * (1 - 8 / 256);
    // A second token uses 8 more experts, except for those that the first one uses.
    expect((weights(2) - weights(1)) / ((58 * second * expert) / 8 / 4800)).toBeCloseTo(1, 1);
  });

  test("copies read and write a block in the device's memory, swaps use the link to the host", () => {
    const cost = rooflineOf({ efficiency: ideal });
    const load = decoding(1, 100);
    const base = cost.stepNs(load);
    expect(cost.stepNs({ ...load, copiedBlocks: 100 }) - base).toBeCloseTo((100 * 2 * 16 * 131_072) / 4800, -1);
    expect(cost.stepNs({ ...load, swappedTokens: 100 }) - base).toBeCloseTo((100 * 131_072) / 64, -1);
  });

  test("sliding-window layers read only their window", () => {
    const cost = rooflineOf({ model: "mistral-7b-v0.1", efficiency: ideal });
    expect(cost.windowTokens).toBe(4096);
    const [inside, outside] = [4096, 30_000].map((context) => cost.stepNs(decoding(1, context, 4096)));
    expect(outside).toBe(inside);
  });
});

describe("limits", () => {
  test("durations that do not overlap add up", () => {
    const load = decoding(128, 1);
    const hardware = { units: 1 };
    const [none, all] = [0, 1].map((overlap) =>
      rooflineOf({ efficiency: { ...ideal, overlap }, hardware }).stepNs(load),
    );
    const arithmetic = (128 * 2 * (8_030_261_248 - 525_336_576)) / 989_500;
    expect((none - all) / arithmetic).toBeCloseTo(1, 3);
  });

  test("a step that computes nothing takes the overhead of a step, at least a nanosecond", () => {
    const nothing = { ...noLoad(), sequences: 1 };
    expect(rooflineOf({ efficiency: { ...ideal, stepUs: 7 } }).stepNs(nothing)).toBe(7000);
    expect(rooflineOf({ efficiency: ideal }).stepNs(nothing)).toBe(1);
  });

  test("decodes beside prefill read KV no faster, and slower if each has a tile of its own", () => {
    const alone = decoding(100, 2000);
    const prompt = { prefillSequences: 1, prefillTokens: 1, prefillContextTokens: 1, prefillPairs: 1 };
    const beside = { ...alone, ...prompt, sequences: 101 };
    const slowdown = (gpu: string) => rooflineOf({ gpu }).stepNs(beside) / rooflineOf({ gpu }).stepNs(alone);
    expect(slowdown("rtx-pro-6000")).toBeGreaterThan(1.1);
    expect(slowdown("h200")).toBeGreaterThanOrEqual(1);
    expect(slowdown("h200")).toBeLessThan(1.1);
  });

  test("eight devices are faster than one, but less than eight times", () => {
    for (const load of [decoding(64, 1000), prompts(1, 2048)]) {
      const [one, eight] = [1, 8].map((tensorParallel) =>
        rooflineOf({ model: "llama-3.1-70b", tensorParallel }).stepNs(load),
      );
      expect(one / eight).toBeGreaterThan(2);
      expect(one / eight).toBeLessThan(8);
    }
  });

  test("weights of half the size are read in half the time", () => {
    const read = (model: string) => rooflineOf({ model, efficiency: ideal }).stepNs(decoding(1, 1));
    expect(read("qwen2.5-32b") / read("llama-3.1-8b")).toBeCloseTo((32.76 - 0.78) / (8.03 - 0.53), 1);
  });
});

describe("laws", () => {
  const counts = fc.record({
    prompts: fc.nat(8),
    tokens: fc.integer({ min: 1, max: 3000 }),
    from: fc.nat(20_000),
    decodes: fc.nat(300),
    context: fc.integer({ min: 1, max: 20_000 }),
    copiedBlocks: fc.nat(100),
    swappedTokens: fc.nat(5000),
  });
  type Counts = typeof counts extends fc.Arbitrary<infer T> ? T : never;
  const loadOf = ({ prompts: n, tokens, from, decodes, context, copiedBlocks, swappedTokens }: Counts): StepLoad => {
    const [a, b] = [prompts(n, tokens, from), decoding(decodes, context, 128)];
    const sum = Object.keys(a).map((name) => [name, a[name as keyof StepLoad] + b[name as keyof StepLoad]]);
    return { ...(Object.fromEntries(sum) as StepLoad), copiedBlocks, swappedTokens };
  };
  const anything = fc.record({
    model: fc.constantFrom(...modelNames),
    gpu: fc.constantFrom(...hardwareNames),
    tensorParallel: fc.constantFrom(1, 2, 4, 8),
  });

  test("a larger load is never faster, in whole nanoseconds from 1", () => {
    fc.assert(
      fc.property(
        anything,
        counts,
        fc.constantFrom(...(["prompts", "tokens", "from", "decodes", "context"] as const)),
        (options, some, name) => {
          const cost = rooflineOf(options);
          const less = cost.stepNs(loadOf(some));
          expect(Number.isSafeInteger(less) && less >= 1).toBe(true);
          expect(cost.stepNs(loadOf({ ...some, [name]: some[name] + 1 }))).toBeGreaterThanOrEqual(less);
        },
      ),
    );
  });

  test("better hardware and a better engine are never slower", () => {
    const faster: ((hardware: Hardware) => Partial<Hardware>)[] = [
      ({ memoryBytesPerS }) => ({ memoryBytesPerS: 2 * memoryBytesPerS }),
      ({ flops: { fp32, bf16, fp8 } }) => ({ flops: { fp32: 2 * fp32, bf16: 2 * bf16, fp8: 2 * fp8 } }),
      ({ hostBytesPerS }) => ({ hostBytesPerS: 2 * hostBytesPerS }),
      ({ linkBytesPerS }) => ({ linkBytesPerS: 2 * linkBytesPerS }),
    ];
    fc.assert(
      fc.property(anything, counts, fc.constantFrom(...faster), (options, some, better) => {
        const load = loadOf(some);
        const hardware = better(hardwareNamed(options.gpu));
        expect(rooflineOf({ ...options, hardware }).stepNs(load)).toBeLessThanOrEqual(rooflineOf(options).stepNs(load));
        // A device whose clock exceeds the data sheet's computes faster than that.
        const matrices = Math.max(1, efficiencyOf(hardwareNamed(options.gpu)).matrices);
        const engine = rooflineOf({ ...options, efficiency: { ...ideal, matrices } }).stepNs(load);
        expect(engine).toBeLessThanOrEqual(rooflineOf(options).stepNs(load));
      }),
    );
  });

  test("the same load has the same duration twice", () => {
    fc.assert(
      fc.property(anything, counts, (options, some) => {
        const cost = rooflineOf(options);
        expect(cost.stepNs(loadOf(some))).toBe(cost.stepNs(loadOf(some)));
        expect(rooflineOf(options).stepNs(loadOf(some))).toBe(cost.stepNs(loadOf(some)));
      }),
    );
  });
});

describe("hardware", () => {
  test("is found by common names, in any case", () => {
    expect(hardwareNamed("H200").name).toBe("h200");
    expect(hardwareNamed("RTXPRO6000").name).toBe("rtx-pro-6000");
    expect(hardwareNamed("a100").name).toBe("a100-80gb");
  });

  test("an unknown name is an error that names a similar one, or all", () => {
    expect(() => hardwareNamed("h201")).toThrow('no GPU "h201": did you mean "h200"?');
    expect(() => hardwareNamed("tpu-v5e")).toThrow(/^no GPU "tpu-v5e": expected one of a100-40gb, a100-80gb, h100, /);
  });
});
