import type { cacheReport } from "../../core/cache/report.ts";
import type { Interval } from "../uncertainty/bootstrap.ts";

/** The hit ratios of a report. */
export const metrics = [
  "block",
  "token",
  "requestMeanBlock",
  "requestMeanToken",
  "fullBlock",
  "anyResidentBlock",
] as const satisfies readonly (keyof ReturnType<typeof cacheReport>["hitRatio"])[];
/** The name of a hit ratio of a report. */
export type Metric = (typeof metrics)[number];

/** Hit ratios by metric. */
export type Ratios = Partial<Record<Metric, number>>;

/** How far an eviction policy is from the best possible one, in a clock-free replay: `block`, `token` and the metric that is compared. */
export interface OfflineBound {
  /** No eviction policy has a higher hit ratio in this configuration. */
  readonly hitRatio: Ratios;
  /** The best solution found of the relaxed problem that the bound bounds; equal to the bound if that is exact. */
  readonly reached: Ratios;
  /** Hit ratio of lru in the same configuration. */
  readonly lru: Ratios;
  /** (policy − lru) ÷ (bound − lru); null if lru reaches the bound. */
  readonly gapClosed: Partial<Record<Metric, number | null>>;
}

/** Differences of the hit ratio of an online policy from those of others at the same capacity, with 95 % confidence intervals. */
export interface Uncertainty {
  readonly metric: Metric;
  /** Sessions of the trace, which the bootstrap draws. */
  readonly sessions: number;
  /** The trace has no sessions: they were inferred from prompts that extend an earlier one. */
  readonly sessionsInferred: boolean;
  /** Hit ratio minus that of lru with the same other options. */
  readonly gainOverLru: Interval;
  /** Hit ratio of the best online policy of the comparison at this capacity, minus this one. */
  readonly behindBest: Interval;
}
