import { InputError } from "../../core/errors.ts";
import { nearest } from "../../core/nearest.ts";
import { createRouter, optionsOf } from "../../core/replica/compose.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { cacheBytes } from "../../sim/cost/capacity.ts";
import { type Efficiency, efficiencyOf } from "../../sim/cost/efficiency.ts";
import { type DividedCost, ExpertGroup } from "../../sim/cost/expert-group.ts";
import { type Hardware, hardwareNamed } from "../../sim/cost/hardware.ts";
import { cachedTokenBytes, kvNumberBytes, windowBytes, windowLayers } from "../../sim/cost/kv-bytes.ts";
import { shapeOf } from "../../sim/cost/model-config.ts";
import type { ModelShape } from "../../sim/cost/model-shape.ts";
import { modelNamed } from "../../sim/cost/models.ts";
import { PipelineCost } from "../../sim/cost/pipeline-cost.ts";
import { Profiled } from "../../sim/cost/profile/profiled.ts";
import { Roofline } from "../../sim/cost/roofline.ts";
import { stagesOf } from "../../sim/cost/stages.ts";
import type { DraftCost } from "../../sim/draft-cost.ts";
import type { SimulationConfig } from "../../sim/simulation.ts";
import { readTextFile } from "../../traces/read-text.ts";
import { readProfile } from "../profiles/read-profile.ts";
import type { Capacity } from "./capacity.ts";
import { pluginNamed, type RunConfig } from "./configuration.ts";
import { costFrom } from "./cost-file.ts";
import { costNote } from "./cost-note.ts";
import { arrivalsOf, checkConcurrency, checkTurns, loopReport, speedFrom, turnsOf } from "./load.ts";
import { checkPipelined, expertDevices, type Parallelism, parallelismFrom } from "./parallelism.ts";
import { disaggregationOf, poolsFrom } from "./pools.ts";
import { givenProfile, profileFor, profilePrefix, rooflineName, unusedProfileNote } from "./profile-choice.ts";
import type { Simulated } from "./simulated.ts";
import { defaultSwapSpace, type NamedNumbers, nameOf, type SimulationOptions } from "./simulation-options.ts";
import { windowLoadOf } from "./window-load.ts";

/** Defaults of a simulation. */
export const simulatedDefaults = { model: "llama-3.1-8b", gpu: "h200", router: "round-robin", gpuMemory: 0.9 };

/**
 * The simulated system. `arrivals` is read as stated at `readsArrivals`, and `turns` in a closed loop; both may be those of
 * `trace`.
 *
 * @throws InputError if a model, GPU, router or efficiency factor is unknown
 */
