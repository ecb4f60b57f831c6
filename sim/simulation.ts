import { InputError, InvariantError } from "../core/errors.ts";
import { Serving } from "../core/serving/serving.ts";
import type { ServingConfig } from "../core/serving/serving-config.ts";
import type { BlockColumns } from "../core/trace/content.ts";
import type { Nanos, Trace } from "../core/trace/trace.ts";
import type { CostModel } from "./cost/cost-model.ts";
import type { DraftCost } from "./draft-cost.ts";
import { VirtualSteps } from "./virtual-steps.ts";

export interface SimulationConfig extends ServingConfig {
  /** The cost model of each replica. */
  readonly cost: (replica: number) => CostModel;
  /** With `speculation`: the time of the draft model, free if absent. */
  readonly draft?: DraftCost | undefined;
  /** Plan every step, also those that are known to repeat the step before; for tests. */
  readonly everyStep?: boolean;
}

/**
 * Replicas in virtual time, which is integer nanoseconds and jumps from one event to the next. The order of events is that of
 * `Serving`. Requests may be fed batch by batch, and a run may pause after any number of events.
 */
export class Simulation extends Serving<VirtualSteps> {
  nowNs: Nanos = 0;
  #allFed = false;

  constructor(config: SimulationConfig) {
    super(config, (replica) => new VirtualSteps(config.cost(replica), config));
  }

  /** Declares that all requests have been fed. */
  end(): void {
    this.#allFed = true;
  }

  /**
   * Processes up to `events` further event times. Returns false when all requests have ended, or when the next request must be
   * fed first; true if it is to be called again. A closed loop without `turns` begins when all requests have been fed: arrivals
   * must not depend on the size of the batches.
   */
  run(events = Number.POSITIVE_INFINITY): boolean {
    for (let i = 0; i < events; i++) {
      if (this.#isNextUnknown()) return false;
      const nowNs = this.isReady ? this.nowNs : this.nextNs;
      if (nowNs === Number.POSITIVE_INFINITY) {
        this.checkAllServed();
        this.addLevelsUntil(this.nowNs);
        return false;
      }
      // Not `assert`, which would build its message at every event.
      if (nowNs < this.nowNs)
        throw new InvariantError(`an event at ${nowNs} ns is before the present time, ${this.nowNs} ns`);
      if (nowNs > Number.MAX_SAFE_INTEGER)
        throw new InputError("the simulation reaches 104 days (2^53 ns), after which times are not exact");
      this.nowNs = nowNs;
      this.endSteps(nowNs);
      this.arriveUntil(nowNs);
      // The next batch may begin with requests that arrive now.
      if (this.#isNextUnknown()) return false;
      this.startSteps(nowNs);
    }
    return true;
  }

  /** Whether the next request has not been fed yet. */
  #isNextUnknown(): boolean {
    return !this.#allFed && this.arrivals.needsMore;
  }
}

/** Simulates one trace from beginning to end. */
export function simulate(trace: Trace, config: SimulationConfig, blocks?: BlockColumns): Simulation {
  const simulation = new Simulation(config);
  simulation.feed(trace, blocks);
  simulation.end();
  simulation.run();
  return simulation;
}
