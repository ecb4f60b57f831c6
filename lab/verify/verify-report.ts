import { counted } from "../../core/counted.ts";
import { assert } from "../../core/errors.ts";
import type { CacheState } from "../../core/log/cache-state.ts";
import type { StepTable } from "../../core/serving/step-table.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import { fittedNsOf } from "../../sim/cost/fit.ts";
import { type FittedSteps, fitReport, residualsByKind } from "../calibrate/calibration-report.ts";
import { stepsFrom } from "../calibrate/measured-steps.ts";
import { type Decisions, type Divergence, decisionCounts, firstDivergence } from "../compare/decisions.ts";
import { EventSentences } from "../compare/event-sentences.ts";
import type { Input } from "../input.ts";
import { policyReport, traceReport } from "../output/report.ts";
import { version } from "../package.ts";
import type { RunConfig } from "../run/configuration.ts";
import { describeEngine, type RealEngine } from "../run/real-engine.ts";
import type { ServedResult } from "../run/served-result.ts";
import { type ServedState, stateAfter } from "./served-state.ts";
import type { Times, Verification } from "./verification.ts";

/** Events that are shown before a difference. */
const contextEvents = 6;

/**
 * The document that `verify --json` prints: schema verify/1. Requests, blocks, steps and events count from 0; times are ns
 * of the run. Fields may be added, none renamed.
 */
export function verifyReport(
  input: Input,
  blocks: BlockColumns,
  config: RunConfig,
  engine: RealEngine,
  verification: Verification,
  shortened = 1,
) {
  const { parting, steps } = verification;
  const decisions = decisionCounts(verification.engine);
  const { refused } = verification.engine.outcomes;
  const differences = new Differences(verification, new EventSentences(input.trace, blocks), config.blocks!);
  return {
    schema: "verify/1",
    kvlab: version,
    /** Lengths are those of the recorded trace divided by `shortened`. */
    trace: { ...traceReport(input), shortened },
    policy: { ...policyReport(config), blocks: config.blocks! },
    target: engine.backend.name,
    seed: config.seed,
    engine: describeEngine(engine),
    identical: parting === undefined,
    steps: steps.durationNs.length,
    refusedRequests: refused.reduce((sum, one) => sum + one, 0),
    /** The engine's, in all and of each kind. */
    decisions: Object.values(decisions).reduce((sum, count) => sum + count, 0),
    decisionsByKind: decisions,
    difference: parting ? differences.report(parting) : null,
    /** Where only a time differs first: the first decision that is another one. */
    thereupon: parting ? differences.thereupon(parting) : null,
    /** With a cost model: the simulator's predictions of the engine's times. */
    times: verification.times ? timesReport(verification.times) : null,
    /** Where steps were measured meanwhile: the cost model, and how far off it is. */
    calibration: verification.times?.measured ? calibrationReport(verification.times.measured, steps) : null,
  };
}

/**
 * Figures of both; `error` is simulated ÷ engine − 1, null where the engine has none. If the engine ran twice, `error` is from
 * the mean of both, and `noise` is the second ÷ the first − 1.
 */
function timesReport({ engine, simulated, again }: Times) {
  const row = (figure: string, of: (result: ServedResult) => number | undefined) => {
    const [first, second, predicted] = [engine, again, simulated].map((result) => (result && of(result)) ?? null);
    const noise = ratio(second, first);
    const error = ratio(predicted, second === null || first === null ? first : (first + second) / 2);
    return { figure, engine: first, again: second, noise, simulated: predicted, error };
  };
  const parts = ["mean", "p50", "p90", "p95", "p99"] as const;
  return [
    ...(["ttftMs", "tpotMs", "e2eMs"] as const).flatMap((kind) =>
      parts.map((part) => row(`${kind} ${part}`, ({ latency }) => latency[kind]?.[part])),
    ),
    row("requestsPerS", ({ throughput }) => throughput.requestsPerS),
    row("outputTokensPerS", ({ throughput }) => throughput.outputTokensPerS),
    row("makespanS", ({ throughput }) => throughput.makespanS),
    row("hitRatio token", ({ counters }) => counters.hitTokens / Math.max(1, counters.lookupTokens)),
  ];
}

/** The fit to designed steps, and how far off it is for them and for the steps of the trace. */
function calibrationReport(measured: FittedSteps, steps: StepTable) {
  const served = stepsFrom(steps, 0);
  const fittedNs = served.map(({ amounts }) => fittedNsOf(measured.fit, amounts));
  return { ...fitReport(measured), traceResiduals: residualsByKind(served, fittedNs) };
}

/** By how much it is more; null if there is nothing to compare. */
const ratio = (value: number | null, to: number | null) => (value === null || !to ? null : value / to - 1);

export type VerifyReport = ReturnType<typeof verifyReport>;
export type DifferenceReport = ReturnType<Differences["report"]>;
export type StateReport = ReturnType<typeof stateReport>;

/** What is to be said of places where two runs part. */
class Differences {
  readonly #sides: readonly [engine: Decisions, simulator: Decisions];
  readonly #words: EventSentences;
  readonly #blockCount: number;

