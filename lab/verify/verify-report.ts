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
import { contentsReport } from "./contents-report.ts";
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
  const { divergence, steps } = verification;
  const decisions = decisionCounts(verification.engine);
  const { refused } = verification.engine.outcomes;
  const sentences = new EventSentences(input.trace, blocks);
  const differences = new Differences(verification, sentences, config.blocks!);
  const { contents } = verification;
  return {
    schema: "verify/1",
    kvlab: version,
    /** Lengths are those of the recorded trace divided by `shortened`. */
    trace: { ...traceReport(input), shortened },
    policy: { ...policyReport(config), blocks: config.blocks! },
    target: engine.backend.name,
    seed: config.seed,
    engine: describeEngine(engine),
    identical: divergence === undefined,
    steps: steps.durationNs.length,
    refusedRequests: refused.reduce((sum, one) => sum + one, 0),
    /** The engine's decisions, in total and by kind. */
    decisions: Object.values(decisions).reduce((sum, count) => sum + count, 0),
    decisionsByKind: decisions,
    difference: divergence ? differences.report(divergence) : null,
    /** If only a time differs first: the first different decision after it. */
    thereupon: divergence ? differences.thereupon(divergence) : null,
    /** With `--contents`: keys, values and logits that were recomputed without the cache. */
    contents: contents
      ? contentsReport(contents, engine.backend.contentsTolerance, verification.engine, sentences)
      : null,
    /** With a cost model: the simulator's predictions of the engine's times. */
    times: verification.times ? timesReport(verification.times) : null,
    /** With `--calibrate`: the cost model and its residuals. */
    calibration: verification.times?.measured ? calibrationReport(verification.times.measured, steps) : null,
  };
}

/**
 * Metrics of both; `error` is simulated ÷ engine − 1, null if the engine has none. If the engine ran twice, `error` refers to
 * the mean of both runs, and `noise` is the second ÷ the first − 1.
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

/** The fit to designed steps, and its residuals for them and for the steps of the trace. */
function calibrationReport(measured: FittedSteps, steps: StepTable) {
  const served = stepsFrom(steps, 0);
  const fittedNs = served.map(({ amounts }) => fittedNsOf(measured.fit, amounts));
  return { ...fitReport(measured), traceResiduals: residualsByKind(served, fittedNs) };
}

/** `value` ÷ `to` − 1; null if either is missing. */
const ratio = (value: number | null, to: number | null) => (value === null || !to ? null : value / to - 1);

export type VerifyReport = ReturnType<typeof verifyReport>;
export type DifferenceReport = ReturnType<Differences["report"]>;
export type StateReport = ReturnType<typeof stateReport>;

/** Describes divergences of two runs. */
class Differences {
  readonly #sides: readonly [engine: Decisions, simulator: Decisions];
  readonly #sentences: EventSentences;
  readonly #blockCount: number;

  constructor({ engine, simulator }: Verification, sentences: EventSentences, blockCount: number) {
    this.#sides = [engine, simulator];
    this.#sentences = sentences;
    this.#blockCount = blockCount;
  }

  thereupon(divergence: Divergence) {
    if (divergence.what === "outcome" || !divergence.onlyTime) return null;
    const [engine, simulator] = this.#sides;
    const decision = firstDivergence(engine, simulator, false);
    return decision ? this.report(decision) : null;
  }

  report(divergence: Divergence) {
    const [engine, simulator] = this.#sides;
    if (divergence.what === "outcome") return this.#outcome(divergence.request, divergence.name);
    const requests = [...new Set([engine, simulator].flatMap((side) => requestAt(side, divergence)))];
    const from = Math.max(0, divergence.events - contextEvents);
    return {
      what: divergence.what,
      steps: divergence.steps,
      event: divergence.events,
      onlyTime: divergence.onlyTime,
      requests,
      context: Array.from({ length: divergence.events - from }, (_, i) => ({
        timeNs: engine.log.columns().timeNs[from + i],
        words: this.#sentence(engine, from + i),
      })),
      sides: {
        engine: this.#side(engine, divergence, requests),
        simulator: this.#side(simulator, divergence, requests),
      },
    };
  }

  /** All decisions are identical, but the outcome of a request differs. */
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

  #side(side: Decisions, divergence: Divergence & { what: "event" | "chunk" }, requests: readonly number[]) {
    const { log, chunks } = side;
    const { timeNs } = log.columns();
    const planned: number | undefined = chunks.startNs[divergence.steps];
    const next = divergence.what === "chunk" ? planned : (timeNs[divergence.events] ?? planned);
    const nowNs = next ?? timeNs.at(-1) ?? 0;
    const before = stateAfter(side, divergence.events, nowNs, this.#blockCount);
    const after = stateAfter(side, endOf(timeNs, divergence.events, nowNs), nowNs, this.#blockCount);
    return {
      timeNs: next ?? null,
      words:
        divergence.what === "chunk" ? chunkText(chunks, divergence.chunk) : this.#next(side, divergence, before.cache),
      before: stateReport(before.state, requests),
      /** After all events of this side at that time. */
      after: stateReport(after.state, requests),
    };
  }

  /** The next event of a side; where its log ends, the step that it has planned, if there is one. */
  #next(side: Decisions, { events, steps }: Divergence & { what: "event" }, before: CacheState): string {
    if (events < side.log.count) return this.#sentence(side, events, before);
    return steps < side.chunks.startNs.length ? stepText(side.chunks, steps) : nothing;
  }

  #sentence({ log }: Decisions, at: number, before?: CacheState): string {
    const event = log.eventAt(at);
    return this.#sentences.sentence({ event, users: before?.usersOf(event.block) });
  }
}

const nothing = "nothing more";

/** Index after the last consecutive event at `nowNs`. */
function endOf(timeNs: Float64Array, from: number, nowNs: number): number {
  let end = from;
  while (end < timeNs.length && timeNs[end] === nowNs) end++;
  return end;
}

function requestAt({ log, chunks }: Decisions, divergence: Divergence): number[] {
  assert(divergence.what !== "outcome", "an outcome has no place in a log");
  const request: number | undefined =
    divergence.what === "chunk" ? chunks.request[divergence.chunk] : log.columns().request[divergence.events];
  return request === undefined || request < 0 ? [] : [request];
}

function stepText({ step, request }: Decisions["chunks"], number: number): string {
  const ids = request.filter((_, i) => step[i] === number);
  return `step ${number} begins, with ${counted(ids.length, "request")}: ${ids.join(", ")}`;
}

function chunkText(chunks: Decisions["chunks"], at: number): string {
  if (at >= chunks.step.length) return nothing;
  const from = chunks.from[at];
  const phase = chunks.prefill[at] === 1 ? "prefill" : "decode";
  const to = from + chunks.tokens[at];
  const checksum = (chunks.blocks[at] >>> 0).toString(16);
  return (
    `step ${chunks.step[at]} computes tokens ${from}–${to} of request ${chunks.request[at]} (${phase}) ` +
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
