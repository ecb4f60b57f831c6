import { defaultEfficiency } from "../../sim/cost/roofline.ts";
import type { Simulated } from "./simulated.ts";

/** The GPU whose recorded run the roofline's default efficiency factors are fitted to (docs/fidelity.md). */
const fittedGpu = "rtx-pro-6000";

/** A sentence for the output if the step times of a simulation have no measurement on its GPU. */
export function costNote({ cost, profile, hardware, efficiency }: Simulated): string | undefined {
  const { memory, matrices } = efficiency;
  const isFitted = memory === defaultEfficiency.memory && matrices === defaultEfficiency.matrices;
  if (profile || cost !== undefined || !isFitted || hardware.name === fittedGpu) return undefined;
  return `Step times are not measured on ${hardware.name}: they are its data sheet × efficiency factors that were fitted on ${fittedGpu}.`;
}
