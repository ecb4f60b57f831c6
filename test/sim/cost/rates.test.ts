import { describe, expect, test } from "vitest";
import { InputError } from "../../../core/errors.ts";
import {
  type FittedDevice,
  fittedProfiles,
  fittedRates,
  measuredOf,
  operatorsOf,
  predictorsOf,
} from "../../../scripts/fit-rates.ts";
import { fitWithin } from "../../../sim/cost/bounded-fit.ts";
import { efficiencyOf } from "../../../sim/cost/efficiency.ts";
import { hardwareNamed } from "../../../sim/cost/hardware.ts";

describe("the rates of a device", () => {
  test.each(Object.keys(fittedProfiles) as FittedDevice[])(
    "%s: are those that npm run rates fits to its operator profiles",
    (device) => {
      expect(fittedRates(device)).toEqual(efficiencyOf(hardwareNamed(device)));
    },
    60_000,
  );

  test("fitted to two Qwen models, the operators of a Llama are predicted within 9 % on average", () => {
    const hardware = hardwareNamed("rtx-pro-6000");
    const measured = measuredOf("rtxpro6000-llama-3.1-8b", 1);
    const rates = predictorsOf(hardware, efficiencyOf(hardware), measured);
    const errors = new Map<string, number[]>();
    for (const operator of operatorsOf(measured)) {
      const list = errors.get(operator.name) ?? [];
      errors.set(operator.name, list);
      list.push(Math.abs(operator.predict(rates) / operator.ns - 1));
    }
    // Elementwise kernels and sampling are a small part of a step.
    const large = Array.from(errors).filter(([name]) => /_proj|lm_head|attention/.test(name));
    expect(large).toHaveLength(8);
    for (const [name, list] of large)
      expect(list.reduce((sum, error) => sum + error, 0) / list.length, name).toBeLessThan(0.09);
  });

  test("a device without measurements has the rates of the reference device", () => {
    expect(efficiencyOf(hardwareNamed("h200"))).toEqual(efficiencyOf(hardwareNamed("rtx-pro-6000")));
    expect(hardwareNamed("h200").measured).toBeUndefined();
  });
});

describe("a bounded fit", () => {
  const errorOf = ({ a, b }: { a: number; b: number }) => Math.log(a / 3) ** 2 + Math.log((a * b) / 2.5) ** 2;

  test("finds the factors of the data", () => {
    const { a, b } = fitWithin({ a: [1, 10], b: [0.1, 10] }, (factors) => errorOf(factors), "data");
    expect(a).toBeCloseTo(3, 1);
    expect(a * b).toBeCloseTo(2.5, 1);
  });

  test("that ends at a limit is an error that names factor, value and limit", () => {
    const fit = () => fitWithin({ a: [1, 2], b: [0.1, 10] }, (factors) => errorOf(factors), "data");
    expect(fit).toThrow(InputError);
    expect(fit).toThrow("data: a is 2.000, at the limit 2 of its range");
  });
});