export async function simulatedFrom(
  options: SimulationOptions,
  trace: Trace | undefined,
  arrivals = trace && arrivalsOf(trace),
  turns = options.loop === "closed" && trace ? turnsOf(trace) : undefined,
): Promise<Simulated> {
  for (const name of ["model", "gpu"] as const)
    if (options[name]?.includes(",")) throw new InputError(`--${name} is "${options[name]}", expected one name`);
  const given = await givenProfile(options);
  const modelName = options.model ?? given?.model ?? simulatedDefaults.model;
  const model = given?.shape && modelName === given.model ? given.shape : await modelFrom(modelName);
  const hardware = hardwareNamed(options.gpu ?? given?.gpu ?? simulatedDefaults.gpu);
  const parallelism = parallelismFrom(options, model);
  const { dataParallel } = parallelism;
  const kvDtype = options.kvDtype ?? "auto";
  const router = await pluginNamed("router", options.router ?? defaultRouter(model, dataParallel));
  const disaggregation = await poolsFrom(options, router);
  const replicas = disaggregation
    ? disaggregation.prefillReplicas + disaggregation.decodeReplicas
    : Math.max(options.replicas ?? 1, dataParallel);
  const isRouted = (disaggregation?.prefillReplicas ?? replicas) > 1;
  // Without --decode-router, --router is also that of the decode replicas.
  const routesDecode = (disaggregation?.decodeReplicas ?? 1) > 1 && options.decodeRouter === undefined;
  const one = disaggregation ? "one prefill replica" : "one replica; give --replicas";
  if (!isRouted && !routesDecode && options.router !== undefined)
    throw new InputError(`--router ${nameOf(options.router)} has no effect with ${one}`);
  if (!isRouted && options.routerOption !== undefined)
    throw new InputError(`--router-option has no effect with ${one}`);
  checkConcurrency(options);
  if (turns) checkTurns(turns);
  const profileFolder = await profileFor(options, given, { model, hardware, parallelism });
  return {
    model,
    hardware,
    ...parallelism,
    efficiency: efficiencyFrom(options.efficiency ?? {}, hardware),
    kvDtype,
    kvBytesPerToken: mostKvBytes(model, kvDtype, parallelism),
    gpuMemory: options.gpuMemory ?? simulatedDefaults.gpuMemory,
    swapSpace: options.swapSpace ?? defaultSwapSpace,
    cost: options.cost === rooflineName ? undefined : options.cost,
    profile: profileFolder && (await readProfile(profileFolder, parallelism.tensorParallel)),
    profileFolder,
    unusedProfileNote: await unusedProfileNote(options, { model, hardware, parallelism }),
    replicas,
    router: { router, routerOptions: options.routerOption },
    disaggregation,
    speculation: await speculationFrom(options, model),
    network: options.network && { clientNs: 0, routerNs: 0, ...options.network },
    loop: options.loop ?? "open",
    turns,
    concurrency: options.concurrency,
    spread: options.spread ?? "none",
    maxOutput: options.maxOutput ?? 0,
    speed: speedFrom(options, arrivals),
    rate: options.rate,
    slo: options.slo,
  };
}

/** Bytes of one cached token on a device of the stage with the most layers that store every token. */
function mostKvBytes(model: ModelShape, kvDtype: string, { tensorParallel, pipelineParallel }: Parallelism): number {
  const numberBytes = kvNumberBytes(kvDtype, model);
  return Math.max(
    ...stagesOf(model, pipelineParallel).map(({ shape }) => cachedTokenBytes(shape, numberBytes, tensorParallel)),
  );
}

/** vLLM's front end reads the load of replicas that step together; other replicas report none to it, so that it counts requests. */
function defaultRouter({ experts }: ModelShape, dataParallel: number): string {
  return experts && dataParallel > 1 ? "vllm-dp" : simulatedDefaults.router;
}

/** The shape of a model by its name or its config.json. @throws InputError */
export async function modelFrom(given: string): Promise<ModelShape> {
  if (!given.endsWith(".json")) return modelNamed(given);
  return shapeOf(given, parsed(await readTextFile(given), given), given);
}

function parsed(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new InputError(`${path}: is not JSON (${(error as Error).message})`);
  }
}

/** @throws InputError if a factor is unknown or out of range. */
function efficiencyFrom(given: NamedNumbers, hardware: Hardware): Efficiency {
  const achieved = efficiencyOf(hardware);
  const names = Object.keys(achieved);
  for (const [name, value] of Object.entries(given)) {
    if (!names.includes(name)) {
      const near = nearest(name, names);
      throw new InputError(
        `--efficiency has no factor "${name}"${near ? `: did you mean "${near}"?` : `, expected one of ${names.join(", ")}`}`,
      );
    }
    const isTime = name.endsWith("Us");
    if (value < 0 || (!isTime && (value === 0 || value > 1)))
      throw new InputError(
        `--efficiency ${name} is ${value}, expected ${isTime ? "microseconds from 0" : "a share above 0, up to 1"}`,
      );
  }
  return { ...achieved, ...given };
}

/**
 * Blocks that can be allocated: the size of the cache by `--blocks` or `--capacity`, or what fits into a simulated GPU's memory; undefined without any of these.
 *
 * @throws InputError if the model or a single block does not fit
 */