  constructor({ engine, simulator }: Verification, words: EventSentences, blockCount: number) {
    this.#sides = [engine, simulator];
    this.#words = words;
    this.#blockCount = blockCount;
  }

  thereupon(parting: Divergence) {
    if (parting.what === "outcome" || !parting.onlyTime) return null;
    const [engine, simulator] = this.#sides;
    const decision = firstDivergence(engine, simulator, false);
    return decision ? this.report(decision) : null;
  }

  report(parting: Divergence) {
    const [engine, simulator] = this.#sides;
    if (parting.what === "outcome") return this.#outcome(parting.request, parting.name);
    const requests = [...new Set([engine, simulator].flatMap((side) => requestAt(side, parting)))];
    const from = Math.max(0, parting.events - contextEvents);
    return {
      what: parting.what,
      steps: parting.steps,
      event: parting.events,
      onlyTime: parting.onlyTime,
      requests,
      context: Array.from({ length: parting.events - from }, (_, i) => ({
        timeNs: engine.log.columns().timeNs[from + i],
        words: this.#sentence(engine, from + i),
      })),
      sides: {
        engine: this.#side(engine, parting, requests),
        simulator: this.#side(simulator, parting, requests),
      },
    };
  }

  /** All was decided alike, and yet not the same came of a request. */
  #outcome(request: number, name: keyof Decisions["outcomes"]) {
    const [engine, simulator] = this.#sides;
    const side = ({ outcomes }: Decisions) => ({
      timeNs: null,
      words: `request ${request} has ${name} ${outcomes[name][request]}`,
      before: null,
      after: null,
    });
    const { log } = engine;
    return {
      what: "outcome" as const,
      steps: engine.chunks.startNs.length,
      event: log.count,
      onlyTime: name.endsWith("Ns"),
      requests: [request],
      context: [],
      sides: { engine: side(engine), simulator: side(simulator) },
    };
  }

  #side(side: Decisions, parting: Divergence & { what: "event" | "chunk" }, requests: readonly number[]) {
    const { log, chunks } = side;
    const { timeNs } = log.columns();
    const planned: number | undefined = chunks.startNs[parting.steps];
    const next = parting.what === "chunk" ? planned : (timeNs[parting.events] ?? planned);
    const nowNs = next ?? timeNs.at(-1) ?? 0;
    const before = stateAfter(side, parting.events, nowNs, this.#blockCount);
    const after = stateAfter(side, endOf(timeNs, parting.events, nowNs), nowNs, this.#blockCount);
    return {
      timeNs: next ?? null,
      words: parting.what === "chunk" ? chunkWords(chunks, parting.chunk) : this.#next(side, parting, before.cache),
      before: stateReport(before.state, requests),
      /** When all is done that this side decides at that time. */
      after: stateReport(after.state, requests),
    };
  }

  /** The next event of a side; where its log ends, the step that it has planned, if there is one. */
  #next(side: Decisions, { events, steps }: Divergence & { what: "event" }, before: CacheState): string {
    if (events < side.log.count) return this.#sentence(side, events, before);
    return steps < side.chunks.startNs.length ? stepWords(side.chunks, steps) : nothing;
  }

  #sentence({ log }: Decisions, at: number, before?: CacheState): string {
    const event = log.eventAt(at);
    return this.#words.sentence({ event, users: before?.usersOf(event.block) });
  }
}

const nothing = "nothing more";

/** Where what happens at this time ends. */
function endOf(timeNs: Float64Array, from: number, nowNs: number): number {
  let end = from;
  while (end < timeNs.length && timeNs[end] === nowNs) end++;
  return end;
}

function requestAt({ log, chunks }: Decisions, parting: Divergence): number[] {
  assert(parting.what !== "outcome", "an outcome has no place in a log");
  const request: number | undefined =
    parting.what === "chunk" ? chunks.request[parting.chunk] : log.columns().request[parting.events];
  return request === undefined || request < 0 ? [] : [request];
}

function stepWords({ step, request }: Decisions["chunks"], number: number): string {
  const ids = request.filter((_, i) => step[i] === number);
  return `step ${number} begins, of ${counted(ids.length, "request")}: ${ids.join(", ")}`;
}

function chunkWords(chunks: Decisions["chunks"], at: number): string {
  if (at >= chunks.step.length) return nothing;
  const from = chunks.from[at];
  const what = chunks.prefill[at] === 1 ? "of its prompt" : "of its answer";
  const to = from + chunks.tokens[at];
  const checksum = (chunks.blocks[at] >>> 0).toString(16);
  return (
    `step ${chunks.step[at]} computes tokens ${from}–${to} ${what} for request ${chunks.request[at]} ` +
    `and generates ${chunks.generated[at]}; checksum of its blocks ${checksum}`
  );
}

function stateReport(state: ServedState, requests: readonly number[]) {
  const { free, private: own, cachedHeld, cachedIdle, running, waiting, tables } = state;
  return {
    blocks: { free, private: own, cachedHeld, cachedIdle },
    running,
    waiting,
    tables: requests.map((request) => ({ request, blocks: tables.get(request) ?? null })),
  };
}
