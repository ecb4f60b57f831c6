import type { StepLoad } from "../../core/serving/step-load.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { Collectives } from "./collectives.ts";
import type { CostModel, PipelineStages } from "./cost-model.ts";
import type { Hardware } from "./hardware.ts";
import type { ModelShape } from "./model-shape.ts";

/** Hidden states and residuals of a token pass from stage to stage. */
const vectorsPerToken = 2;

export interface PipelineOptions {
  /** The step times of each stage, in order. */
  readonly stages: readonly CostModel[];
  readonly shape: ModelShape;
  readonly hardware: Hardware;
  readonly tensorParallel: number;
}

/**
 * Pipeline parallelism: each stage computes its layers of a step and sends hidden states to the next one. Each device of a stage
 * sends its share of them to one device of the next stage, where they are gathered.
 *
 * Source: vLLM v1, `send_tensor_dict` with `all_gather_group` in vllm/distributed/parallel_state.py.
 */
export class PipelineCost implements CostModel, PipelineStages {
  readonly name: string;
  readonly windowTokens: number | undefined;
  readonly count: number;
  readonly #stages: readonly CostModel[];
  readonly #collectives: Collectives;
  readonly #tokenBytes: number;

  constructor({ stages, shape, hardware, tensorParallel }: PipelineOptions) {
    this.name = stages[0].name;
    this.windowTokens = shape.window?.tokens;
    this.count = stages.length;
    this.#stages = stages;
    this.#collectives = new Collectives(hardware, tensorParallel);
    this.#tokenBytes = (vectorsPerToken * shape.hidden * shape.numberBytes) / tensorParallel;
  }

  get stages(): PipelineStages {
    return this;
  }

  stageNs(stage: number, load: Readonly<StepLoad>): Nanos {
    return this.#stages[stage].stepNs(load);
  }

  transferNs({ prefillTokens, decodeTokens }: Readonly<StepLoad>): Nanos {
    const bytes = (prefillTokens + decodeTokens) * this.#tokenBytes;
    return Math.round(this.#collectives.pointToPointNs(bytes) + this.#collectives.allGatherNs(bytes));
  }

  /** A step without other batches in flight. */
  stepNs(load: Readonly<StepLoad>): Nanos {
    let ns = (this.count - 1) * this.transferNs(load);
    for (const stage of this.#stages) ns += stage.stepNs(load);
    return ns;
  }
}
