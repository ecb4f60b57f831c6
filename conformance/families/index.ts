import type { Family } from "../family.ts";
import { admissionEstimate } from "./admission-estimate.ts";

/** Every family that kvlab knows. */
export const families: readonly Family[] = [admissionEstimate];
