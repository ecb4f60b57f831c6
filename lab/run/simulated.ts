import type { RouterConfig } from "../../core/replica/compose.ts";
import type { KvLink } from "../../core/serving/disaggregation.ts";
import type { Slo } from "../../core/serving/metrics.ts";
import type { RoundTrips } from "../../core/serving/network.ts";
import type { Turns } from "../../core/serving/turns.ts";
import type { CostModel } from "../../sim/cost/cost-model.ts";
import type { Efficiency } from "../../sim/cost/efficiency.ts";
import type { ExpertExchange } from "../../sim/cost/expert-group.ts";
import type { Hardware } from "../../sim/cost/hardware.ts";
import type { ModelShape } from "../../sim/cost/model-shape.ts";
import type { OperatorProfile } from "../../sim/cost/profile/profile.ts";
import type { ProfileFolder } from "../profiles/catalogue.ts";

/** Separate replicas for prefill and decode; `router` chooses among the former. */
export interface SimulatedPools {
  readonly prefillReplicas: number;
  readonly decodeReplicas: number;
  readonly decodeRouter: RouterConfig["router"];
  readonly link: KvLink;
}

/** Speculative decoding with a draft of a given cost: a share of the target's step, or a model. */
export interface SimulatedSpeculation {
  readonly tokens: number;
  readonly acceptance: number;
  readonly draft: number | ModelShape;
}

/** The simulated system: model, hardware, replicas and arrivals. */
export interface Simulated {
  readonly model: ModelShape;
  readonly hardware: Hardware;
  readonly tensorParallel: number;
  /** Replicas of one server with data parallelism, which `replicas` includes. */
  readonly dataParallel: number;
  /** Stages of layers, each on `tensorParallel` devices. */
  readonly pipelineParallel: number;
  /** Whole experts are divided among the devices of tensor and data parallelism. */
  readonly expertParallel: boolean;
  readonly expertExchange?: ExpertExchange | undefined;
  readonly efficiency: Efficiency;
  readonly kvDtype: string;
  readonly kvBytesPerToken: number;
  readonly gpuMemory: number;
  readonly swapSpace: number;
  /** A file of step times, or a cost model; undefined: the roofline model, or `profile` if there is one. */
  readonly cost: string | CostModel | undefined;
  /** Operator times that were measured on the device. */
  readonly profile: OperatorProfile | undefined;
  /** Where `profile` was read. */
  readonly profileFolder?: ProfileFolder | undefined;
  /** Why the package's profile of this model on this device is not used, as a sentence. */
  readonly unusedProfileNote?: string | undefined;
  readonly replicas: number;
  readonly router: Pick<RouterConfig, "router" | "routerOptions">;
  /** Prefill and decode on separate replicas, which `replicas` includes. */
  readonly disaggregation: SimulatedPools | undefined;
  readonly speculation: SimulatedSpeculation | undefined;
  readonly network: RoundTrips | undefined;
  readonly loop: "open" | "closed";
  /** In a closed loop, the turns of the whole trace. */
  readonly turns: Turns | undefined;
  /** Requests in flight, instead of recorded arrivals. */
  readonly concurrency: number | undefined;
  readonly spread: "none" | "uniform";
  /** Least `maxOutputTokens` of a request. */
  readonly maxOutput: number;
  /** Speed-up over the recorded arrivals. */
  readonly speed: number;
  /** Requests per second, if the speed was derived from it. */
  readonly rate?: number | undefined;
  readonly slo: Slo | undefined;
}
