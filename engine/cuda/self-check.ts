import { loadModel } from "../model/load.ts";
import { checkExecutor, selfCheckModel, selfCheckPool } from "../self-check.ts";
import { openCudaExecutor } from "./executor.ts";

/**
 * bfloat16 has 8 significant bits, so that one rounding changes a number by up to 2^−9 of it. Weights, and activations between the
 * kernels of two layers, are rounded; the errors add up to a few percent of the largest logit.
 */
const tolerance = 0.06;

/**
 * Runs the smallest model with the whole stack: driver, kernels, worker thread. After a cached prefix another kernel computes
 * attention, so that logits differ in their last bits.
 *
 * @returns the failure; undefined if the check passes
 * @throws InputError or ExecutorError if the model does not run
 */
export async function selfCheck(name = selfCheckModel): Promise<string | undefined> {
  const executor = await openCudaExecutor({ model: loadModel(name), ...selfCheckPool });
  try {
    return await checkExecutor(executor, { known: tolerance, cached: tolerance });
  } finally {
    await executor.close();
  }
}
