import { describe, test } from "vitest";
import { belowOptimum } from "../../laws/optimum.ts";
import type { Trial } from "../../laws/trial.ts";
import { evictionTrials, indexTrials } from "../../laws/trials.ts";
import { evictionRegistry, indexRegistry } from "../../policies/registry.ts";
import { allPlugins, holds } from "./all-plugins.ts";

// Every law with every plug-in; each trial is described in its file.

const named = (trials: readonly Trial[]) =>
  trials.map((trial) => [trial.laws.map(({ name }) => name).join(", "), trial] as const);

describe.each(evictionRegistry.all.map((plugin) => [plugin.name, plugin] as const))("with %s", (_name, eviction) => {
  // An unlimited pool is larger than any of these traces needs, and still checked block by block.
  const share = eviction.unlimited ? 0.2 : 1;
  // An unlimited cache may have more hits than the optimum of a limited one.
  const trials = eviction.unlimited ? evictionTrials.filter((trial) => trial !== belowOptimum) : evictionTrials;
  test.each(named(trials))("%s", (_laws, trial) => holds(trial, { ...allPlugins, evictions: [eviction] }, share));
});

describe.each(indexRegistry.all.map((plugin) => [plugin.name, plugin] as const))("with index %s", (_name, index) => {
  test.each(named(indexTrials))("%s", (_laws, trial) => holds(trial, { ...allPlugins, indexes: [index] }));
});
