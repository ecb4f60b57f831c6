import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { InferenceSession, Tensor } from "onnxruntime-node";
import { median } from "../core/serving/distribution.ts";
import { defaultBackend } from "../engine/backends.ts";
import type { BatchStep, Executor } from "../engine/executor.ts";
import type { DecoderConfig } from "../engine/model/decoder.ts";
import { randomConfig, randomWeights } from "../engine/model/random.ts";
import { plainFrequencies } from "../engine/model/rope.ts";
import { parameterCount } from "../engine/model/tensors.ts";
import { modelBytes } from "../engine/onnx/proto.ts";
import type { Measurement } from "./measure.ts";

/** The thread count that the published numbers of other engines were measured with, if this machine has as many cores. */
export const threads = Math.min(2, availableParallelism());
const blockTokens = 16;
/** Repetitions of a step per round, and rounds; each round measures the machine's peak rates again. */
const repetitions = 8;
const rounds = 5;

/** Rows and columns of a matrix larger than any CPU cache (256 MiB), so that memory bandwidth is the limit. */
const rowPeak = 8192;

/** Peak rates of this machine, measured with the runtime's own operators on the same threads. */
interface Peaks {
  /** A product of matrices that fit into the CPU caches, GFLOP/s. */
  readonly gflops: number;
  /** A product of one row with a matrix that does not fit: memory bandwidth, GB/s. */
  readonly gbPerS: number;
}

/** Opens a model with a pool for `sequences` sequences of `contextTokens` tokens, or of `slots` slots if that is more. */
export async function openEngine(config: DecoderConfig, contextTokens: number, sequences = 1, slots = 0) {
  const perSequence = Math.ceil((contextTokens + 1) / blockTokens);
  const blockCount = Math.max(perSequence * sequences, Math.ceil(slots / blockTokens));
  const model = { config, weights: randomWeights(config, 1) };
  const executor = await defaultBackend.open({ model, blockCount, blockTokens, threads });
  return { executor, perSequence, vocabulary: config.vocabulary };
}

export type OpenEngine = Awaited<ReturnType<typeof openEngine>>;

/** A step with tokens `[from, to)` of each sequence; returns the logits of each sequence's last token. */
export function stepOf(
  { perSequence, vocabulary }: OpenEngine,
  parts: readonly [from: number, to: number][],
): BatchStep {
  const ends = [0];
  for (const [from, to] of parts) ends.push(ends[ends.length - 1] + to - from);
  const rows = parts.flatMap(([from, to], s) => Array.from({ length: to - from }, (_, i) => [s, from + i]));
  // The blocks of a sequence are scattered over the pool, as after many allocations.
  const stride = parts.length;
  const block = (s: number, i: number) => i * stride + s;
  return {
    inputIds: Int32Array.from(rows, ([s, at]) => (at * 7919 + s * 13) % vocabulary),
    positions: Int32Array.from(rows, ([, at]) => at),
    slotMapping: Int32Array.from(
      rows,
      ([s, at]) => block(s, Math.floor(at / blockTokens)) * blockTokens + (at % blockTokens),
    ),
    cuSeqlensQ: Int32Array.from(ends),
    contextLens: Int32Array.from(parts, ([, to]) => to),
    blockTables: Int32Array.from(parts.flatMap((_, s) => Array.from({ length: perSequence }, (_, i) => block(s, i)))),
    maxBlocksPerSequence: perSequence,
    logitsIndices: Int32Array.from(parts, (_, s) => ends[s + 1] - 1),
  };
}

/** Duration of a step as measured by the caller, and the time in ONNX Runtime. */
export interface StepMs {
  readonly wholeMs: number;
  readonly runtimeMs: number;
}

/** The fastest of `times` runs of a step, which other load on the machine affects least. */
export async function stepMs(executor: Executor, step: BatchStep, times = repetitions): Promise<StepMs> {
  let best: StepMs = { wholeMs: Number.POSITIVE_INFINITY, runtimeMs: 0 };
  for (let i = 0; i < times; i++) {
    const start = performance.now();
    const { timing } = await executor.executeStep(step);
    const wholeMs = performance.now() - start;
    if (wholeMs < best.wholeMs) best = { wholeMs, runtimeMs: timing.deviceMs };
  }
  return best;
}

