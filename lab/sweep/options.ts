import type { TraceReading } from "../input.ts";
import type { PartNames } from "../run/configuration.ts";
import { evictionOptions } from "../run/eviction-options.ts";
import type { SimulationOptions } from "../run/simulation-options.ts";
import type { Target } from "../run/target.ts";
import type { TraceRunOptions } from "../run/trace-run.ts";
import { isPluginFile } from "../user-plugins/plugin-file.ts";
import type { Scalar } from "./axes.ts";

/** The options of a swept run: JSON values, with plug-ins as names or files. */
export type SweptOptions = PartNames &
  Omit<TraceReading, "format"> &
  Pick<TraceRunOptions, "rules" | "blocks" | "blockSize" | "warmup" | "seed" | "audit" | "operations"> &
  Omit<SimulationOptions, "cost" | "router" | "decodeRouter"> & {
    readonly target?: Target;
    readonly format?: string;
    readonly cost?: string;
    readonly router?: string;
    readonly decodeRouter?: string;
  };

/** One configuration of a sweep. */
export interface SweepConfiguration {
  /** Trace files, read one after the other; none, or "example": the built-in example. */
  readonly trace?: string | readonly string[];
  readonly options: SweptOptions;
  /** Labels of the configuration in the table of results: the values of the options that vary. */
  readonly varied?: Readonly<Record<string, Scalar>>;
}

/** Options with defaults written out, so that equal configurations have equal options. */
export type ResolvedOptions = SweptOptions & { readonly target: Target; readonly seed: number };

/** The path of a plug-in file; undefined for a name. */
export const pluginPath = (choice: unknown): string | undefined => {
  if (typeof choice !== "string") return undefined;
  const path = isPluginFile(choice) ? (evictionOptions(choice)?.name ?? choice) : undefined;
  return path !== undefined && isPluginFile(path) ? path : undefined;
};
