import { CacheReplay } from "../../core/replica/replay.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { calibrationTrace, type DesignOptions, measuredFromNs } from "../../traces/calibration.ts";
import { Interrupted } from "../control.ts";
import type { RunConfig } from "../run/configuration.ts";
import type { RealEngine } from "../run/real-engine.ts";
import { type EngineOptions, runEngine } from "../run/run-engine.ts";
import { deviceText } from "../run/target.ts";
import { type MeasuredSteps, stepsFrom } from "./measured-steps.ts";

/** Requests designed so that an engine's steps cover all loads. */
export interface CalibrationDesign {
  readonly design: DesignOptions;
  readonly trace: Trace;
  /** Cache size in blocks at which no measured prefix is evicted. */
  readonly blocks: number;
}

/** @throws InputError if `maxTokens` is too small for a prompt */
export function calibrationDesign(design: DesignOptions): CalibrationDesign {
  const { maxTokens, maxBatch, unitTokens } = design;
  const blocks = Math.ceil((maxTokens / unitTokens + spareBlocks) * (maxBatch + 1) * roomForTails);
  return { design, trace: calibrationTrace(design), blocks };
}

/** Further blocks of each sequence: its output, and a partial block. */
const spareBlocks = 4;
/** Factor for the unique blocks after the cached prefixes, which must not evict the prefixes. */
const roomForTails = 1.5;

export interface MeasuredEngine extends MeasuredSteps {
  /** Model, device, threads and policies. */
  readonly about: string;
}

/**
 * Serves the designed requests with the engine. `turn` gets the completed share of the measured rounds.
 *
 * @throws Interrupted if the signal is aborted, InputError if the requests exceed the model's limits
 */
export async function measureEngine(
  { design, trace }: CalibrationDesign,
  config: RunConfig,
  engine: RealEngine,
  { turn, ...options }: Pick<EngineOptions, "advance" | "pool" | "turn" | "signal">,
): Promise<MeasuredEngine> {
  const columns = CacheReplay.blockKeys({ ...config, blocks: undefined }, trace);
  const fromNs = measuredFromNs(design);
  const before = trace.arrivalNs.filter((ns) => ns < fromNs).length / trace.requestCount;
  const { result } = await runEngine(trace, columns, config, asDesigned(engine), {
    ...options,
    keepSteps: true,
    ...(turn && { turn: (share) => turn(Math.max(0, (share - before) / (1 - before))) }),
  });
  if (result.interrupted) throw new Interrupted();
  const { backend, model, threads, bits, loaded } = engine;
  const policies = [config.preset?.name ?? config.index.name, config.scheduler.name].join(", ");
  const about = `${model} on ${deviceText(backend, threads)}, ${bits} bits, blocks of ${config.blockTokens}, ${policies}`;
  return { about, steps: stepsFrom(result.steps!, fromNs), calls: backend.calls?.of(loaded.config) };
}

/** The design determines arrivals and outputs; its content ids are mapped into the model's vocabulary. */
const asDesigned = (engine: RealEngine): RealEngine => ({
  ...engine,
  ...({ pace: "busy", outputLengths: "trace", loop: "open", speed: 1, fold: true } as const),
});
