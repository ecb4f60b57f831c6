import { efficiencyOf, referenceDevice } from "../../sim/cost/efficiency.ts";
import type { Simulated } from "./simulated.ts";

/** A sentence for the output if the step times of a simulation are not derived from measurements on its GPU, or a profile is not used. */
export function costNote(simulated: Simulated): string | undefined {
  const { cost, profile, hardware, efficiency, unusedProfileNote } = simulated;
  if (unusedProfileNote !== undefined) return unusedProfileNote;
  const achieved = efficiencyOf(hardware);
  const isChanged = efficiency.memory !== achieved.memory || efficiency.matrices !== achieved.matrices;
  if (profile || cost !== undefined || isChanged || hardware.measured !== undefined) return undefined;
  return (
    `Step times are not measured on ${hardware.name}: they are predicted from its data sheet, ` +
    `at the shares of its rates that ${referenceDevice} achieves.`
  );
}
