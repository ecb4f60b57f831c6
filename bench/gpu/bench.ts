// `npm run gpu:bench`: speed of the CUDA engine on this machine. Each measurement prints a line; all results are in one JSON file.
import { join } from "node:path";
import { median } from "../../core/serving/distribution.ts";
import type { BackendName } from "../../engine/backends.ts";
import { type Executor, ExecutorError } from "../../engine/executor.ts";
import { loadModel } from "../../engine/model/load.ts";
import { parameterCount } from "../../engine/model/tensors.ts";
import { blocksFor, blockTokens, greedyStep, promptOf, stepOf } from "../../lab/calibrate/profile/batch-steps.ts";
import { profileBlocks } from "../../lab/calibrate/profile/grid.ts";
import { fillWithNoise } from "../../lab/fuzz/engines.ts";
import { serveTrace } from "../../lab/library.ts";
import { presetRegistry } from "../../policies/registry.ts";
import { Operators } from "./operators.ts";
import { profileOperators } from "./profile.ts";
import { backendFrom, optionsFrom, Report, short } from "./report.ts";
import { type Sizes, sizes } from "./shapes.ts";
import { blockSizeFor, conversations } from "./trace.ts";

const limitMinutes = 9;
const names = ["target", "shape", "trace", "out"] as const;

/** Rates of the device, as measured by the first section; the bandwidth is that of reads or of a copy, whichever is larger. */
interface Rates {
  readonly bytesPerS: number;
  readonly flopPerS: number;
}

class Bench {
  readonly #sizes: Sizes;
  readonly #backend: ReturnType<typeof backendFrom>;
  readonly #report: Report;
  readonly #out: string;
  readonly #trace: string | undefined;
  readonly #failed: string[] = [];

  constructor(options: ReturnType<typeof optionsFrom<(typeof names)[number]>>, report: Report, out: string) {
    this.#sizes = sizes[options.shape ?? "8b"];
    this.#backend = backendFrom(options.target);
    this.#report = report;
    this.#out = out;
    this.#trace = options.trace;
  }

