/**
 * Weaknesses that are known and not mended yet, which the laws accept until they are. `KVLAB_AVOID=none` accepts none.
 */
const known = [
  /** A partial block whose holder decodes into it in this step could be copied, but is not hit. */
  "copy-of-growing-block",
  /** A block missed because this step computes it stays counted in the lookups after it. */
  "stale-miss-count",
] as const;
export type Weakness = (typeof known)[number];

export const avoided: ReadonlySet<Weakness> = new Set(process.env["KVLAB_AVOID"] === "none" ? [] : known);
