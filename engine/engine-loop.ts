import { InputError } from "../core/errors.ts";
import { Serving } from "../core/serving/serving.ts";
import type { ServingConfig } from "../core/serving/serving-config.ts";
import type { TimedReplica } from "../core/serving/timed-replica.ts";
import type { Nanos } from "../core/trace/trace.ts";
import type { Clock } from "./clock.ts";
import { ModelSteps, type ModelStepsOptions } from "./model-steps.ts";

export interface EngineConfig extends Omit<ServingConfig, "replicas" | "router">, ModelStepsOptions {
  readonly clock: Clock;
}

/**
 * One replica in real time: an executor runs its steps. The order of events is that of `Serving`. A step lasts from the end of the
 * previous step, or from the arrival that ended an idle period, to its own end, planning included. Durations thus add up to the
 * total time, and a simulation with the same step durations must make the same decisions.
 */
export abstract class EngineLoop extends Serving<ModelSteps> {
  readonly #clock: Clock;
  readonly #stop = new AbortController();

  /** @throws InputError if cache and executor disagree on the blocks */
  constructor(config: EngineConfig) {
    const { executor, blockTokens, blocks } = config;
    if (blockTokens !== executor.blockTokens || blocks === undefined || blocks > executor.blockCount)
      throw new InputError(
        `the cache has ${blocks ?? "unlimited"} blocks of ${blockTokens} tokens, the executor ${executor.blockCount} of ${executor.blockTokens}`,
      );
    super(config, (_replica, cache) => new ModelSteps(config, cache));
    this.#clock = config.clock;
  }

  get replica(): TimedReplica {
    return this.replicas[0];
  }

  get nowNs(): Nanos {
    return this.#clock.now();
  }

  protected get isStopped(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Starts no further step; `run` returns at the end of the running step, or at once if idle. */
  stop(): void {
    this.#stop.abort();
  }

  /** Called between two steps, after the arrivals. */
  protected betweenSteps(_nowNs: Nanos): void {}

  /** Nothing runs, and no request will arrive: resolves to true after further requests have been fed, or to false at the end. */
  protected async more(): Promise<boolean> {
    return false;
  }

  /** Serves all requests, or until `stop` is called. `between` is awaited after every step. */
  protected async serve(between: () => Promise<void>): Promise<void> {
    const clock = this.#clock;
    const { signal } = this.#stop;
    const [steps] = this.runners;
    let nowNs: Nanos = 0;
    while (!signal.aborted) {
      this.arriveUntil(nowNs);
      this.betweenSteps(nowNs);
      this.startSteps(nowNs);
      if (!steps.isPlanned) {
        const { nextNs } = this;
        if (nextNs === Number.POSITIVE_INFINITY) {
          if (await this.more()) continue;
          break;
        }
        nowNs = nextNs;
        await clock.waitUntil(nowNs, signal);
        continue;
      }
      const finished = await steps.execute();
      const endNs = Math.max(clock.now(), nowNs + 1);
      // Requests that arrived during the step are queued before the step is committed, as in virtual time.
      this.arriveUntil(endNs - 1);
      this.endStep(this.replica, endNs, finished);
      nowNs = endNs;
      await between();
    }
    // If no measured request has arrived, no metric includes the steps of the warm-up.
    if (signal.aborted) this.beginMetrics(nowNs);
  }
}
