// The rates that devices achieve (sim/cost/efficiency.ts), fitted to the operator profiles in sim/profiles, and their errors.
//   npm run -s rates
import { efficiencyOf } from "../sim/cost/efficiency.ts";
import { hardwareNamed } from "../sim/cost/hardware.ts";
import { type FittedDevice, fittedProfiles, fittedRates, measuredOf, operatorsOf, predictorsOf } from "./fit-rates.ts";

const percent = (share: number) => `${(100 * share).toFixed(1)} %`;

/** Mean and mean absolute error per operator of a profile. */
function printErrors(device: FittedDevice, profile: string, rates = efficiencyOf(hardwareNamed(device))): void {
  const hardware = hardwareNamed(device);
  const measured = measuredOf(profile, 1);
  const predictors = predictorsOf(hardware, rates, measured);
  const errors = new Map<string, number[]>();
  for (const operator of operatorsOf(measured)) {
    const list = errors.get(operator.name) ?? [];
    errors.set(operator.name, list);
    list.push(operator.predict(predictors) / operator.ns - 1);
  }
  for (const [name, list] of errors) {
    const mean = list.reduce((sum, error) => sum + error, 0) / list.length;
    const absolute = list.reduce((sum, error) => sum + Math.abs(error), 0) / list.length;
    console.log(`| ${name} | ${list.length} | ${percent(mean)} | ${percent(absolute)} |`);
  }
}

for (const device of Object.keys(fittedProfiles) as FittedDevice[]) {
  const { fitted, tested } = fittedProfiles[device];
  const rates = fittedRates(device);
  console.log(`${device}: ${JSON.stringify(rates, null, 2)}`);
  for (const profile of [...fitted, ...tested]) printErrors(device, profile, rates);
}
console.log("rtx-4090 with the rates of rtx-pro-6000:");
printErrors("rtx-4090", "rtx4090-llama-3.1-8b", efficiencyOf(hardwareNamed("rtx-pro-6000")));
