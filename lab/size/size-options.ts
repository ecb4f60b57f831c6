import type { RouterPlugin } from "../../core/plugins/index.ts";
import type { Slo } from "../../core/serving/metrics.ts";
import type { PartLists } from "../compare/combinations.ts";
import type { Control } from "../control.ts";
import type { TraceReading } from "../input.ts";
import type { SimulationOptions } from "../run/simulation-options.ts";

/** Options of a simulation that all clusters of a search have in common. */
export type SizeLoad = Pick<
  SimulationOptions,
  | ("model" | "ep" | "pp" | "kvDtype" | "gpuMemory" | "swapSpace" | "efficiency" | "schedulerOption" | "network")
  | ("loop" | "concurrency" | "speed" | "rate" | "spread" | "maxOutput")
>;

/** What `size` searches: every combination of the lists, with each number of replicas. */
export interface SizeOptions extends TraceReading, SizeLoad, Pick<PartLists, "preset" | "eviction">, Control {
  /** GPUs by name; default: h200. */
  readonly gpu?: readonly string[];
  /** GPUs of a replica; default: 1, 2, 4 and 8, as far as the model fits and can be divided. */
  readonly tp?: readonly number[];
  /** Routers by name, file or value; default: round-robin, least-loaded and prefix-affinity. */
  readonly router?: readonly (string | RouterPlugin)[];
  /** Bytes of the cache on each GPU; default: all memory that the model leaves. */
  readonly capacity?: readonly number[];
  /** Limits that a cluster must meet, each with a percentile; 99 if it has none. */
  readonly slo: Slo;
  /** Most GPUs of a cluster; default: 64. */
  readonly maxGpus?: number;
  /** A file of prices by GPU, instead of the built-in ones. */
  readonly prices?: string | undefined;
  /** Leading requests that are in no metric. */
  readonly warmup?: number;
  readonly seed?: number;
  /** Most threads of simulations; by default as many as there are processors, where the trace is long enough to gain from it. */
  readonly threads?: number;
  /** Folder for the document and the figure; files of the same names are replaced. */
  readonly out?: string;
}
