import type { Preset } from "../../policies/preset.ts";
import type { Input } from "../input.ts";
import type { Metric } from "../output/hit-ratios.ts";
import type { RunReport } from "../output/report.ts";
import type { Capacity } from "../run/capacity.ts";
import type { Parts } from "../run/configuration.ts";

/** Default capacities: 1, 5, 10, 25 and 50 % of the distinct blocks. */
export const defaultShares: readonly Capacity[] = [0.01, 0.05, 0.1, 0.25, 0.5].map((share) => ({ share }));

/** A row of the table. */
export interface Configuration {
  readonly parts: Parts;
  /** The preset whose block size it has, if the trace's unit permits that size. */
  readonly blocksOf?: Preset | undefined;
  /** Name of the eviction policy. */
  readonly label: string;
  readonly indexLabel: string;
  /** A policy that a server can run; one that reads the future; an unlimited cache. */
  readonly kind: "online" | "offline" | "unlimited";
  readonly ruleTexts: readonly string[];
}

/** The runs of a comparison by configuration. */
export interface Comparison {
  readonly input: Pick<Input, "name" | "files" | "format">;
  readonly distinctBlocks: number;
  /** Block size in which capacities are counted; those of configurations may differ. */
  readonly blockTokens: number;
  readonly capacities: readonly Capacity[];
  readonly metric: Metric;
  /** The model whose keys and values the capacities are shown for, and the bytes of one token of them. */
  readonly model: { readonly name: string; readonly tokenBytes: number };
  /** A run for each capacity; a single one for the unlimited cache. */
  readonly results: readonly { readonly configuration: Configuration; readonly runs: readonly RunReport[] }[];
}
