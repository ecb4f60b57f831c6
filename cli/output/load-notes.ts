import { counted } from "../../core/counted.ts";
import { fewestSteady, type Limit, longestDrain, type OfferedLoad } from "../../core/serving/offered-load.ts";
import { percent } from "../../lab/output/numbers.ts";

/** Names of the limits in tables. */
export const limitNames: Readonly<Record<Limit, string>> = {
  "max-num-seqs": "max_num_seqs",
  "token-budget": "token budget",
  blocks: "KV blocks",
  scheduler: "scheduler",
  compute: "compute",
  load: "offered load",
};

export const limitMeanings: Readonly<Record<Limit, string>> = {
  "max-num-seqs": "requests wait because the most requests run",
  "token-budget": "requests wait because the tokens of a step are used up",
  blocks: "requests wait for blocks, or need more than the cache has",
  scheduler: "requests wait because the scheduler does not admit them yet",
  compute: "requests run, but more slowly than they arrive",
  load: "all requests are served as they arrive",
};

/** Why a run has no steady state; undefined if it has one. */
export function unsteadiness({
  steady,
  windowMs,
  drainMs,
  steadyRequests,
  limitedBy,
}: OfferedLoad): string | undefined {
  if (steady) return undefined;
  if (windowMs === 0) return "all requests arrive at once";
  if (drainMs > longestDrain * windowMs) {
    const drain = `the drain is ${percent(drainMs / windowMs)} of the time in which requests arrive`;
    return limitedBy === "load" ? drain : `${drain}: the load exceeds the capacity`;
  }
  return `only ${counted(steadyRequests, "request")} of at least ${fewestSteady} finished between ramp and drain`;
}
