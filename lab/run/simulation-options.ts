import type { RouterPlugin } from "../../core/plugins/index.ts";
import type { Slo } from "../../core/serving/metrics.ts";
import type { WeightBits } from "../../engine/onnx/quantized.ts";
import type { CostPlugin } from "../user-plugins/kinds.ts";
import type { OutputEnd, Pace } from "./paces.ts";

export type NamedNumbers = Readonly<Record<string, number>>;

/** What only a simulation has, as given. */
export interface SimulationOptions {
  readonly model?: string;
  readonly gpu?: string;
  readonly tp?: number;
  readonly kvDtype?: string;
  readonly gpuMemory?: number;
  readonly capacity?: number;
  readonly swapSpace?: number;
  /** A file of coefficients, a saved run, a plug-in file, or a cost model. */
  readonly cost?: string | CostPlugin;
  readonly efficiency?: NamedNumbers;
  readonly schedulerOption?: NamedNumbers;
  readonly replicas?: number;
  /** A name, a plug-in file, or a router. */
  readonly router?: string | RouterPlugin;
  readonly routerOption?: NamedNumbers;
  readonly loop?: "open" | "closed";
  readonly speed?: number;
  readonly rate?: number;
  readonly spread?: "none" | "uniform";
  readonly maxOutput?: number;
  readonly threads?: number;
  readonly bits?: WeightBits;
  readonly pace?: Pace;
  readonly answers?: OutputEnd;
  readonly fold?: boolean;
  readonly slo?: Slo;
}

/** Options of which `compare` takes several values; it runs each combination. */
export interface SimulationLists {
  readonly replicas?: readonly number[];
  readonly router?: readonly (string | RouterPlugin)[];
  readonly rate?: readonly number[];
}

/** A choice as reports and messages state it: a name or file as given; of a plug-in passed as a value its name. */
export const nameOf = (choice: string | { readonly name: string }): string =>
  typeof choice === "string" ? choice : choice.name;

/** Bytes. */
export const defaultSwapSpace = 4 * 2 ** 30;

/** The command line's names of the options. */
export const optionNames: Readonly<Record<keyof SimulationOptions, string>> = {
  model: "model",
  gpu: "gpu",
  tp: "tp",
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
  loop: "loop",
  speed: "speed",
  rate: "rate",
  spread: "spread",
  maxOutput: "max-output",
  threads: "threads",
  bits: "bits",
  pace: "pace",
  answers: "answers",
  fold: "fold",
  slo: "slo",
};
