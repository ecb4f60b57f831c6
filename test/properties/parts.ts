import type { Parts } from "../../laws/parts.ts";
import { story } from "../../laws/story.ts";
import { type Trial, violations } from "../../laws/trial.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry, schedulerRegistry } from "../../policies/registry.ts";

/** Every part there is. */
export const everyPart: Parts = {
  indexes: indexRegistry.all,
  evictions: evictionRegistry.all,
  allocators: allocatorRegistry.all,
  schedulers: schedulerRegistry.all,
  known: {
    index: indexRegistry.get("hash-table"),
    eviction: evictionRegistry.get("lru"),
    optimum: evictionRegistry.get("belady"),
    scheduler: schedulerRegistry.get("naive"),
  },
};

/** KVLAB_LONG=1 runs everything fifty times as long. */
const isLong = process.env["KVLAB_LONG"] === "1";
export const runs = (count: number): number => (isLong ? 50 * count : count);

/** Fails with every law that the trial finds broken: its seed and smallest case. */
export function holds(trial: Trial, parts: Parts, share = 1): void {
  const found = violations(trial, parts, { runs: Math.ceil(runs(trial.runs * share)) });
  if (found.length === 0) return;
  const told = found.map((one) => `${one.law.says}: ${one.message}\n${story(one.case)}\nseed ${one.seed}`);
  throw new Error(told.join("\n\n"), { cause: found[0].error });
}
