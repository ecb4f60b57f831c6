import "./no-telemetry.ts";
import { availableParallelism } from "node:os";
import type { ExecutorOptions, MemoryDemand } from "../backend.ts";
import type { BatchResult, BatchStep, BlockData, DeviceSampling, Executor } from "../executor.ts";
import { modelFiles } from "../onnx/model-files.ts";
import { callRules } from "./call-rules.ts";
import { checkFits, describeOutOfMemory } from "./memory.ts";
import type { PagedDecoderOptions } from "./paged-decoder.ts";
import { Remote } from "./remote.ts";
import { CpuStepLoads } from "./step-loads.ts";
import { programOf, startThread } from "./thread.ts";

/**
 * Runs a model on the CPU, in a worker thread: ONNX Runtime blocks the thread that calls it until a step has ended.
 *
 * @throws InputError if the model cannot be written, or memory is too small for weights and pool
 * @throws ExecutorError if the model cannot be loaded
 */
export async function openCpuExecutor(options: ExecutorOptions): Promise<Executor> {
  const { model, blockCount, blockTokens, threads = availableParallelism(), bits = 32, folder } = options;
  const { config, weights } = model;
  const demand = { config, bits, blockCount, blockTokens };
  checkFits(demand);
  const files = folder === undefined ? { bits } : { bits, folder };
  try {
    const path = await modelFiles(config, weights, files);
    const remote = await loadWorker({ model: path, config, blockCount, blockTokens, threads });
    return new CpuExecutor(remote, demand);
  } catch (error) {
    throw describeOutOfMemory(error, demand);
  }
}

async function loadWorker(options: PagedDecoderOptions): Promise<Remote> {
  const remote = new Remote(startThread(programOf("worker"), options));
  try {
    await remote.call({ kind: "load" });
  } catch (error) {
    await remote.close().catch(() => {});
    throw error;
  }
  return remote;
}

class CpuExecutor implements Executor {
  readonly backend = "onnx-cpu";
  readonly blockCount: number;
  readonly blockTokens: number;
  readonly poolType = "float32";
  readonly calls: CpuStepLoads;
  readonly #remote: Remote;
  readonly #demand: MemoryDemand;

  constructor(remote: Remote, demand: MemoryDemand) {
    this.#remote = remote;
    this.#demand = demand;
    this.blockCount = demand.blockCount;
    this.blockTokens = demand.blockTokens;
    this.calls = new CpuStepLoads(callRules(demand.config));
  }

  /** Greedy sampling only. */
  canSample({ temperature }: DeviceSampling): boolean {
    return temperature === 0;
  }

  async executeStep(step: BatchStep): Promise<BatchResult> {
    try {
      return await this.#remote.call({ kind: "step", step });
    } catch (error) {
      throw describeOutOfMemory(error, { ...this.#demand, stepTokens: step.inputIds.length });
    }
  }

  copyBlocks(pairs: readonly { readonly source: number; readonly target: number }[]): Promise<void> {
    return this.#remote.call({ kind: "copy", pairs: pairs.map(({ source, target }) => ({ source, target })) });
  }

  readBlocks(blocks: readonly number[]): Promise<BlockData[]> {
    return this.#remote.call({ kind: "read", blocks });
  }

  writeBlocks(blocks: readonly number[], data: readonly BlockData[]): Promise<void> {
    return this.#remote.call({ kind: "write", blocks, data });
  }

  close(): Promise<void> {
    return this.#remote.close();
  }
}
