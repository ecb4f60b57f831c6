import { InputError } from "../core/errors.ts";
import { Serving, type ServingConfig } from "../core/serving/serving.ts";
import type { TimedReplica } from "../core/serving/timed-replica.ts";
import type { BlockColumns } from "../core/trace/content.ts";
import type { Nanos, Trace } from "../core/trace/trace.ts";
import type { Clock } from "./clock.ts";
import { ModelSteps, type ModelStepsOptions } from "./model-steps.ts";

export interface EngineConfig extends Omit<ServingConfig, "replicas" | "router">, ModelStepsOptions {
  readonly clock: Clock;
}

/**
 * One replica in real time, whose steps a model runs. The order of events is that of `Serving`. A step lasts from the end of the
 * step before it, or from the arrival that the engine waited for, to its own end, planning included: durations add up, and a
 * simulator whose steps have these durations must make the same decisions.
 */
export class Engine extends Serving<ModelSteps> {
  readonly #clock: Clock;
  readonly #stop = new AbortController();

  /** @throws InputError if cache and executor have different blocks, or if cached contents would differ from those written */
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

  /** No further step starts; `run` returns at the end of the running step, or at once if it waits for an arrival. */
  stop(): void {
    this.#stop.abort();
  }

  /** Serves all requests, or until `stop`. `between` is called after every step. */
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
      // Requests that arrived during the step are in the queue before its end is committed, as in virtual time.
      this.arriveUntil(endNs - 1);
      this.endStep(this.replica, endNs, finished);
      nowNs = endNs;
      await between();
    }
    if (!signal.aborted) this.checkAllServed();
    // If no measured request has arrived, the steps of the warm-up are in no metric.
    else this.beginMetrics(nowNs);
  }
}

/** @throws InputError if cached contents would differ from those written */
export function checkContents(
  trace: Trace,
  columns: BlockColumns,
  { index, rules, choice }: Pick<EngineConfig, "index" | "rules" | "choice">,
): void {
  if (rules["full-hit"] === "stored-logits" && index.unit !== "prompt" && !index.none)
    throw new InputError(
      `index ${index.name} matches prompts that were never computed as a whole, for which full-hit=stored-logits has no logits`,
    );
  if (columns.generated && trace.optional.generatedKeys && choice?.endTokens)
    throw new InputError(
      "the trace has output tokens, by which cache-generated=true caches them: end tokens cannot decide output lengths",
    );
}
