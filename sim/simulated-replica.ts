import { assert, InputError } from "../core/errors.ts";
import { TimedReplica, type TimedReplicaParts } from "../core/serving/timed-replica.ts";
import type { Nanos } from "../core/trace/trace.ts";
import type { CostModel } from "./cost/cost-model.ts";

export interface SimulatedReplicaParts extends TimedReplicaParts {
  readonly cost: CostModel;
  readonly everyStep: boolean;
}

/** Steps that are advanced at once, at most: the room for when each of them ended. */
const mostRepeated = 4096;

/** A replica in virtual time: a cost model says how long its steps take. */
export class SimulatedReplica extends TimedReplica {
  readonly #cost: CostModel;
  readonly #mayRepeat: boolean;
  readonly #endsNs = new Float64Array(mostRepeated);

  constructor(parts: SimulatedReplicaParts) {
    super({ ...parts, windowTokens: parts.cost.windowTokens, calls: parts.cost.calls });
    this.#cost = parts.cost;
    // With every token an engine may divide a step in another way.
    this.#mayRepeat = !parts.everyStep && parts.cost.inOrder !== true && parts.cost.calls === undefined;
  }

  /**
   * Plans the next step; returns when it ends, or undefined if there is nothing to do. Steps that are known to be like the last
   * one are taken at once as long as they end no later than `horizonNs`, before which nothing arrives here.
   */
  startStep(nowNs: Nanos, horizonNs: Nanos): Nanos | undefined {
    if (this.isUndisturbed && this.#mayRepeat) {
      const endNs = this.#repeat(nowNs, horizonNs);
      if (endNs > nowNs) return endNs;
    }
    return this.beginStep(nowNs) && nowNs + this.#stepNs();
  }

  /** Takes as many steps like the last one as are sure to follow and end by `horizonNs`; returns when the last one ended. */
  #repeat(nowNs: Nanos, horizonNs: Nanos): Nanos {
    const cost = this.#cost;
    const { load } = this;
    let most = Math.min(this.replica.repeatableSteps(), mostRepeated);
    if (most === 0) return nowNs;
    const { windowTokens } = cost;
    if (windowTokens !== undefined) most = Math.min(most, this.#stepsInWindow(windowTokens));
    const growing = windowTokens === undefined ? load.decodeTokens : this.#growing;
    // What the last one copied and moved is there now.
    load.copiedBlocks = load.swappedTokens = 0;
    const endsNs = this.#endsNs;
    let endNs = nowNs;
    let steps = 0;
    for (; steps < most; steps++) {
      load.decodeContextTokens += load.decodeTokens;
      load.decodeWindowTokens += growing;
      const next = endNs + this.#stepNs();
      if (next > horizonNs) {
        load.decodeContextTokens -= load.decodeTokens;
        load.decodeWindowTokens -= growing;
        break;
      }
      endNs = next;
      endsNs[steps] = endNs;
    }
    if (steps === 0) return nowNs;
    this.repeatStep(nowNs, steps, endsNs);
    return endNs;
  }

  /** Sequences whose window is not full yet, as found by `#stepsInWindow`. */
  #growing = 0;

  /** Steps until the window of one more sequence is full. */
  #stepsInWindow(windowTokens: number): number {
    let steps = mostRepeated;
    this.#growing = 0;
    for (const { computedTokens } of this.replica.running) {
      if (computedTokens >= windowTokens) continue;
      this.#growing++;
      steps = Math.min(steps, windowTokens - computedTokens);
    }
    return steps;
  }

  #stepNs(): Nanos {
    const cost = this.#cost;
    const durationNs = cost.stepNs(this.load);
    if (durationNs > Number.MAX_SAFE_INTEGER)
      throw new InputError(`by its ${cost.name} costs a step takes ${durationNs} ns, more than 2^53 (104 days)`);
    assert(Number.isInteger(durationNs) && durationNs > 0, () => `a step takes ${durationNs} ns`);
    return durationNs;
  }
}
