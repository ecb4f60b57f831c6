/** Why a prompt token had to be computed. The order is that of the JSON report. */
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
export const Miss = {
  neverSeen: 0,
  evicted: 1,
  pastHole: 2,
  shorterThanBlock: 3,
  otherNamespace: 4,
  notYetComputed: 5,
  matchLimit: 6,
} as const;
