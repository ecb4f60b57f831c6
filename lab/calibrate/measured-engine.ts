import { counted } from "../../core/counted.ts";
import { CacheReplay } from "../../core/replica/replay.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { calibrationTrace, type DesignOptions, measuredFromNs } from "../../traces/calibration.ts";
import { Interrupted } from "../control.ts";
import type { RunConfig } from "../run/configuration.ts";
import type { RealEngine } from "../run/real-engine.ts";
import { type EngineOptions, runEngine } from "../run/run-engine.ts";
import { type MeasuredSteps, stepsFrom } from "./measured-steps.ts";

/** Steps that are designed to be measured, for an engine. */
export interface Experiment {
  readonly design: DesignOptions;
  readonly trace: Trace;
  /** Blocks in which all of it has room. */
  readonly blocks: number;
}

/** @throws InputError if there is no room for a single prompt */
export function experimentOf(design: DesignOptions): Experiment {
  const { maxTokens, maxBatch, unitTokens } = design;
  const blocks = Math.ceil((maxTokens / unitTokens + spareBlocks) * (maxBatch + 1) * roomForTails);
  return { design, trace: calibrationTrace(design), blocks };
}

/** Of each sequence: its answer, and a block that is begun. */
const spareBlocks = 4;
/** What comes after the prefixes, which are to stay, of the groups of a while. */
const roomForTails = 1.5;

export interface MeasuredEngine extends MeasuredSteps {
  /** What was measured. */
  readonly about: string;
}

/**
 * Serves the experiment with the engine. Its share for `turn` is that of the measured rounds.
 *
 * @throws Interrupted if a signal ended it, and InputError if the model cannot take it
 */
export async function measureEngine(
  { design, trace }: Experiment,
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
  const about = `${model} on ${backend.device}, ${counted(threads, "thread")}, ${bits} bits, blocks of ${config.blockTokens}, ${policies}`;
  return { about, steps: stepsFrom(result.steps!, fromNs), calls: backend.calls?.of(loaded.config) };
}

/** The experiment says when requests come and what they are; its contents are no tokens of any model. */
const asDesigned = (engine: RealEngine): RealEngine => ({
  ...engine,
  ...({ pace: "busy", answers: "trace", loop: "open", speed: 1, fold: true } as const),
});
