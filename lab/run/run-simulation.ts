import { StepTable } from "../../core/serving/step-table.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { stopwatch } from "../../engine/clock.ts";
import { Simulation, type SimulationConfig } from "../../sim/simulation.ts";
import { yieldToEvents } from "../control.ts";
import { type ServedResult, type ServingOptions, servedResult } from "./served-result.ts";
import { sliceMs, withFile } from "./slices.ts";

/** Simulates a trace, in slices that can be interrupted. @throws Interrupted, PolicyError naming a plug-in file */
export async function runSimulation(
  trace: Trace,
  blocks: BlockColumns,
  config: SimulationConfig,
  { slo, keepSteps, observers = [], advance = () => {}, watch, signal }: ServingOptions = {},
): Promise<{ readonly result: ServedResult; readonly wallMs: number }> {
  const steps = keepSteps ? new StepTable() : undefined;
  const simulation = new Simulation({ ...config, observers: [...(steps ? [steps] : []), ...observers] });
  let wallMs = 0;
  let reported = 0;
  let events = 1024;
  try {
    let elapsedMs = stopwatch();
    simulation.feed(trace, blocks);
    simulation.end();
    watch?.(simulation);
    for (let isMore = true; isMore; ) {
      isMore = simulation.run(events);
      const sliceWallMs = elapsedMs();
      wallMs += sliceWallMs;
      events = Math.ceil(Math.min(Math.max((events * sliceMs) / Math.max(sliceWallMs, 0.1), events / 4), events * 4));
      advance(simulation.done - reported);
      reported = simulation.done;
      await yieldToEvents(signal);
      elapsedMs = stopwatch();
    }
  } catch (error) {
    throw withFile(error, config);
  }
  return { result: servedResult(simulation, { steps, slo, warmup: config.warmup }), wallMs };
}
