import type { RunRow } from "../../api.ts";
import { grouped } from "./grouped.ts";

/** Reasons of misses in words, by the names of the report. */
export const missReasonLabels: Readonly<Record<string, string>> = {
  "never-seen": "never seen (cold)",
  evicted: "evicted",
  "past-hole": "past a hole",
  "shorter-than-block": "partial block",
  "other-namespace": "other namespace",
  "not-yet-computed": "not yet computed",
  "match-limit": "match limit",
};

/** What becomes of prompt tokens, in the order in which they are stacked. */
export const tokenKinds = ["hit", ...Object.keys(missReasonLabels), "refused"] as const;

/** The prompt tokens of some runs. */
export interface MissShares {
  readonly label: string;
  readonly runs: number;
  /** Mean share of the prompt tokens by kind; the sum is 1. Kinds without tokens are left out. */
  readonly shares: readonly { readonly kind: string; readonly share: number }[];
}

/** Hits and misses by reason of the runs of each label; runs without them are left out. */
export function missSharesOf(rows: readonly RunRow[], labelOf: (row: RunRow) => string): MissShares[] {
  const counted = rows.filter(({ missTokens, lookupTokens }) => missTokens !== undefined && lookupTokens > 0);
  return [...grouped(counted, labelOf)].map(([label, group]) => {
    const all = group.map(sharesOf);
    const mean = (kind: string) => all.reduce((sum, shares) => sum + (shares.get(kind) ?? 0), 0) / all.length;
    const kinds = [...tokenKinds, ...new Set(all.flatMap((shares) => [...shares.keys()]))];
    const shares = [...new Set(kinds)].map((kind) => ({ kind, share: mean(kind) })).filter(({ share }) => share > 0);
    return { label, runs: group.length, shares };
  });
}

/** Tokens that are neither hits nor misses are those of refused requests. */
function sharesOf({ hitTokens, missTokens = {}, lookupTokens }: RunRow): Map<string, number> {
  const missed = Object.values(missTokens).reduce((sum, tokens) => sum + tokens, 0);
  const refused = Math.max(0, lookupTokens - hitTokens - missed);
  const tokens = [["hit", hitTokens], ...Object.entries(missTokens), ["refused", refused]] as const;
  return new Map(
    tokens.filter(([, count]) => Number(count) > 0).map(([kind, count]) => [kind, Number(count) / lookupTokens]),
  );
}

export const tokenKindLabel = (kind: string): string => missReasonLabels[kind] ?? kind;
