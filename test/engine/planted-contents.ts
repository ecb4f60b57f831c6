import { verifyText } from "../../cli/verify/verify-text.ts";
import { CacheReplay } from "../../core/replica/replay.ts";
import type { Trace } from "../../core/trace/trace.ts";
import type { EngineBackend, ExecutorOptions } from "../../engine/backend.ts";
import type { BackendName } from "../../engine/backends.ts";
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

/** One executor for each model and block size, whose blocks contain data of earlier tests. */
export class SharedExecutors {
  readonly #backend: EngineBackend;
  readonly #open = new Map<string, Executor>();

  constructor(backend: EngineBackend) {
    this.#backend = backend;
  }

  /** The backend with wrapped executors, and with its own tolerance or another one. */
  backend(
    wrap: (executor: Executor) => Executor = (executor) => executor,
    tolerance = this.#backend.contentsTolerance,
  ): EngineBackend {
    return {
      ...this.#backend,
      ...(tolerance && { contentsTolerance: tolerance }),
      open: async (options) => wrap(await this.#executor(options)),
    };
  }

  async #executor(options: ExecutorOptions): Promise<Executor> {
    const { model, blockTokens, blockCount } = options;
    const key = `${model.config.name} ${blockTokens}`;
    const whole = this.#open.get(key) ?? (await this.#backend.open({ ...options, blockCount: 1200 / blockTokens }));
    this.#open.set(key, whole);
    return poolParts(whole, [blockCount])[0];
  }

  async close(): Promise<void> {
    for (const executor of this.#open.values()) await executor.close();
  }
}

export interface Case extends SimulationOptions {
  readonly preset: string;
  readonly scheduler?: string;
  readonly swap?: boolean;
  readonly blocks?: number;
  readonly blockTokens?: number;
  readonly trace?: Trace;
}

export const outputsTrace = conversationTrace({ seed: 4, outputs: true });

/** Serves a trace on a backend in a small pool, so that blocks are evicted and sequences preempted, and in the simulator. */
export async function verified(
  backend: EngineBackend,
  { preset: name, scheduler, swap, blocks = 18, blockTokens = 4, trace = outputsTrace, ...options }: Case,
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
    backend.name as BackendName,
  );
  const schedulerOptions = { ...parts.schedulerOptions, ...(swap && { swap: 1 }) };
  const config: RunConfig = { ...parts, schedulerOptions, blockTokens, blocks, seed: 1 };
  const engine = {
    ...engineFrom({ model: "random:tiny", target: backend.name, pace: "none", ...options }, trace),
    backend,
  };
  const columns = CacheReplay.blockKeys({ ...config, blocks: undefined }, trace);
  const verification = await verifyDecisions(trace, columns, config, engine, {
    contents: contents === "decisions only" ? undefined : contents,
  });
  const input = { name: "made", files: ["made"], format: "made", trace, inputTokens: 1, outputTokens: 1 };
  const report = verifyReport(input, columns, config, engine, verification);
  return { report, text: verifyText(input, report) };
}

/** Also samples, if the executor does. */
export class Wrapped extends ForwardingExecutor {
  canSample(sampling: DeviceSampling): boolean {
    return this.to.canSample?.(sampling) ?? false;
  }
  override close(): Promise<void> {
    return this.to.close();
  }
}

/** Writes one row to the slot of another sequence's row, where it overwrites a token: in the sixth batch, or in every second one. */
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
    if (this.#repeats ? this.#steps % 2 !== 0 : this.#steps !== 6) return super.executeStep(step);
    return super.executeStep({ ...step, slotMapping: slotMapping.with(0, slotMapping[slotMapping.length - 1]) });
  }
}

export class SwapsInWrongBlocks extends Wrapped {
  override writeBlocks(blocks: readonly number[], data: readonly BlockData[]): Promise<void> {
    return super.writeBlocks(blocks, [...data.slice(1), data[0]]);
  }
}

export class CopiesNoBlocks extends Wrapped {
  override async copyBlocks(): Promise<void> {}
}

/** Returns logits of other tokens in batches of several sequences. */
export class SwapsLogits extends Wrapped {
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

/** Faults in keys, values and logits, none of which changes a decision; the first one occurs once. */
export const plantedFaults = [
  ["one row written to a wrong block", { preset: "vllm" }, (to) => new WritesOneRowToAWrongBlock(to, false)],
  ["rows written to wrong blocks", { preset: "vllm" }, (to) => new WritesOneRowToAWrongBlock(to, true)],
  ["swap-ins of wrong blocks", { preset: "vllm", swap: true }, (to) => new SwapsInWrongBlocks(to)],
  ["copies that are not carried out", { preset: "turbomind" }, (to) => new CopiesNoBlocks(to)],
  ["logits of another sequence", { preset: "sglang" }, (to) => new SwapsLogits(to)],
] satisfies [string, Case, (to: Executor) => Executor][];
