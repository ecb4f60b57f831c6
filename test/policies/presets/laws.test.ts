import { describe, test } from "vitest";
import { inBatches } from "../../../laws/batches.ts";
import { collisions, collisionsOneAtATime } from "../../../laws/collisions.ts";
import { contentIds } from "../../../laws/content-ids.ts";
import { determinism } from "../../../laws/determinism.ts";
import { figures } from "../../../laws/figures.ts";
import { manyAtOnce } from "../../../laws/many-at-once.ts";
import { overlapping } from "../../../laws/overlapping.ts";
import type { Parts } from "../../../laws/parts.ts";
import { refusedAdmission } from "../../../laws/refused-admission.ts";
import type { ScenarioConfig } from "../../../laws/scenario.ts";
import type { Trial } from "../../../laws/trial.ts";
import { unasked } from "../../../laws/unasked.ts";
import { unwatched } from "../../../laws/unwatched.ts";
import { withoutLimit } from "../../../laws/without-limit.ts";
import { worlds } from "../../../laws/worlds.ts";
import type { Preset } from "../../../policies/preset.ts";
import { everyPart, holds } from "../../laws/parts.ts";
import { everyPreset, rulesOf } from "./presets.ts";

// Every law over every preset as it is composed; block size, capacity and requests are the trial's.

const trials: readonly Trial[] = [
  overlapping,
  refusedAdmission,
  determinism,
  unwatched,
  inBatches,
  figures,
  unasked,
  manyAtOnce,
  contentIds,
  withoutLimit,
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
        worlds({ related: true }).map((related) => ({
          ...one,
          world: one.config.seed % 2 === 0 && small !== true ? related : one.world,
          config: as(one.config),
        })),
      ),
  };
}

describe.each(everyPreset)("preset %s", (_name, preset) => {
  const { index, eviction, allocator } = preset;
  const parts: Parts = { ...everyPart, indexes: [index], evictions: [eviction], allocators: [allocator] };
  test.each(trialsOf(preset).map((trial) => [trial.laws.map(({ name }) => name).join(", "), trial] as const))(
    "%s",
    (_laws, trial) => holds(composed(trial, preset), parts, 0.5),
  );
});
