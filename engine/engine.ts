import { InputError } from "../core/errors.ts";
import { Serving } from "../core/serving/serving.ts";
import type { ServingConfig } from "../core/serving/serving-config.ts";
import type { TimedReplica } from "../core/serving/timed-replica.ts";
import type { BlockColumns } from "../core/trace/content.ts";
import type { Nanos, Trace } from "../core/trace/trace.ts";
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
export class Engine extends Serving<ModelSteps> {
  readonly #clock: Clock;
  readonly #stop = new AbortController();

  /** @throws InputError if cache and executor disagree on the blocks, or if `checkContents` fails */
  constructor(trace: Trace, columns: BlockColumns, config: EngineConfig) {
    const { executor, blockTokens, blocks } = config;
    if (blockTokens !== executor.blockTokens || blocks === undefined || blocks > executor.blockCount)
      throw new InputError(
        `the cache has ${blocks ?? "unlimited"} blocks of ${blockTokens} tokens, the executor ${executor.blockCount} of ${executor.blockTokens}`,
      );
    checkContents(trace, columns, config);
    super(config, (_replica, cache) => new ModelSteps(config, trace, cache));
    this.#clock = config.clock;
    this.feed(trace, columns);
  }

  get replica(): TimedReplica {
    return this.replicas[0];
  }

  get nowNs(): Nanos {
    return this.#clock.now();
  }

  /** Starts no further step; `run` returns at the end of the running step, or at once if idle. */
  stop(): void {
    this.#stop.abort();
  }

  /** Serves all requests, or until `stop` is called. `between` is awaited after every step. */
  async run(between: () => Promise<void> = async () => {}): Promise<void> {
    const clock = this.#clock;
    const { signal } = this.#stop;
    const [steps] = this.runners;
    let nowNs: Nanos = 0;
    while (!signal.aborted) {
      this.arriveUntil(nowNs);
      this.startSteps(nowNs);
      if (!steps.isPlanned) {
        nowNs = this.nextNs;
        if (nowNs === Number.POSITIVE_INFINITY) break;
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
    if (!signal.aborted) this.checkAllServed();
    // If no measured request has arrived, no metric includes the steps of the warm-up.
    else this.beginMetrics(nowNs);
  }
}

/** @throws InputError if cached contents could differ from the tokens that the model generates, or have no logits */
export function checkContents(
  trace: Trace,
  columns: BlockColumns,
  { index, rules, choice }: Pick<EngineConfig, "index" | "rules" | "choice">,
): void {
  if (rules["full-hit"] === "stored-logits" && index.unit !== "prompt" && !index.storesNothing)
    throw new InputError(
      `index ${index.name} also matches prompts that were never prefilled as a whole, which have no logits for full-hit=stored-logits`,
    );
  if (columns.generated && trace.optional.generatedKeys && choice?.endTokens)
    throw new InputError(
      "cache-generated=true caches the output tokens of the trace: end tokens cannot decide output lengths",
    );
}
