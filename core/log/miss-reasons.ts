/** Reasons of a miss, in the order of the JSON report. */
export const missReasons = [
  "never-seen",
  "evicted",
  "past-hole",
  "shorter-than-block",
  "other-namespace",
  "not-yet-computed",
  "match-limit",
] as const;
export type MissReason = (typeof missReasons)[number];
/** Codes of the reasons: their indices in `missReasons`. */
export const Miss = {
  neverSeen: 0,
  evicted: 1,
  pastHole: 2,
  shorterThanBlock: 3,
  otherNamespace: 4,
  notYetComputed: 5,
  matchLimit: 6,
} as const;