export async function capacityFrom(
  { blocks, capacity, model, tp, kvDtype, schedulerOption }: SimulationOptions & { readonly blocks?: Capacity },
  simulated: Simulated | undefined,
  config: Pick<RunConfig, "blockTokens" | "eviction" | "scheduler" | "schedulerOptions" | "preset">,
): Promise<Capacity | undefined> {
  const { blockTokens, eviction, scheduler } = config;
  if (blocks !== undefined || eviction.unlimited) return blocks;
  const load = windowLoadOf(scheduler, { ...config.schedulerOptions, ...schedulerOption }, blockTokens);
  const windows = (shape: ModelShape, type: string, devices: number) =>
    windowBytes(shape, kvNumberBytes(type, shape), load, devices);
  if (simulated) {
    const { tensorParallel, kvDtype: type } = simulated;
    const fitting = smallestStage(simulated, (shape) => {
      const bytes = capacity ?? stageCacheBytes(simulated, shape);
      const tokenBytes = cachedTokenBytes(shape, kvNumberBytes(type, shape), tensorParallel);
      return blocksWithin(bytes, tokenBytes, blockTokens, windows(shape, type, tensorParallel)).blocks;
    });
    return { blocks: Math.max(1, fitting - (config.preset?.unusedBlocks ?? 0)) };
  }
  if (capacity === undefined || model === undefined) return undefined;
  const shape = await modelFrom(model);
  const type = kvDtype ?? "auto";
  const tokenBytes = cachedTokenBytes(shape, kvNumberBytes(type, shape), tp);
  return blocksWithin(capacity, tokenBytes, blockTokens, windows(shape, type, tp ?? 1));
}

/** All stages have as many blocks as the one with the fewest. */
export function smallestStage(
  { model, pipelineParallel }: Pick<Simulated, "model" | "pipelineParallel">,
  blocksOf: (shape: ModelShape) => number,
): number {
  return Math.min(...stagesOf(model, pipelineParallel).map(({ shape }) => blocksOf(shape)));
}

/** Bytes for KV on a device of a stage with these layers. */
export function stageCacheBytes(simulated: Simulated, shape: ModelShape, stepTokens?: number): number {
  const { hardware, tensorParallel, dataParallel, gpuMemory } = simulated;
  return cacheBytes({ shape, hardware, tensorParallel, dataParallel, memoryShare: gpuMemory, stepTokens });
}

/** `reserved`: bytes of the sliding windows of running sequences. */
function blocksWithin(bytes: number, tokenBytes: number, blockTokens: number, reserved: number): { blocks: number } {
  const blocks = Math.floor((bytes - reserved) / (tokenBytes * blockTokens));
  if (blocks > 0) return { blocks };
  const windows = reserved === 0 ? "" : ` and the ${reserved} bytes of the sliding windows of running sequences`;
  throw new InputError(
    `${bytes} bytes are less than the ${tokenBytes * blockTokens} bytes of one block of ${blockTokens} tokens${windows}`,
  );
}

/** The simulator's configuration. @throws InputError if an option or the cost file is invalid. */
export async function simulationConfig(config: RunConfig, simulated: Simulated): Promise<SimulationConfig> {
  const { replicas, router, network, loop, turns, concurrency, speed, kvBytesPerToken, swapSpace } = simulated;
  const { blockTokens, seed } = config;
  checkPipelined(config.scheduler, simulated.pipelineParallel);
  const disaggregation = disaggregationOf(simulated, blockTokens, seed);
  const replicaCount = disaggregation?.prefillReplicas ?? replicas;
  return {
    ...config,
    cost: await costOf(simulated, blockTokens),
    replicas,
    lockstep: stepTogether(simulated),
    ...(replicaCount > 1 && { router: createRouter({ ...router, replicaCount, blockTokens, seed }) }),
    disaggregation,
    ...(simulated.speculation && {
      speculation: { ...simulated.speculation, seed },
      draft: draftCostOf(simulated.speculation.draft, simulated, blockTokens),
    }),
    network,
    arrivals: { loop, turns, speed, concurrency },
    hostBlocks: Math.floor(swapSpace / (kvBytesPerToken * blockTokens)),
  };
}

