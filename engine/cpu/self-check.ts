import { loadModel } from "../model/load.ts";
import { checkExecutor, selfCheckModel, selfCheckPool } from "../self-check.ts";
import { openCpuExecutor } from "./executor.ts";

/**
 * Runs the smallest model with the whole stack: model files, worker thread, runtime.
 *
 * @returns the failure; undefined if the check passes
 * @throws InputError or ExecutorError if the model does not run
 */
export async function selfCheck(name = selfCheckModel): Promise<string | undefined> {
  const executor = await openCpuExecutor({ model: loadModel(name), ...selfCheckPool, threads: 1 });
  try {
    return await checkExecutor(executor, { known: 1e-4, cached: 0 });
  } finally {
    await executor.close();
  }
}