  /** @returns the sections that failed, which do not stop the others */
  async run(): Promise<readonly string[]> {
    const { model, smallModel, profile, cachedPrompt, batches } = this.#sizes;
    const operators = new Operators(loadModel(model).config, profileBlocks(profile));
    try {
      const rates = this.#rates(operators);
      await this.#section("decode attention", async () => this.#decodeAttention(operators, rates));
      await this.#section("weight layouts", async () => this.#weightLayouts(operators, rates));
      await this.#withModel(model, async (executor) => {
        await this.#section("decode", () => this.#decode(executor, model, rates, "decode", batches));
        await this.#section("prefill", () => this.#prefill(executor, rates));
        await this.#section("cached prefill", () => this.#cachedPrefill(executor, cachedPrompt));
      });
      await this.#withModel(smallModel, (executor) => this.#decode(executor, smallModel, rates, "small decode", [1]));
      await this.#section("profile", async () => this.#profile(operators));
    } finally {
      operators.close();
    }
    await this.#section("presets", () => this.#presets());
    return this.#failed;
  }

  async #section(name: string, measure: () => Promise<void>): Promise<void> {
    if (this.#report.isOver) {
      this.#report.line(`${name} is not measured: the time limit has passed`);
      return;
    }
    try {
      await measure();
    } catch (error) {
      this.#failed.push(name);
      this.#report.line(`FAILED ${name}: ${(error as Error).message}`);
      this.#report.add({ failed: this.#failed });
    }
  }

  /** Bandwidth of a copy and of reads, and FLOP/s of a large product of matrices in bf16. */
  #rates(operators: Operators): Rates {
    const { copyBytes, product } = this.#sizes;
    // The products come first: they also raise the clocks of an idle device.
    const { cublas, own } = operators.matrixRates(product);
    const copyBytesPerS = operators.copyBandwidth(copyBytes);
    const readBytesPerS = operators.readBandwidth(copyBytes);
    const bytesPerS = Math.max(copyBytesPerS, readBytesPerS);
    this.#report.line(`copy bandwidth ${short(copyBytesPerS / 1e9)} GB/s, read and written`);
    this.#report.line(`read bandwidth ${short(readBytesPerS / 1e9)} GB/s`);
    this.#report.line(
      `bf16 matrix peak ${short((cublas ?? own) / 1e12)} TFLOP/s; own GEMM ${short(own / 1e12)} TFLOP/s`,
    );
    this.#report.add({
      rates: { bytesPerS, copyBytesPerS, readBytesPerS, cublasFlopPerS: cublas, ownFlopPerS: own },
    });
    return { bytesPerS, flopPerS: cublas ?? own };
  }

  /** Attention of decodes alone, as a fraction of the bandwidth at which it can read keys and values. */
  #decodeAttention(operators: Operators, { bytesPerS }: Rates): void {
    const { model, batches, contextTokens } = this.#sizes;
    const { vocabulary, kvHeads, headDim } = loadModel(model).config;
    const rows = batches.map((batch) => {
      const us = operators.attention(decodesOf(batch, contextTokens, vocabulary));
      const bytes = 4 * batch * contextTokens * kvHeads * headDim;
      const fraction = bytes / bytesPerS / (us / 1e6);
      this.#report.line(`decode attention, batch ${batch}: ${short(us)} µs a layer, ${percent(fraction)} of bandwidth`);
      return { batch, contextTokens, us, bytes, fractionOfBandwidth: fraction };
    });
    this.#report.add({ decodeAttention: rows });
  }

  /** Products of few rows with weights as [inputs, outputs], the engine's layout, and as [outputs, inputs]. */
  #weightLayouts(operators: Operators, { bytesPerS }: Rates): void {
    const { model, layoutRows } = this.#sizes;
    const { vocabulary } = loadModel(model).config;
    const results = layoutRows.flatMap((rows) => {
      const step = stepOf([{ tokens: promptOf(rows, vocabulary), from: 0, to: rows, block: 0 }]);
      const times = operators.weightLayouts(step);
      const total = (of: "bytes" | "us" | "transposedUs") => times.reduce((sum, each) => sum + each[of], 0);
      const fraction = (us: number) => percent(total("bytes") / bytesPerS / (us / 1e6));
      const [us, transposedUs] = [total("us"), total("transposedUs")];
      this.#report.line(
        `weights of a layer, ${rows} rows: ${short(us)} µs as [inputs, outputs], ${fraction(us)} of bandwidth; ` +
          `${short(transposedUs)} µs as [outputs, inputs], ${fraction(transposedUs)}`,
      );
      return times.map((each) => ({ rows, ...each }));
    });
    this.#report.add({ weightLayouts: results });
  }

  /** Runs `measure` with a pool for all steps. */
  #withModel(model: string, measure: (executor: Executor) => Promise<void>): Promise<void> {
    return this.#section(model, () => this.#onExecutor(model, measure));
  }

  async #onExecutor(model: string, measure: (executor: Executor) => Promise<void>): Promise<void> {
    const { batches, contextTokens, steps, prefills, cachedPrompt } = this.#sizes;
    const decoding = Math.max(...batches) * blocksFor(contextTokens + steps + 1);
    const blockCount = Math.max(decoding, blocksFor(Math.max(...prefills, cachedPrompt)));
    const from = this.#report.seconds;
    const executor = await this.#backend.open({ model: loadModel(model), blockCount, blockTokens });
    this.#report.line(`${model} is loaded, ${short(this.#report.seconds - from)} s`);
    try {
      // Zeros would take less power, and thus less time.
      await fillWithNoise(executor);
      await measure(executor);
    } finally {
      await executor.close();
    }
  }

  /** Greedy decode steps at a fixed context, against the time of reading weights, keys and values. */
  async #decode(executor: Executor, model: string, rates: Rates, name: string, batches: readonly number[]) {
    const { contextTokens, steps } = this.#sizes;
    const { config } = loadModel(model);
    const { memory, weightBits } = this.#backend;
    const lookup = config.tiedEmbeddings ? 0 : 2 * config.vocabulary * config.hidden;
    const rows = [];
    for (const batch of batches) {
      const measured: Record<"wallMs" | "deviceMs" | "hostMs", number>[] = [];
      // The first steps load kernels and capture the graph.
      for (let i = -3; i < steps; i++) {
        const step = greedyStep(decodesOf(batch, contextTokens + Math.max(0, i), config.vocabulary));
        const fromMs = performance.now();
        const { timing } = await executor.executeStep(step);
        if (i >= 0) measured.push({ wallMs: performance.now() - fromMs, ...timing });
      }
      const ms = (of: "wallMs" | "deviceMs" | "hostMs") => median(measured.map((each) => each[of]));
      const [wallMs, deviceMs, hostMs] = [ms("wallMs"), ms("deviceMs"), ms("hostMs")];
      const kvBytes = batch * (contextTokens + steps / 2) * memory.tokenBytes(config);
      const bytes = memory.weightBytes(config, weightBits[0]) - lookup + kvBytes;
      const boundMs = (1000 * bytes) / rates.bytesPerS;
      const overhead = 1 - deviceMs / wallMs;
      rows.push({
        ...{ model, batch, contextTokens, wallMs, deviceMs, hostMs, bytes, boundMs },
        ...{ fractionOfBound: boundMs / deviceMs, timesBound: deviceMs / boundMs, hostOverhead: overhead },
        tokensPerS: (1000 * batch) / wallMs,
      });
      this.#report.line(
        `${model} decode, batch ${batch}: ${short(deviceMs)} ms on the device, ${percent(boundMs / deviceMs)} of the bandwidth bound; ` +
          `${short(wallMs)} ms a step, host ${percent(overhead)}`,
      );
    }
    this.#report.add({ [name]: rows });
  }

  /** Prefill of whole prompts, as a fraction of the matrix peak. */
  async #prefill(executor: Executor, { flopPerS }: Rates): Promise<void> {
    const { model, prefills } = this.#sizes;
    const rows = [];
    for (const tokens of prefills) {
      if (this.#report.isOver) break;
      const deviceMs = await this.#prefillMs(executor, tokens, 0);
      const flop = prefillFlop(model, tokens);
      const fraction = flop / flopPerS / (deviceMs / 1000);
      rows.push({ tokens, deviceMs, flop, fractionOfPeak: fraction, tokensPerS: (1000 * tokens) / deviceMs });
      this.#report.line(`prefill of ${tokens} tokens: ${short(deviceMs)} ms, ${percent(fraction)} of the matrix peak`);
    }
    this.#report.add({ prefill: rows });
  }

  /** Prefill of one prompt by the number of its cached tokens. */
  async #cachedPrefill(executor: Executor, tokens: number): Promise<void> {
    const rows: { cachedTokens: number; deviceMs: number; speedUp: number }[] = [];
    for (const cachedTokens of this.#sizes.cached) {
      const deviceMs = await this.#prefillMs(executor, tokens, cachedTokens);
      const speedUp = (rows[0]?.deviceMs ?? deviceMs) / deviceMs;
      rows.push({ cachedTokens, deviceMs, speedUp });
      this.#report.line(
        `prefill of ${tokens} tokens, ${cachedTokens} cached: ${short(deviceMs)} ms, ${short(speedUp)} ×`,
      );
    }
    this.#report.add({ cachedPrefill: { tokens, rows } });
  }

  async #prefillMs(executor: Executor, tokens: number, cached: number): Promise<number> {
    const { vocabulary } = loadModel(this.#sizes.model).config;
    const step = greedyStep(stepOf([{ tokens: promptOf(tokens, vocabulary), from: cached, to: tokens, block: 0 }]));
    const all = [];
    for (let i = 0; i < 4; i++) all.push((await executor.executeStep(step)).timing.deviceMs);
    return median(all.slice(1));
  }

  #profile(operators: Operators): void {
    const { model, shapeName, profile } = this.#sizes;
    const { config } = loadModel(model);
    const written = profileOperators(this.#out, operators, config, shapeName, profile, () => this.#report.isOver);
    this.#report.line(`operator profile ${written.folder}: ${JSON.stringify(written.rows)} rows`);
    this.#report.add({ profile: written });
  }

  /** Hit ratio and throughput of presets that serve a trace, all requests at once. */
  async #presets(): Promise<void> {
    const { presets, requests, blocks, smallModel } = this.#sizes;
    const source = this.#trace ?? (await conversations(requests));
    const rows = [];
    for (const preset of presets) {
      if (this.#report.isOver) break;
      const blockSize = this.#trace ? undefined : blockSizeFor(presetRegistry.get(preset).blockTokens, blockTokens);
      const poolTokens = blocks * blockTokens;
      const { report } = await serveTrace(source, {
        ...{ backend: this.#backend.name as BackendName, preset, model: smallModel, fold: true, pace: "none" },
        ...{ limit: requests, capacity: poolTokens * this.#backend.memory.tokenBytes(loadModel(smallModel).config) },
        ...(blockSize !== undefined && { blockSize }),
        signal: this.#report.limit,
      });
      const { throughput, latency } = report;
      const { hitRatio } = report.cache;
      rows.push({ preset, hitRatio, throughput, latency });
      this.#report.line(
        `${preset} on ${report.trace.requests} requests: hit ratio ${percent(hitRatio.token)}, ` +
          `${short(throughput!.requestsPerS)} requests/s`,
      );
      this.#report.add({ presets: { model: smallModel, poolTokens, trace: report.trace, rows } });
    }
  }
}

