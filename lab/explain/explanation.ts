import type { MissReason } from "../../core/log/miss-reasons.ts";
import type { RemovalCause } from "../../core/log/removal-causes.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import type { Bin } from "./histogram.ts";

/**
 * A time between two events: virtual or real time in a timed run; without a clock, the number of requests and the time between
 * their arrivals in the trace.
 */
export type Age =
  | { readonly ns: Nanos; readonly requests?: undefined }
  | { readonly requests: number; readonly arrivalNs: Nanos };

/** Unit of the ages in histograms. */
export type AgeUnit = "ns" | "requests";

/** The removal of a block from the index, and its last use before. */
export interface RemovalFacts {
  readonly cause: RemovalCause;
  /** The request whose allocation evicted the block, or that dropped it; null: an operator, or the entry expired. */
  readonly request: number | null;
  /** From the removal to the miss. */
  readonly ago: Age;
  /** The request that had last used the block; null: an operator's pin. */
  readonly lastUsedBy: number | null;
  /** From the last use to the removal. */
  readonly idle: Age;
  /** Of an eviction: the evictable block with the furthest next use; null: the evicted block was it. */
  readonly instead?: Alternative | null;
}

/** An evictable block at the time of an eviction. */
export interface Alternative {
  /** The request that had last used it; null: an operator's pin. */
  readonly lastUsedBy: number | null;
  /** The request that looks it up next; null: none does. */
  readonly nextUsedBy: number | null;
}

/** Consecutive tokens of a prompt that hit, or that missed for the same reason. */
export interface TokenRun {
  /** Tokens `[from, to)` of the prompt. */
  readonly from: number;
  readonly to: number;
  readonly reason: "hit" | MissReason;
  /** Target sim: duration of a step that computes only these tokens. */
  readonly recomputeMs?: number;
  /** Of tokens that were cached before: the latest removal of their block; of several blocks, of the first one. */
  readonly removal?: RemovalFacts;
}

/** The cached and the missed tokens of one request. */
export interface RequestExplanation {
  readonly request: number;
  /** Null: the run was interrupted before its admission. */
  readonly replica: number | null;
  /** Why the request was not admitted, so that none of its tokens hit or missed; absent if it was admitted. */
  readonly notAdmitted?: "refused" | "interrupted";
  readonly inputTokens: number;
  readonly hitTokens: number;
  /** Missed tokens with the reason `evicted`. */
  readonly evictedTokens: number;
  readonly runs: readonly TokenRun[];
  /** The longest prefix, in whole blocks, that an earlier request on the replica had, and the last such request. */
  readonly sharedTokens: number;
  readonly sharedWith: number | null;
}

/** Consecutive evictions for one request, and their cost. */
export interface EvictionBatch {
  readonly replica: number;
  /** The request whose allocation needs the blocks; null: an operator. */
  readonly request: number | null;
  /** When: ns in a timed run, else the number of the request that was being served. */
  readonly at: number;
  readonly blocks: number;
  /** Evicted blocks that had the furthest next use of all evictable ones. */
  readonly rightBlocks: number;
  /** Blocks whose next lookup missed because of the eviction, and the missed tokens: the cost. */
  readonly missedBlocks: number;
  readonly missedTokens: number;
  /** The first request that missed one of the blocks. */
  readonly missedBy: number;
  /** For the first block that was missed: the block that would have been right; null: the evicted one was. */
  readonly instead: Alternative | null;
}

/** `missTokens.evicted` of the report by the cause of the removal. The sum is equal to it. */
export interface MissedTokensByCause extends Readonly<Record<RemovalCause, number>> {
  /** Computed before, and not published since then; also lookups after the first one since a removal. */
  readonly notStored: number;
}

/** The field `explain` of a report. */
export interface Explanation {
  readonly ageUnit: AgeUnit;
  readonly missedTokens: MissedTokensByCause;
  readonly evictions: {
    /** Equal to `evictedBlocks`. */
    readonly blocks: number;
    readonly rightBlocks: number;
    /** Evicted blocks whose next lookup missed. */
    readonly missedBlocks: number;
    /** Of the tokens that evictions cost: at that eviction, another evictable block was never looked up again. */
    readonly avoidableTokens: number;
  };
  readonly worst: readonly EvictionBatch[];
  readonly requests: readonly RequestExplanation[];
}

/** A distribution. Quantiles and bins are those of values that were rounded down to three significant digits. */
export interface Distribution {
  readonly count: number;
  readonly mean: number;
  readonly p10: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
  readonly bins: readonly Bin[];
}

/** The histograms of residency. Ages are since the last use of a block: its publication, reference or release. */
export interface ResidencyDistributions {
  /** Of the `hitBlocks`; 0 for a block that another request is using. */
  readonly ageAtHit: Distribution;
  /** Of the `evictedBlocks`. */
  readonly ageAtEviction: Distribution;
  /** From publication to removal, of the blocks that were evicted, that expired or were dropped. */
  readonly lifetime: Distribution;
  /** Hits of each of these blocks and of those that are cached at the end. */
  readonly hitsPerBlock: Distribution;
  /** From removal to the next lookup, of missed tokens: their number and `notStoredTokens` add up to `missTokens.evicted`. */
  readonly ageAtMiss: Distribution;
}

/** The field `residency` of a report. */
export interface Residency extends ResidencyDistributions {
  readonly ageUnit: AgeUnit;
  /** Blocks that left the index, by cause, and those that are cached at the end. */
  readonly removedBlocks: Readonly<Record<RemovalCause, number>>;
  readonly cachedBlocks: number;
  readonly notStoredTokens: number;
}
