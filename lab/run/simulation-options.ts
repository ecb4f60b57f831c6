import type { RouterPlugin } from "../../core/plugins/index.ts";
import type { KvLink } from "../../core/serving/disaggregation.ts";
import type { Slo } from "../../core/serving/metrics.ts";
import type { RoundTrips } from "../../core/serving/network.ts";
import type { WeightBits } from "../../engine/backend.ts";
import type { ExpertExchange } from "../../sim/cost/expert-group.ts";
import type { CostPlugin } from "../user-plugins/kinds.ts";
import type { OutputLengths, Pace } from "./paces.ts";

export type NamedNumbers = Readonly<Record<string, number>>;

/** Draft tokens per step, the probability that one is accepted, and the cost of one. */
export interface SpeculationOptions {
  readonly tokens: number;
  readonly acceptance: number;
  /** Share of the target model's step, or a draft model on the same device; 0 if absent. */
  readonly draft?: number | string;
}

/** Options of timed runs, as on the command line: of the simulator, of a real engine, or of both. */
export interface SimulationOptions {
  /** Simulator: a model's name or its config.json. Engine: a model folder, or `random:NAME`. */
  readonly model?: string;
  /** A GPU by name. */
  readonly gpu?: string;
  /** Tensor parallelism: GPUs of a replica. */
  readonly tp?: number;
  /** Data parallelism of one server: replicas of attention, each with its own cache, behind one front end. */
  readonly dp?: number;
  /** Expert parallelism: whole experts are divided among the GPUs of tensor and data parallelism. */
  readonly ep?: boolean;
  /** How tokens reach the experts of other replicas; default: `gather`. */
  readonly expertExchange?: ExpertExchange;
  /** Pipeline parallelism: stages of layers, each on its own GPUs, with as many batches in flight. */
  readonly pp?: number;
  /** Data type of keys and values. */
  readonly kvDtype?: string;
  /** Share of the GPU's memory to use, above 0, up to 1. */
  readonly gpuMemory?: number;
  /** Bytes of a replica's cache. */
  readonly capacity?: number;
  /** Bytes of host memory for swapped-out blocks. */
  readonly swapSpace?: number;
  /**
   * `profile:NAME`, "roofline", a file of coefficients, a saved run, a plug-in file, or a cost model. By default the package's
   * profile of the model on the GPU, or the roofline if it has none.
   */
  readonly cost?: string | CostPlugin;
  /** Factors of the roofline model. */
  readonly efficiency?: NamedNumbers;
  /** Options of the scheduler by name. */
  readonly schedulerOption?: NamedNumbers;
  /** Replicas, each with its own cache. */
  readonly replicas?: number;
  /** A name, a plug-in file, or a router. */
  readonly router?: string | RouterPlugin;
  /** Options of the router by name. */
  readonly routerOption?: NamedNumbers;
  /** Replicas that compute prompts and first tokens, and replicas that generate the other tokens; instead of `replicas`. */
  readonly prefillReplicas?: number;
  readonly decodeReplicas?: number;
  /** The router of the decode replicas: a name, a plug-in file, or a router; by default `router` with its default options. */
  readonly decodeRouter?: string | RouterPlugin;
  /** The link of each replica over which KV is transferred. */
  readonly kvLink?: KvLink;
  /** Speculative decoding. */
  readonly speculate?: SpeculationOptions;
  /** Round-trip times between client and router, and between router and replica, in ns; an absent one is 0. */
  readonly network?: Partial<RoundTrips>;
  /** `open`: requests arrive as recorded; `closed`: a turn arrives its think time after the previous turn has finished. */
  readonly loop?: "open" | "closed";
  /**
   * Requests in flight, instead of recorded arrivals: so many arrive at the beginning, in the order of the trace, and the next one
   * whenever one has ended.
   */
  readonly concurrency?: number | undefined;
  /** Speed-up over the recorded arrivals. */
  readonly speed?: number;
  /** Mean requests per second, instead of `speed`. */
  readonly rate?: number;
  /** Distribution of requests with equal arrival times: none, or uniform until the next time. */
  readonly spread?: "none" | "uniform";
  /** Least `maxOutputTokens` of a request. */
  readonly maxOutput?: number;
  /** Threads of the engine's operators. */
  readonly threads?: number;
  /** Bits per weight of the engine's model. */
  readonly bits?: WeightBits;
  /** Arrivals of an engine: as recorded with idle time skipped (`busy`), as recorded (`real`), or all at once (`none`). */
  readonly pace?: Pace;
  /** Outputs as long as recorded (`trace`), or until the model ends them (`free`). */
  readonly outputLengths?: OutputLengths;
  /** Maps token ids outside the model's vocabulary into it. */
  readonly fold?: boolean;
  /** Latency limits in ms. */
  readonly slo?: Slo;
}

/** Options for which `compare` accepts several values; it runs each combination. */
export interface SimulationLists {
  readonly replicas?: readonly number[];
  readonly router?: readonly (string | RouterPlugin)[];
  readonly rate?: readonly number[];
}

/** The name of a choice in reports and messages: the given name or file, or the name of a plug-in passed as a value. */
export const nameOf = (choice: string | { readonly name: string }): string =>
  typeof choice === "string" ? choice : choice.name;

/** Default bytes of host memory for swapped-out blocks. */
export const defaultSwapSpace = 4 * 2 ** 30;

/** The command line's names of the options. */
export const optionNames: Readonly<Record<keyof SimulationOptions, string>> = {
  model: "model",
  gpu: "gpu",
  tp: "tp",
  dp: "dp",
  ep: "ep",
  expertExchange: "expert-exchange",
  pp: "pp",
  kvDtype: "kv-dtype",
  gpuMemory: "gpu-memory",
  capacity: "capacity",
  swapSpace: "swap-space",
  cost: "cost",
  efficiency: "efficiency",
  schedulerOption: "scheduler-option",
  replicas: "replicas",
  router: "router",
  routerOption: "router-option",
  prefillReplicas: "prefill-replicas",
  decodeReplicas: "decode-replicas",
  decodeRouter: "decode-router",
  kvLink: "kv-link",
  speculate: "speculate",
  network: "network",
  loop: "loop",
  concurrency: "concurrency",
  speed: "speed",
  rate: "rate",
  spread: "spread",
  maxOutput: "max-output",
  threads: "threads",
  bits: "bits",
  pace: "pace",
  outputLengths: "output-lengths",
  fold: "fold",
  slo: "slo",
};
