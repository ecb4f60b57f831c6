import type { EngineBackend } from "../backend.ts";
import { ExecutorError } from "../executor.ts";
import type { DecoderConfig } from "../model/decoder.ts";
import { callRules, checkedRules } from "./call-rules.ts";
import { openCpuExecutor } from "./executor.ts";
import { availableBytes, checkFits, tokenBytes, weightBytes } from "./memory.ts";
import { selfCheck } from "./self-check.ts";
import { CpuStepLoads } from "./step-loads.ts";

/** ONNX Runtime on the CPU. */
export const cpuBackend = {
  name: "cpu",
  reportName: "onnx-cpu",
  device: "the CPU",
  deviceName: () => "cpu",
  weightBits: [32, 8, 4],
  hasThreads: true,
  open: openCpuExecutor,
  memory: { weightBytes, tokenBytes, availableBytes, checkFits },
  calls: {
    of: (config: DecoderConfig) => new CpuStepLoads(callRules(config)),
    restore: (rules: unknown, where: string) => new CpuStepLoads(checkedRules(rules, where)),
  },
  runtime: { name: "ONNX Runtime", missing: { onnxruntime: null, providers: [] }, load: loadRuntime },
  selfCheck,
} as const satisfies EngineBackend;

async function loadRuntime() {
  const { env, listSupportedBackends } = await import("./onnxruntime.ts").catch((error: Error) => {
    throw new ExecutorError(`does not load: ${error.message.split("\n")[0]}; run npm install`);
  });
  const onnxruntime = env.versions.node ?? null;
  const providers = listSupportedBackends().flatMap(({ name, bundled }) => (bundled ? name : []));
  return {
    found: `${onnxruntime}, for ${providers.join(", ")}; the engine uses cpu`,
    report: { onnxruntime, providers },
  };
}
