import type { Family } from "../family.ts";
import { admissionEstimate } from "./admission-estimate.ts";
import { evictionOrder } from "./eviction-order.ts";
import { partialBlockIndex } from "./partial-block-index.ts";
import { priorityEviction } from "./priority-eviction.ts";
import { promptBoundary } from "./prompt-boundary.ts";
import { retentionRanges } from "./retention-ranges.ts";
import { schedulerOrder } from "./scheduler-order.ts";

/** Every family that kvlab knows. */
export const families: readonly Family[] = [
  admissionEstimate,
  evictionOrder,
  partialBlockIndex,
  priorityEviction,
  promptBoundary,
  retentionRanges,
  schedulerOrder,
];
