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

// Every law with every preset's composition; block size, capacity and requests are those of the trial.

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
 * Laws that a preset breaks by design: one that trusts equal hashes is wrong if they collide, and one that reuses a partially
 * matching block in place removes its content for other requests, in token traces more often than in content-id traces.
 */
function trialsOf(preset: Preset): readonly Trial[] {
  const { collision, partial } = rulesOf(preset);
  const colliding = (trial: Trial) => trial === collisions || trial === collisionsOneAtATime;
  return trials.filter(
    (trial) => !(collision === "trust" && colliding(trial)) && !(partial === "steal" && trial === contentIds),
  );
}

/** The trial with the preset's composition; half of the requests continue earlier ones. */
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
