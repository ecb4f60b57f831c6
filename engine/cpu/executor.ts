import "./no-telemetry.ts";
import { availableParallelism } from "node:os";
import { InputError } from "../../core/errors.ts";
import type { ExecutorOptions, MemoryDemand } from "../backend.ts";
import type { BatchResult, BatchStep, DeviceSampling, Executor } from "../executor.ts";
import { modelFiles } from "../onnx/model-files.ts";
import type { OnnxBits } from "../onnx/quantized.ts";
import type { LoadRequest } from "../worker/protocol.ts";
import { Remote } from "../worker/remote.ts";
import { RemoteExecutor } from "../worker/remote-executor.ts";
import { programOf } from "../worker/thread.ts";
import { callRules } from "./call-rules.ts";
import { checkFits, describeOutOfMemory } from "./memory.ts";
import type { PagedDecoderOptions } from "./paged-decoder.ts";
import { CpuStepLoads } from "./step-loads.ts";
import { startThread } from "./thread.ts";

/**
 * Runs a model on the CPU, in a worker thread: ONNX Runtime blocks the thread that calls it until a step has ended.
 *
 * @throws InputError if the model cannot be written, or memory is too small for weights and pool
 * @throws ExecutorError if the model cannot be loaded
 */
export async function openCpuExecutor(options: ExecutorOptions): Promise<Executor> {
  const { model, blockCount, blockTokens, threads = availableParallelism(), folder } = options;
  const bits = bitsOf(options);
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

function bitsOf({ bits = 32 }: ExecutorOptions): OnnxBits {
  if (bits === 16) throw new InputError("16-bit weights are not supported on the CPU");
  return bits;
}

async function loadWorker(options: PagedDecoderOptions): Promise<Remote<LoadRequest>> {
  const remote = new Remote<LoadRequest>(startThread(programOf(import.meta.url, "worker"), options));
  try {
    await remote.call({ kind: "load" });
  } catch (error) {
    await remote.close().catch(() => {});
    throw error;
  }
  return remote;
}

class CpuExecutor extends RemoteExecutor {
  readonly backend = "onnx-cpu";
  readonly poolType = "float32";
  readonly calls: CpuStepLoads;
  readonly #demand: MemoryDemand;

  constructor(remote: Remote<LoadRequest>, demand: MemoryDemand) {
    super(remote, demand);
    this.#demand = demand;
    this.calls = new CpuStepLoads(callRules(demand.config));
  }

  /** Greedy sampling only. */
  canSample({ temperature }: DeviceSampling): boolean {
    return temperature === 0;
  }

  override async executeStep(step: BatchStep): Promise<BatchResult> {
    try {
      return await super.executeStep(step);
    } catch (error) {
      throw describeOutOfMemory(error, { ...this.#demand, stepTokens: step.inputIds.length });
    }
  }
}
