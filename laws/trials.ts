import { batchMethods } from "./batch-methods.ts";
import { collisions, collisionsOneAtATime } from "./collisions.ts";
import { contentIds } from "./content-ids.ts";
import { determinism } from "./determinism.ts";
import { extraVictimCalls } from "./extra-victim-calls.ts";
import { failedAdmissionRetries } from "./failed-admission.ts";
import { logAndAudit } from "./log-and-audit.ts";
import { metrics } from "./metrics.ts";
import { belowOptimum } from "./optimum.ts";
import { overlapping } from "./overlapping.ts";
import { traceBatches } from "./trace-batches.ts";
import type { Trial } from "./trial.ts";
import { unlimitedHits } from "./unlimited-hits.ts";
import { unlimitedSameHits } from "./unlimited-same-hits.ts";

/** The trials of an eviction policy, in caches with every index. */
export const evictionTrials: readonly Trial[] = [
  overlapping,
  determinism,
  failedAdmissionRetries,
  extraVictimCalls,
  batchMethods,
  belowOptimum,
  unlimitedSameHits,
];

/** The trials of an index, with every eviction policy. */
export const indexTrials: readonly Trial[] = [
  overlapping,
  collisions,
  collisionsOneAtATime,
  metrics,
  unlimitedHits,
  belowOptimum,
  determinism,
  logAndAudit,
  traceBatches,
  contentIds,
];
