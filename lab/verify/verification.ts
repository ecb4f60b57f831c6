import { InputError } from "../../core/errors.ts";
import { ChunkTable } from "../../core/serving/chunk-table.ts";
import type { Outcomes } from "../../core/serving/outcomes.ts";
import type { StepTable } from "../../core/serving/step-table.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import type { CheckedContents, ContentsDifference } from "../../engine/contents/contents-check.ts";
import type { ContentsTolerance } from "../../engine/contents/difference.ts";
import { coefficientsOf, fitCost } from "../../sim/cost/fit.ts";
import { Fitted } from "../../sim/cost/fitted.ts";
import { NotRecorded, Recorded, type RecordedSteps } from "../../sim/cost/recorded.ts";
import { Simulation, type SimulationConfig } from "../../sim/simulation.ts";
import type { FittedSteps } from "../calibrate/calibration-report.ts";
import { type CalibrationDesign, measureEngine } from "../calibrate/measured-engine.ts";
import { type Decisions, type Divergence, firstDivergence } from "../compare/decisions.ts";
import { type Control, Interrupted, yieldToEvents } from "../control.ts";
import type { RunConfig } from "../run/configuration.ts";
import { poolBytesPerToken, type RealEngine } from "../run/real-engine.ts";
import { checkServable, type EngineOptions, runEngine } from "../run/run-engine.ts";
import { simulateWhole } from "../run/run-simulation.ts";
import type { ServedResult } from "../run/served-result.ts";
import { withFile } from "../run/slices.ts";
import { inTurn } from "../run/turns.ts";
import { type ContentsOptions, contentsCheck } from "./contents.ts";
import { withPools } from "./pools.ts";

/** A trace served by an engine, and by the simulator with the durations of the engine's steps. */
export interface Verification {
  readonly engine: Decisions;
  readonly steps: StepTable;
  readonly simulator: Decisions;
  /** Undefined if all decisions and their times are identical. */
  readonly divergence: Divergence | undefined;
  readonly times?: Times | undefined;
  /** If contents were recomputed. */
  readonly contents?: RecomputedContents | undefined;
}

/** The contents of the engine's first run that were recomputed, and their first difference. */
export interface RecomputedContents extends ContentsOptions {
  readonly counts: CheckedContents;
  readonly largestErrors: ContentsTolerance;
  readonly difference: ContentsDifference | undefined;
}

/** The engine's metrics, and the simulator's with a cost model. */
export interface Times {
  readonly engine: ServedResult;
  readonly simulated: ServedResult;
  /** With a calibration design: a second run of the engine under the same conditions, and the measured steps with their fit. */
  readonly again?: ServedResult | undefined;
  readonly measured?: FittedSteps;
}

export interface VerificationOptions extends Pick<Control, "signal"> {
  /** Creates the callback that is called before each request, one for each run. */
  readonly before?: () => SimulationConfig["before"];
  /** The cost model whose predicted times are compared; or the designed steps to fit one to, run in turn with the trace. */
  readonly cost?: SimulationConfig["cost"] | undefined;
  readonly design?: CalibrationDesign | undefined;
  /** Recomputes contents of sampled blocks and logits of sampled hits; absent: only decisions are compared. */
  readonly contents?: ContentsOptions | undefined;
  readonly advance?: (requests: number) => void;
}

/**
 * @throws Interrupted, and InputError if the model cannot serve the trace, or store-tail needs lengths that the model decides
 */
