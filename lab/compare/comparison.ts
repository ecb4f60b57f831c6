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
  /** Random seed of its policies, where several are compared. */
  readonly seed?: number;
}

/** What policies leave open: the order in which the blocks of one request are released, and the random seed. */
export type BandAxis = "free-order" | "seed";

/** Configurations that differ in nothing else; their results are shown as one band. */
export interface BandGroup {
  /** Numbers of the configurations, ascending. */
  readonly members: readonly number[];
  /** In what they differ; empty for a single member. */
  readonly over: readonly BandAxis[];
}

/** Limits of a number. */
export interface Range {
  readonly low: number;
  readonly high: number;
}

/** Runs at one capacity that differ only in the order of ties or in the seed. */
export interface Band {
  /** Numbers of the runs in the document, from 0. */
  readonly runs: readonly number[];
  /** In what they differ. */
  readonly over: readonly BandAxis[];
  /** Least and largest hit ratio of the runs. */
  readonly hitRatio: Readonly<Record<Metric, Range>>;
  /**
   * Hit ratio of the band with the best online run, minus this one's: the 95 % intervals of the differences between the lowest of
   * one and the highest of the other, together.
   */
  readonly behindBest?: Range;
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
  /** Results that are shown as one row. */
  readonly groups: readonly BandGroup[];
  /** As in the document. */
  readonly bands: readonly Band[];
}
