import { describe, test } from "vitest";
import { batchMethods } from "../../../laws/batch-methods.ts";
import { collisions, collisionsOneAtATime } from "../../../laws/collisions.ts";
import { contentIds } from "../../../laws/content-ids.ts";
import { determinism } from "../../../laws/determinism.ts";
import { extraVictimCalls } from "../../../laws/extra-victim-calls.ts";
import { failedAdmissionRetries } from "../../../laws/failed-admission.ts";
import { logAndAudit } from "../../../laws/log-and-audit.ts";
import { metrics } from "../../../laws/metrics.ts";
import { overlapping } from "../../../laws/overlapping.ts";
import type { PluginSet } from "../../../laws/plugin-set.ts";
import type { ScenarioConfig } from "../../../laws/scenario.ts";
import { traceBatches } from "../../../laws/trace-batches.ts";
import type { Trial } from "../../../laws/trial.ts";
import { unlimitedHits } from "../../../laws/unlimited-hits.ts";
import { workloads } from "../../../laws/workloads.ts";
import type { Preset } from "../../../policies/preset.ts";
import { allPlugins, holds } from "../../laws/all-plugins.ts";
import { everyPreset, rulesOf } from "./presets.ts";

// Every law over every preset as it is composed; block size, capacity and requests are the trial's.

const trials: readonly Trial[] = [
  overlapping,
  failedAdmissionRetries,
  determinism,
  logAndAudit,
  traceBatches,
  metrics,
  extraVictimCalls,
  batchMethods,
  contentIds,
  unlimitedHits,
  collisions,
  collisionsOneAtATime,
];

/**
 * Whoever trusts equal hashes is wrong where they collide, and who takes over a block that is found in part takes its
 * content from others: by tokens more often than by content ids.
 */
function trialsOf(preset: Preset): readonly Trial[] {
  const { collision, partial } = rulesOf(preset);
  const colliding = (trial: Trial) => trial === collisions || trial === collisionsOneAtATime;
  return trials.filter(
    (trial) => !(collision === "trust" && colliding(trial)) && !(partial === "steal" && trial === contentIds),
  );
}

/** The trial in caches that are composed as the preset; half of the requests continue earlier ones. */
function composed(trial: Trial, { index, eviction, allocator, rules }: Preset): Trial {
  const as = (config: ScenarioConfig): ScenarioConfig => ({ ...config, index, eviction, allocator, rules });
  return {
    ...trial,
    cases: (parts, small) =>
      trial.cases(parts, small).chain((one) =>
        workloads({ related: true }).map((related) => ({
          ...one,
          workload: one.config.seed % 2 === 0 && small !== true ? related : one.workload,
          config: as(one.config),
        })),
      ),
  };
}

describe.each(everyPreset)("preset %s", (_name, preset) => {
  const { index, eviction, allocator } = preset;
  const parts: PluginSet = { ...allPlugins, indexes: [index], evictions: [eviction], allocators: [allocator] };
  test.each(trialsOf(preset).map((trial) => [trial.laws.map(({ name }) => name).join(", "), trial] as const))(
    "%s",
    (_laws, trial) => holds(composed(trial, preset), parts, 0.5),
  );
});
