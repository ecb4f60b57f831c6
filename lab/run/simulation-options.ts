import type { Slo } from "../../core/serving/metrics.ts";
import type { WeightBits } from "../../engine/onnx/quantized.ts";
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
  readonly cost?: string;
  readonly efficiency?: NamedNumbers;
  readonly schedulerOption?: NamedNumbers;
  readonly replicas?: number;
  readonly router?: string;
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
  readonly router?: readonly string[];
  readonly rate?: readonly number[];
}

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
