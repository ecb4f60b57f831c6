import { asAnyPolicy } from "./as-any-policy.ts";
import { inBatches } from "./batches.ts";
import { collisions, collisionsOneAtATime } from "./collisions.ts";
import { contentIds } from "./content-ids.ts";
import { determinism } from "./determinism.ts";
import { figures } from "./figures.ts";
import { manyAtOnce } from "./many-at-once.ts";
import { belowOptimum } from "./optimum.ts";
import { overlapping } from "./overlapping.ts";
import { refusedAdmission } from "./refused-admission.ts";
import type { Trial } from "./trial.ts";
import { unasked } from "./unasked.ts";
import { unwatched } from "./unwatched.ts";
import { withoutLimit } from "./without-limit.ts";

/** What every eviction policy goes through, in caches with every index. */
export const evictionTrials: readonly Trial[] = [
  overlapping,
  determinism,
  refusedAdmission,
  unasked,
  manyAtOnce,
  belowOptimum,
  asAnyPolicy,
];

/** What every index goes through, with every eviction policy. */
export const indexTrials: readonly Trial[] = [
  overlapping,
  collisions,
  collisionsOneAtATime,
  figures,
  withoutLimit,
  belowOptimum,
  determinism,
  unwatched,
  inBatches,
  contentIds,
];