/**
 * Floating-point operations of a sequence's tokens `[from, to)` as the kernels execute them: attention runs per query chunk
 * over the whole gathered context, masked positions included; after the attention of the last layer, only the token whose
 * logits are needed is computed.
 */
export function operations(config: DecoderConfig, from: number, to: number): number {
  const { longestQuery } = defaultBackend.calls.of(config).rules;
  const { layers, hidden, heads, headDim, kvHeads, ffn, vocabulary } = config;
  const kvAndQueries = hidden * headDim * (heads + 2 * kvHeads);
  const behind = hidden * (heads * headDim + 3 * ffn);
  let products = (to - from) * (layers * kvAndQueries + (layers - 1) * behind) + behind + hidden * vocabulary;
  for (let start = from; start < to; start += longestQuery) {
    const end = Math.min(to, start + longestQuery);
    const context = Math.ceil(end / blockTokens) * blockTokens;
    products += (end - start) * layers * 2 * heads * headDim * context;
  }
  return 2 * products;
}

/** Floating-point operations by the usual formula: all tokens in all layers, causal attention, no logits. */
function usualOperations(config: DecoderConfig, tokens: number): number {
  const { layers, hidden, heads, headDim, kvHeads, ffn } = config;
  const perToken = layers * hidden * (headDim * (2 * heads + 2 * kvHeads) + 3 * ffn);
  return 2 * tokens * (perToken + (layers * 2 * heads * headDim * tokens) / 2);
}

/** Bytes that a decode step reads at least: the weights without the embedding table, and the keys and values. */
function decodeBytes(config: DecoderConfig, batch: number, context: number): number {
  const { layers, kvHeads, headDim, vocabulary, hidden } = config;
  return 4 * (parameterCount(config) - vocabulary * hidden + batch * context * 2 * layers * kvHeads * headDim);
}

/** Measures the peak rates with one session per product; the runtime's threads spin, which is their fastest mode. */
class Machine {
  readonly #gemm: () => Promise<number>;
  readonly #gemv: () => Promise<number>;

  private constructor(gemm: () => Promise<number>, gemv: () => Promise<number>) {
    this.#gemm = gemm;
    this.#gemv = gemv;
  }

  static async open(): Promise<Machine> {
    return new Machine(await product(512, 2048, 2048), await product(1, rowPeak, rowPeak));
  }

