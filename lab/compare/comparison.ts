import type { Preset } from "../../policies/preset.ts";
import type { Input } from "../input.ts";
import type { RunReport } from "../output/report.ts";
import type { Capacity } from "../run/capacity.ts";
import type { Parts } from "../run/configuration.ts";

export const metrics = [
  "block",
  "token",
  "requestMeanBlock",
  "requestMeanToken",
  "fullBlock",
  "anyResidentBlock",
] as const satisfies readonly (keyof RunReport["cache"]["hitRatio"])[];
export type Metric = (typeof metrics)[number];

/** Sizes that are compared by default: 1, 5, 10, 25 and 50 % of the distinct blocks. */
export const defaultShares: readonly Capacity[] = [0.01, 0.05, 0.1, 0.25, 0.5].map((share) => ({ share }));

/** A row of the table. */
export interface Configuration {
  readonly parts: Parts;
  /** Whose block size it has, where the trace can have it. */
  readonly blocksOf?: Preset | undefined;
  /** Of the eviction policy. */
  readonly label: string;
  readonly indexLabel: string;
  /** What a server could run, what reads the future, and what has no limit. */
  readonly kind: "online" | "offline" | "unlimited";
  readonly ruleTexts: readonly string[];
}

export interface Comparison {
  readonly input: Input;
  readonly distinctBlocks: number;
  /** Tokens of these blocks, which capacities are counted in; configurations may have larger or smaller ones. */
  readonly blockTokens: number;
  readonly capacities: readonly Capacity[];
  readonly metric: Metric;
  /** A run for each capacity; of the unlimited cache only one. */
  readonly results: readonly { readonly configuration: Configuration; readonly runs: readonly RunReport[] }[];
}
