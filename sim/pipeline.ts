import type { StepLoad } from "../core/serving/step-load.ts";
import type { Nanos } from "../core/trace/trace.ts";
import type { PipelineStages } from "./cost/cost-model.ts";

/**
 * The stages of one replica: each computes one batch at a time, in the order in which batches started.
 *
 *   stage 0   A A A B B B C C C
 *   stage 1         A A A B B B C C C
 */
export class Pipeline {
  readonly #stages: PipelineStages;
  /** By stage, the time at which it is free. */
  readonly #freeNs: Float64Array;

  constructor(stages: PipelineStages) {
    this.#stages = stages;
    this.#freeNs = new Float64Array(stages.count);
  }

  /** Starts a batch with this load; returns when its last stage ends. */
  start(load: Readonly<StepLoad>, nowNs: Nanos): Nanos {
    const freeNs = this.#freeNs;
    const transferNs = this.#stages.transferNs(load);
    let atNs = nowNs;
    for (let stage = 0; stage < freeNs.length; stage++) {
      if (stage > 0) atNs += transferNs;
      atNs = Math.max(atNs, freeNs[stage]) + this.#stages.stageNs(stage, load);
      freeNs[stage] = atNs;
    }
    return atNs;
  }
}
