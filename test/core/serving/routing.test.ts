import fc from "fast-check";
import { expect, test } from "vitest";
import { checkRoute } from "../../../core/serving/routing.ts";

test("a router must choose one of its replicas", () => {
  const numbers = fc.oneof(fc.integer({ min: -3, max: 6 }), fc.constantFrom(0.5, 1.5, Number.NaN, 1 / 0));
  fc.assert(
    fc.property(numbers, fc.integer({ min: 1, max: 4 }), (number, replicas) => {
      const isValid = Array.from({ length: replicas }, (_, i) => i).includes(number);
      if (isValid) checkRoute(number, replicas);
      else expect(() => checkRoute(number, replicas)).toThrow(`the router chose replica ${number} of ${replicas}`);
    }),
  );
});
