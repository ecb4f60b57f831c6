import { InputError } from "../../core/errors.ts";
import type { ExecutorOptions } from "../backend.ts";
import type { DeviceSampling, Executor } from "../executor.ts";
import type { WeightSource } from "../model/decoder.ts";
import { Remote } from "../worker/remote.ts";
import { RemoteExecutor } from "../worker/remote-executor.ts";
import { programOf, startPlainThread } from "../worker/thread.ts";
import { Cublas } from "./cublas.ts";
import type { Library } from "./library.ts";
import { checkFits } from "./memory.ts";
import type { PagedDecoderOptions } from "./paged-decoder.ts";
import { probedDevice, reportedName } from "./probe.ts";
import { weightLayout } from "./weights.ts";
import type { CudaLoad } from "./worker.ts";

export interface CudaExecutorOptions extends ExecutorOptions, Pick<PagedDecoderOptions, "graphs"> {}

/**
 * Runs a model on the first CUDA device, in a worker thread: calls of the driver block the thread that makes them.
 *
 * @throws InputError if the model is not supported, or memory is too small for weights and pool
 * @throws UnavailableError of one line if there is no driver or no device
 */
export async function openCudaExecutor(options: CudaExecutorOptions): Promise<Executor> {
  const { model, blockCount, blockTokens, bits = 16, graphs = true } = options;
  const { config, weights } = model;
  if (bits !== 16)
    throw new InputError(`${bits}-bit weights are not supported on a CUDA device, which has bfloat16 weights`);
  checkFits({ config, bits, blockCount, blockTokens });
  const own: PagedDecoderOptions = { config, blockCount, blockTokens, graphs };
  keepLoaded();
  const remote = new Remote<CudaLoad>(startPlainThread(programOf(import.meta.url, "worker"), own));
  try {
    await remote.call({ kind: "load", isComplete: false });
    await writeWeights(remote, own, weights);
    await remote.call({ kind: "load", isComplete: true });
  } catch (error) {
    await remote.close().catch(() => {});
    throw error;
  }
  return new CudaExecutor(remote, options);
}

const loaded: Library[] = [];

/**
 * Keeps cuBLAS loaded in the main thread: with the end of the last thread that uses it, the library would be unloaded, and loaded
 * again by the next executor.
 */
function keepLoaded(): void {
  const library = loaded.length === 0 ? Cublas.find(probedDevice()) : undefined;
  if (library) loaded.push(library);
}

async function writeWeights(remote: Remote<CudaLoad>, { config }: PagedDecoderOptions, weights: WeightSource) {
  const { model, layers } = weightLayout(config);
  for (const tensors of [model, ...layers])
    for (const { offset, elements: count, read, distribution } of tensors.values()) {
      const random = distribution(weights);
      if (random) {
        await remote.call({ kind: "weights", offset, random: { ...random, count } });
        continue;
      }
      const elements = read(weights);
      await remote.call({ kind: "weights", offset, elements }, [elements.buffer as ArrayBuffer]);
    }
}

class CudaExecutor extends RemoteExecutor {
  readonly backend = reportedName();
  readonly poolType = "bfloat16";

  /** All parameters are supported. */
  canSample(_sampling: DeviceSampling): boolean {
    return true;
  }
}