async function costOf(simulated: Simulated, blockTokens: number): Promise<SimulationConfig["cost"]> {
  const { model: shape, hardware, tensorParallel, dataParallel, efficiency, kvDtype, cost: given, profile } = simulated;
  const { expertExchange: exchange, pipelineParallel } = simulated;
  if (!profile && given !== undefined) {
    if (pipelineParallel > 1)
      throw new InputError(`--pp and --cost ${nameOf(given)} exclude each other: its times are those of whole steps`);
    return await costFrom(given);
  }
  const system = { shape, hardware, blockTokens, tensorParallel, dataParallel };
  const stages = stagesOf(shape, pipelineParallel).map((stage): DividedCost => {
    const part = { ...system, shape: stage.shape, stage };
    return profile
      ? new Profiled({ ...part, profile, expertDevices: expertDevices(shape, simulated) })
      : new Roofline({ ...part, kvNumberBytes: kvNumberBytes(kvDtype, shape), efficiency });
  });
  if (stages.length > 1) {
    const pipeline = new PipelineCost({ ...system, stages });
    return () => pipeline;
  }
  const [cost] = stages;
  const group = stepTogether(simulated) ? new ExpertGroup({ ...system, cost, exchange }) : cost;
  return () => group;
}

/** Whether the replicas share the experts of the model. */
function stepTogether({ model, dataParallel }: Simulated): boolean {
  return model.experts !== undefined && dataParallel > 1;
}

/** Speculative decoding by the options. @throws InputError if the draft model is unknown or replicas step together */
async function speculationFrom(
  { speculate, dp = 1 }: SimulationOptions,
  { experts }: ModelShape,
): Promise<Simulated["speculation"]> {
  if (speculate === undefined) return undefined;
  if (dp > 1 && experts !== undefined)
    throw new InputError(
      "--speculate and --dp exclude each other for a model with experts, whose replicas step together",
    );
  const { tokens, acceptance, draft = 0 } = speculate;
  return { tokens, acceptance, draft: typeof draft === "string" ? await modelFrom(draft) : draft };
}

/** The cost of a draft token. A draft model runs on the devices of the target, with the roofline's times. */
function draftCostOf(draft: number | ModelShape, { hardware, efficiency }: Simulated, blockTokens: number): DraftCost {
  if (typeof draft === "number") return { share: draft };
  return { cost: new Roofline({ shape: draft, hardware, blockTokens, efficiency }) };
}

/** The simulated system, as in a report. */
export function describe(simulated: Simulated) {
  const { model, hardware, tensorParallel, efficiency, cost, profile, replicas, router } = simulated;
  const { dataParallel, expertParallel, disaggregation, speculation, network, speed, spread, maxOutput } = simulated;
  return {
    model: model.name,
    gpu: hardware.name,
    tensorParallel,
    ...(dataParallel > 1 && { dataParallel }),
    ...(simulated.pipelineParallel > 1 && { pipelineParallel: simulated.pipelineParallel }),
    ...(expertParallel && { expertParallel }),
    ...(simulated.expertExchange && { expertExchange: simulated.expertExchange }),
    cost: profile ? `${profilePrefix}${profile.name}` : cost === undefined ? rooflineName : nameOf(cost),
    costNote: costNote(simulated) ?? null,
    efficiency: profile || cost !== undefined ? null : efficiency,
    kvBytesPerToken: simulated.kvBytesPerToken,
    ...(windowLayers(model) > 0 && { slidingWindow: model.window }),
    swapSpaceBytes: simulated.swapSpace,
    replicas,
    router: replicas === 1 ? null : router.router.name,
    routerOptions: replicas === 1 ? null : optionsOf("router", router.router, router.routerOptions),
    ...loopReport(simulated),
    speed,
    requestsPerS: simulated.rate ?? null,
    spread,
    maxOutput,
    ...(disaggregation && { disaggregation: { ...disaggregation, decodeRouter: disaggregation.decodeRouter.name } }),
    ...(speculation && {
      speculation: {
        ...speculation,
        draft: typeof speculation.draft === "number" ? speculation.draft : speculation.draft.name,
      },
    }),
    ...(network && { network }),
  };
}