/** A decode of `batch` sequences of `contextTokens` tokens, in their own blocks. */
function decodesOf(batch: number, contextTokens: number, vocabulary: number) {
  // Room for the tokens of all steps.
  const blocks = blocksFor(contextTokens + 1);
  return stepOf(
    Array.from({ length: batch }, (_, i) => ({
      tokens: promptOf(contextTokens, vocabulary, i),
      ...{ from: contextTokens - 1, to: contextTokens, block: i * blocks },
    })),
  );
}

/** FLOP of a prefill: two for each weight and token, without embedding and head, and four for each query, key and dimension. */
function prefillFlop(model: string, tokens: number): number {
  const { config } = loadModel(model);
  const { hidden, vocabulary, layers, heads, headDim, tiedEmbeddings } = config;
  const lookups = hidden * vocabulary * (tiedEmbeddings ? 1 : 2);
  const matrices = 2 * (parameterCount(config) - lookups) * tokens + 2 * hidden * vocabulary;
  return matrices + 4 * layers * heads * headDim * ((tokens * (tokens + 1)) / 2);
}

const percent = (value: number) => `${(100 * value).toFixed(1)} %`;

try {
  const options = optionsFrom(process.argv.slice(2), names);
  const { shape = "8b", out = "gpu-bench" } = options;
  if (!(shape in sizes)) throw new Error(`--shape is "${shape}", expected ${Object.keys(sizes).join(" or ")}`);
  const backend = backendFrom(options.target);
  const { found, report: runtime } = await backend.runtime.load();
  const about = { shape, target: backend.name, backend: backend.reportName, runtime };
  const report = new Report("gpu-bench/1", join(out, "bench.json"), limitMinutes, about);
  report.line(`${backend.runtime.name}: ${found}`);
  const failed = await new Bench(options, report, out).run();
  report.line(failed.length === 0 ? "done" : `failed: ${failed.join(", ")}`);
  if (failed.length > 0) process.exitCode = 1;
} catch (error) {
  process.stderr.write(`gpu:bench: ${(error as Error).message}\n`);
  process.exitCode = error instanceof ExecutorError ? 2 : 1;
}
