import type { Family } from "../family.ts";
import { admissionEstimate } from "./admission-estimate.ts";
import { partialBlockIndex } from "./partial-block-index.ts";
import { promptBoundary } from "./prompt-boundary.ts";
import { schedulerOrder } from "./scheduler-order.ts";

/** Every family that kvlab knows. */
export const families: readonly Family[] = [admissionEstimate, partialBlockIndex, promptBoundary, schedulerOrder];
