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

/** Bytes. */
export const defaultSwapSpace = 4 * 2 ** 30;
