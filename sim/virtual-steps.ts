import { InputError, InvariantError } from "../core/errors.ts";
import { noLoad, type StepLoad } from "../core/serving/step-load.ts";
import type { StepRunner } from "../core/serving/step-runner.ts";
import type { TimedReplica } from "../core/serving/timed-replica.ts";
import type { Nanos } from "../core/trace/trace.ts";
import type { CostModel, DecodeRun } from "./cost/cost-model.ts";
import { type DraftCost, DraftTime } from "./draft-cost.ts";
import { Pipeline } from "./pipeline.ts";

/** Most steps that are repeated at once: the length of the buffer of their ends. */
const mostRepeated = 4096;

/** The options of a simulation that steps depend on. */
interface StepOptions {
  readonly everyStep?: boolean;
  readonly speculation?: object | undefined;
  readonly draft?: DraftCost | undefined;
}

/** Steps in virtual time: a cost model computes the duration of each, and repeated decode steps are fast-forwarded. */
export class VirtualSteps implements StepRunner {
  readonly windowTokens: number | undefined;
  readonly calls: StepRunner["calls"];
  readonly #cost: CostModel;
  readonly #mayRepeat: boolean;
  readonly #run: { -readonly [Field in keyof DecodeRun]: DecodeRun[Field] } = {
    ...{ load: noLoad(), growing: 0, startNs: 0, horizonNs: 0, most: 0 },
    endsNs: new Float64Array(mostRepeated),
  };
  /** The load of each step of `#everyEnd`. */
  readonly #everyLoad = noLoad();
  /** Sequences whose window is not full yet, as counted by `#stepsInWindow`. */
  #growing = 0;

  readonly #draft: DraftTime | undefined;
  readonly #pipeline: Pipeline | undefined;
  readonly batchesInFlight: number;

  /** `everyStep`: every step is planned, none is a repetition of the previous plan. */
  constructor(cost: CostModel, { everyStep = false, speculation, draft }: StepOptions) {
    if (speculation && (cost.inOrder === true || cost.calls !== undefined))
      throw new InputError(
        `--speculate and --cost exclude each other: cost model ${cost.name} has the times of steps without draft tokens`,
      );
    this.#draft = draft && new DraftTime(draft, cost);
    this.#cost = cost;
    this.#pipeline = cost.stages && new Pipeline(cost.stages);
    this.batchesInFlight = cost.stages?.count ?? 1;
    this.windowTokens = cost.windowTokens;
    this.calls = cost.calls;
    // An engine that divides steps into calls may divide them in another way with every token.
    this.#mayRepeat = !everyStep && cost.inOrder !== true && cost.calls === undefined;
  }

  start(replica: TimedReplica, nowNs: Nanos, horizonNs: Nanos): Nanos | undefined {
    if (replica.isUndisturbed && this.#mayRepeat) {
      const endNs = this.#repeat(replica, nowNs, horizonNs);
      if (endNs > nowNs) return endNs;
    }
    const plan = replica.beginStep(nowNs);
    if (plan !== undefined && this.#pipeline !== undefined) return this.#pipeline.start(replica.load, nowNs);
    return plan && nowNs + this.#stepNs(replica.load) + (this.#draft?.draftNs(plan) ?? 0);
  }

  startTogether(replicas: readonly TimedReplica[], nowNs: Nanos): Nanos | undefined {
    const loads: StepLoad[] = [];
    for (const replica of replicas) if (replica.beginStep(nowNs)) loads.push(replica.load);
    if (loads.length === 0) return undefined;
    const cost = this.#cost;
    return nowNs + (cost.togetherNs?.(loads) ?? Math.max(...loads.map((load) => this.#stepNs(load))));
  }

  /** Repeats the last step as often as the replica allows and as steps end by `horizonNs`; returns when the last one ends. */
  #repeat(replica: TimedReplica, nowNs: Nanos, horizonNs: Nanos): Nanos {
    const { load } = replica;
    let most = Math.min(replica.replica.repeatableSteps(), mostRepeated);
    if (most === 0) return nowNs;
    const { windowTokens } = this;
    if (windowTokens !== undefined) most = Math.min(most, this.#stepsInWindow(replica, windowTokens));
    // The last step's copies and swaps are not repeated.
    load.copiedBlocks = load.swappedTokens = 0;
    const run = this.#run;
    run.load = load;
    run.growing = windowTokens === undefined ? load.decodeTokens : this.#growing;
    run.startNs = nowNs;
    // A step that ends later is planned, and refused then.
    run.horizonNs = Math.min(horizonNs, Number.MAX_SAFE_INTEGER);
    run.most = most;
    const steps = this.#cost.decodeEnds?.(run) ?? this.#everyEnd(run);
    if (steps === 0) return nowNs;
    const { endsNs } = run;
    const endNs = endsNs[steps - 1];
    if (!isDuration(endNs - nowNs)) this.#refuse(endNs - nowNs);
    load.decodeContextTokens += steps * load.decodeTokens;
    load.longestDecodeTokens += steps;
    load.decodeWindowTokens += steps * run.growing;
    replica.repeatStep(nowNs, steps, endsNs);
    return endNs;
  }

  /** `decodeEnds` of a cost model without it. */
  #everyEnd({ load, growing, startNs, horizonNs, most, endsNs }: DecodeRun): number {
    const each = Object.assign(this.#everyLoad, load);
    let endNs = startNs;
    let steps = 0;
    for (; steps < most; steps++) {
      each.decodeContextTokens += each.decodeTokens;
      each.longestDecodeTokens++;
      each.decodeWindowTokens += growing;
      endNs += this.#stepNs(each);
      if (endNs > horizonNs) break;
      endsNs[steps] = endNs;
    }
    return steps;
  }

  /** Steps until the window of one more sequence is full. */
  #stepsInWindow({ replica }: TimedReplica, windowTokens: number): number {
    let steps = mostRepeated;
    this.#growing = 0;
    for (const { computedTokens } of replica.running) {
      if (computedTokens >= windowTokens) continue;
      this.#growing++;
      steps = Math.min(steps, windowTokens - computedTokens);
    }
    return steps;
  }

  #stepNs(load: Readonly<StepLoad>): Nanos {
    const durationNs = this.#cost.stepNs(load);
    return isDuration(durationNs) ? durationNs : this.#refuse(durationNs);
  }

  #refuse(durationNs: number): never {
    if (durationNs > Number.MAX_SAFE_INTEGER)
      throw new InputError(
        `cost model ${this.#cost.name}: a step takes ${durationNs} ns, more than 2^53 ns (104 days)`,
      );
    throw new InvariantError(`a step takes ${durationNs} ns`);
  }
}

const isDuration = (ns: number) => ns > 0 && Number.isSafeInteger(ns);