  async peaks(): Promise<Peaks> {
    const best = async (run: () => Promise<number>) => {
      const all: number[] = [];
      for (let i = 0; i < 12; i++) all.push(await run());
      return Math.min(...all);
    };
    const gemmMs = await best(this.#gemm);
    const gemvMs = await best(this.#gemv);
    return { gflops: (2 * 512 * 2048 * 2048) / gemmMs / 1e6, gbPerS: (4 * rowPeak ** 2) / gemvMs / 1e6 };
  }
}

/** Returns a function that runs a matrix product once and returns its duration in ms. */
async function product(rows: number, inner: number, columns: number): Promise<() => Promise<number>> {
  const weights = Float32Array.from({ length: inner * columns }, (_, i) => (i % 13) / 13 - 0.5);
  const model = modelBytes({
    nodes: [{ type: "MatMul", domain: "", name: "product", inputs: ["a", "w"], outputs: ["c"], attributes: {} }],
    initializers: [{ name: "w", type: "float", shape: [inner, columns], data: new Uint8Array(weights.buffer) }],
    inputs: [{ name: "a", type: "float", shape: [rows, inner] }],
    outputs: [{ name: "c", type: "float", shape: [rows, columns] }],
    between: [],
    opsets: { "": 24 },
  });
  const session = await InferenceSession.create(model, {
    intraOpNumThreads: threads,
    extra: { session: { force_spinning_stop: "1" } },
  });
  const a = new Tensor("float32", new Float32Array(rows * inner).fill(0.5), [rows, inner]);
  return async () => {
    const start = performance.now();
    await session.run({ a });
    return performance.now() - start;
  };
}

/** Prefill and decode rates, and their ratios to the peak rates of the same round; medians over the rounds. */
async function speed(): Promise<Measurement[]> {
  const config = randomConfig("anchors");
  const batches = [
    [1, 128],
    [4, 128],
    [8, 128],
    [1, 512],
    [4, 512],
    [8, 512],
  ] as const;
  const machine = await Machine.open();
  const engine = await openEngine(config, 513, 8);
  const { executor } = engine;
  const found = new Map<string, { unit: string; values: number[] }>();
  const add = (name: string, value: number, unit: string) => {
    const known = found.get(name) ?? { unit, values: [] };
    known.values.push(value);
    found.set(name, known);
  };
  for (let round = 0; round < rounds; round++) {
    const { gflops, gbPerS } = await machine.peaks();
    add("product of matrices", gflops, "GFLOP/s");
    add("product of a row with a matrix", gbPerS, "GB/s");
    const full = await stepMs(executor, stepOf(engine, [[0, 512]]));
    add("prefill of 512", 512 / (full.wholeMs / 1e3), "tokens/s");
    add("  of the peak of products", (100 * usualOperations(config, 512)) / full.wholeMs / 1e6 / gflops, "%");
    const cached = await stepMs(executor, stepOf(engine, [[448, 512]]));
    add("prefill of 64 after 448 cached", cached.wholeMs, "ms");
    for (const [batch, context] of batches) {
      const sequences = Array.from({ length: batch }, (): [number, number] => [0, context]);
      await executor.executeStep(stepOf(engine, sequences));
      const step = stepOf(
        engine,
        sequences.map((): [number, number] => [context, context + 1]),
      );
      const { wholeMs } = await stepMs(executor, step, 3 * repetitions);
      add(`decode, batch ${batch}, context ${context}`, batch / (wholeMs / 1e3), "tokens/s");
      add(
        `  of the bound by bandwidth (${batch}, ${context})`,
        (100 * decodeBytes(config, batch, context)) / wholeMs / 1e6 / gbPerS,
        "%",
      );
    }
  }
  await executor.close();
  return Array.from(found, ([name, { unit, values }]) => ({ name, unit, value: median(values) }));
}

/** The model with which the prototype of this engine was measured. */
export const smallConfig: DecoderConfig = {
  ...randomConfig("anchors"),
  name: "random:prototype",
  layers: 4,
  hidden: 256,
  headDim: 32,
  ffn: 688,
  vocabulary: 4096,
  positions: { kind: "rope", inverseFrequencies: plainFrequencies(32, 10_000), factor: 1 },
};

export const cachedShares = [0, 1 / 2, 7 / 8, 15 / 16] as const;
export const contexts = [512, 1024, 2048, 4096] as const;

/** One cell of the prefill table. */
export interface Prefill {
  readonly context: number;
  readonly share: number;
  readonly ms: number;
  /** Speedup over no cached tokens, and the ratio of floating-point operations. */
  readonly speedup: number;
  readonly fewerOperations: number;
}

/** Prefill time by context length and cached share of the context. */
export async function prefills(config: DecoderConfig): Promise<{ gflops: number; cells: Prefill[] }> {
  const machine = await Machine.open();
  const cells: Prefill[] = [];
  const peaks: number[] = [];
  for (const context of contexts) {
    const engine = await openEngine(config, context);
    const ms = cachedShares.map((): number[] => []);
    for (let round = 0; round < rounds; round++) {
      peaks.push((await machine.peaks()).gflops);
      for (const [i, share] of cachedShares.entries()) {
        const step = stepOf(engine, [[context * share, context]]);
        ms[i].push((await stepMs(engine.executor, step, context > 1024 && share < 0.8 ? 1 : repetitions)).wholeMs);
      }
    }
    await engine.executor.close();
    for (const [i, share] of cachedShares.entries()) {
      const speedup = median(ms[0].map((full, round) => full / ms[i][round]));
      const fewerOperations = operations(config, 0, context) / operations(config, context * share, context);
      cells.push({ context, share, ms: median(ms[i]), speedup, fewerOperations });
    }
  }
  return { gflops: median(peaks), cells };
}

async function prefillFigures(): Promise<Measurement[]> {
  const { gflops, cells } = await prefills(randomConfig("anchors"));
  return [
    { name: "product of matrices", value: gflops, unit: "GFLOP/s" },
    ...cells.flatMap(({ context, share, ms, speedup, fewerOperations }) => [
      { name: `context ${context}, ${context * share} cached`, value: ms, unit: "ms" },
      ...(share > 0
        ? [{ name: "  times as fast", value: speedup, unit: `of ${fewerOperations.toFixed(2)} × fewer operations` }]
        : []),
    ]),
  ];
}

/** Share of a step's time outside ONNX Runtime: building inputs, copying logits, the round trip to the worker thread. */
async function overhead(): Promise<Measurement[]> {
  const engine = await openEngine(randomConfig("160m"), 513, 8);
  const { executor } = engine;
  const share = async (name: string, parts: readonly [number, number][], times: number): Promise<Measurement> => {
    const { wholeMs, runtimeMs } = await stepMs(executor, stepOf(engine, parts), times);
    return { name: `${name}, of ${wholeMs.toFixed(1)} ms`, value: 100 * (1 - runtimeMs / wholeMs), unit: "%" };
  };
  const eight = (from: number, to: number) => Array.from({ length: 8 }, (): [number, number] => [from, to]);
  await executor.executeStep(stepOf(engine, eight(0, 512)));
  const figures = [
    await share("prefill of 512", [[0, 512]], 5),
    await share("decode, batch 1, context 512", [[512, 513]], 20),
    await share("decode, batch 8, context 512", eight(512, 513), 10),
  ];
  await executor.close();
  return figures;
}

/** Step times with a pool of `slots` slots, and the memory in use. */
async function pool(slots: number): Promise<Measurement[]> {
  const config = randomConfig("anchors");
  const before = residentMiB();
  const engine = await openEngine(config, 513, 1, slots);
  const { executor } = engine;
  const opened = residentMiB();
  const decode = stepOf(engine, [[512, 513]]);
  await executor.executeStep(stepOf(engine, [[0, 512]]));
  const { wholeMs } = await stepMs(executor, decode, 60);
  const prefill = await stepMs(executor, stepOf(engine, [[0, 512]]), 10);
  // Every block is written once, so that its memory is resident.
  const [{ keys, values }] = await executor.readBlocks([0]);
  for (let block = 0; block < executor.blockCount; block++) await executor.writeBlocks([block], [{ keys, values }]);
  const all = residentMiB();
  await executor.close();
  const poolMiB = (8 * config.layers * slots * config.kvHeads * config.headDim) / 2 ** 20;
  const weightsMiB = (4 * parameterCount(config)) / 2 ** 20;
  return [
    { name: `${slots} slots: decode, context 512`, value: wholeMs, unit: "ms" },
    { name: "  prefill of 512", value: prefill.wholeMs, unit: "ms" },
    { name: "  weights", value: weightsMiB, unit: "MiB" },
    { name: "  pool", value: poolMiB, unit: "MiB" },
    { name: "  other memory, after opening", value: opened - before - weightsMiB - poolMiB, unit: "MiB" },
    { name: "  other memory, at the end", value: all - before - weightsMiB - poolMiB, unit: "MiB" },
  ];
}

/** Resident memory of this process, MiB. */
function residentMiB(): number {
  const [, kib] = /VmRSS:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))!;
  return Number(kib) / 1024;
}

// bench/main.ts runs this in a separate process: `engine.ts speed`.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [part, argument] = process.argv.slice(2);
  const parts: Record<string, () => Promise<Measurement[]>> = {
    speed,
    prefill: prefillFigures,
    overhead,
    pool: () => pool(Number(argument)),
  };
  console.log(JSON.stringify(await parts[part]()));
}