export async function verifyDecisions(
  trace: Trace,
  blocks: BlockColumns,
  config: RunConfig,
  engine: RealEngine,
  { before, cost, design, contents, advance = () => {}, signal }: VerificationOptions = {},
): Promise<Verification> {
  if (engine.outputLengths === "free" && blocks.generated && config.rules["store-tail"] === "true")
    throw new InputError(
      "store-tail=true needs the lengths of outputs, which --output-lengths free leaves to the model",
    );
  const chunks = new ChunkTable();
  const serve = async (options: EngineOptions) => {
    const watched = { ...config, events: true, ...beforeOf(before) };
    const { result } = await runEngine(trace, blocks, watched, engine, {
      ...options,
      keepSteps: true,
      advance,
      signal,
    });
    if (result.interrupted) throw new Interrupted();
    return result;
  };
  const blockCount = checkServable(trace, blocks, config, engine);
  const serveObserved = (options: EngineOptions = {}) => serve({ ...options, observers: [chunks] });
  const { result, measured, again, check } =
    design || contents
      ? await withPools({ design, blockCount, contents }, trace, config, engine, async (pools) => {
          const { first: pool, second, designed, scratch } = pools;
          const check = contents && contentsCheck(trace, config, engine, { pool, scratch, ...contents });
          if (!design) return { result: await serveObserved({ pool, contents: check }), check };
          const sized = { ...config, blocks: design.blocks };
          const [measured, result, again] = await inTurn(
            (turn) => measureEngine(design, sized, engine, { turn, pool: designed, advance, signal }),
            (turn) => serveObserved({ turn, pool, contents: check }),
            (turn) => serve({ turn, pool: second }),
          );
          return { result, measured, again, check };
        })
      : { result: await serveObserved() };
  const steps = result.steps!;
  const outputTokens = simulatedLengths(trace, result.requests);
  const { loop, concurrency, speed, pace } = engine;
  const arrivalNs = pace === "none" ? new Float64Array(trace.requestCount) : trace.arrivalNs;
  const sent = { ...trace, arrivalNs, outputTokens };
  const simulation = {
    ...config,
    arrivals: { loop, speed, concurrency },
    hostBlocks: Math.floor(engine.swapSpace / (poolBytesPerToken(engine) * config.blockTokens)),
  };
  const simulator = await decisionsWith(steps, sent, blocks, { ...simulation, ...beforeOf(before) }, signal);
  copyOutputLengths(simulator, result.requests);
  const engineDecisions = { log: result.logs[0], chunks, outcomes: result.requests };
  const predicted = (cost: SimulationConfig["cost"]) =>
    simulateWhole(sent, blocks, { ...simulation, ...beforeOf(before), cost }, { signal });
  const fitted = measured && {
    ...measured,
    fit: fitCost(measured.steps, "the engine", { seed: config.seed, calls: measured.calls }),
  };
  const times = fitted
    ? { engine: result, simulated: await predicted(fittedTo(fitted)), again, measured: fitted }
    : cost && { engine: result, simulated: await predicted(cost) };
  return {
    ...{ engine: engineDecisions, steps, simulator, divergence: firstDivergence(engineDecisions, simulator), times },
    contents: check && {
      ...{ ...contents, counts: check.counts, largestErrors: check.largestErrors, difference: check.difference },
    },
  };
}

function fittedTo({ calls, fit }: FittedSteps): SimulationConfig["cost"] {
  const cost = new Fitted({ calls, picoseconds: coefficientsOf(fit) });
  return () => cost;
}

/**
 * Output lengths for the simulator: those that the engine generated. A request that was refused during decode has an
 * unknown length, for which the client's limit is taken.
 */
export const simulatedLengths = (trace: Trace, { outputTokens, refused }: Pick<Outcomes, "outputTokens" | "refused">) =>
  outputTokens.map((tokens, row) => (refused[row] ? trace.maxOutputTokens[row] : tokens));

/** Output lengths are input of the simulator, not its decision. */
export const copyOutputLengths = (simulator: Decisions, { outputTokens }: Pick<Outcomes, "outputTokens">): void =>
  simulator.outcomes.outputTokens.set(outputTokens);

function beforeOf(make: VerificationOptions["before"]): Pick<SimulationConfig, "before"> {
  const before = make?.();
  return before ? { before } : {};
}

/**
 * The decisions of the simulator with the durations of these steps, up to the first step whose token counts differ from the
 * recorded ones, if there is one.
 */
export async function decisionsWith(
  steps: RecordedSteps,
  trace: Trace,
  blocks: BlockColumns,
  config: Omit<SimulationConfig, "cost">,
  signal?: AbortSignal,
): Promise<Decisions> {
  const chunks = new ChunkTable();
  const cost = new Recorded(steps, "the engine's steps");
  const simulation = new Simulation({ ...config, cost: () => cost, events: true, observers: [chunks] });
  try {
    simulation.feed(trace, blocks);
    simulation.end();
    while (simulation.run(1024)) await yieldToEvents(signal);
  } catch (error) {
    if (!(error instanceof NotRecorded)) throw withFile(error, config);
  }
  const [{ log }] = simulation.replicas;
  return { log: log!, chunks, outcomes: simulation.arrivals.batches[0].outcomes };
}
