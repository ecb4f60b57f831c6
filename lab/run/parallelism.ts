import { InputError } from "../../core/errors.ts";
import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { canShare } from "../../sim/cost/capacity.ts";
import type { ExpertExchange } from "../../sim/cost/expert-group.ts";
import type { ModelShape } from "../../sim/cost/model-shape.ts";
import { optionNames, type SimulationOptions } from "./simulation-options.ts";

/** Devices of a simulated server. */
export interface Parallelism {
  readonly tensorParallel: number;
  readonly dataParallel: number;
  /** Stages of layers. */
  readonly pipelineParallel: number;
  readonly expertParallel: boolean;
  readonly expertExchange?: ExpertExchange | undefined;
}

/** `--tp`, `--dp`, `--pp`, `--ep` and `--expert-exchange`. @throws InputError if the model cannot be divided in this way, or the simulator cannot represent it */
export function parallelismFrom(options: SimulationOptions, model: ModelShape): Parallelism {
  const { tp = 1, dp = 1, ep = false, expertExchange, pp = 1 } = options;
  checkShared(model, tp);
  if (pp > 1) checkStages(options, model);
  if (dp > 1)
    for (const name of ["replicas", "prefillReplicas", "decodeReplicas"] as const)
      if ((options[name] ?? 1) > 1 || (name !== "replicas" && options[name] !== undefined))
        throw new InputError(
          "--dp excludes --replicas, --prefill-replicas and --decode-replicas: one server is simulated",
        );
  if (ep) {
    if (!model.experts) throw new InputError(`--ep: ${model.name} has no experts`);
    if (tp * dp === 1) throw new InputError("--ep has no effect on one GPU; give --tp or --dp");
    if (tp * dp > model.experts.count)
      throw new InputError(`--ep: ${tp * dp} GPUs are more than the ${model.experts.count} experts of ${model.name}`);
  }
  if (expertExchange !== undefined && !(model.experts && dp > 1))
    throw new InputError("--expert-exchange needs a model with experts and --dp: there is none within one replica");
  return { tensorParallel: tp, dataParallel: dp, pipelineParallel: pp, expertParallel: ep, expertExchange };
}

/** @throws InputError if the model cannot be divided into stages, or the simulator has no batches in flight for the options */
function checkStages({ pp = 1, dp = 1, ...options }: SimulationOptions, model: ModelShape): void {
  if (pp > model.layers) throw new InputError(`--pp is ${pp}, more than the ${model.layers} layers of ${model.name}`);
  if (model.experts && dp > 1)
    throw new InputError(`--pp and --dp exclude each other for a model with experts, whose replicas step together`);
  for (const name of ["speculate", "prefillReplicas", "decodeReplicas"] as const)
    if (options[name] !== undefined) throw new InputError(`--pp and --${optionNames[name]} exclude each other`);
}

/** @throws InputError if the scheduler plans one batch at a time and there are several stages */
export function checkPipelined({ name, isPipelined }: SchedulerPlugin, stages: number): void {
  if (stages > 1 && isPipelined !== true)
    throw new InputError(
      `--pp is ${stages}: scheduler ${name} plans one batch at a time; those with several in flight are those of vLLM v1`,
    );
}

/** Devices that share the experts of a layer; 1 if the model has none. */
export function expertDevices({ experts }: ModelShape, { tensorParallel, dataParallel }: Parallelism): number {
  return experts ? tensorParallel * dataParallel : 1;
}

/** @throws InputError if the heads cannot be divided equally among this number of devices. */
function checkShared(model: ModelShape, devices: number): void {
  if (canShare(model, devices)) return;
  const possible = Array.from({ length: 1024 }, (_, i) => i + 1).filter((count) => canShare(model, count));
  throw new InputError(
    `--tp is ${devices}, which does not divide the heads of ${model.name} (${model.heads} heads, ${model.kvHeads} KV heads); ` +
      `expected ${possible.slice(0, -1).join(", ")} or ${possible.at(-1)}`,
  );
}
