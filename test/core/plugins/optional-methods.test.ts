import { expect, test } from "vitest";
import { invalidMethod } from "../../../core/plugins/optional-methods.ts";

test.each([
  [{ add: () => {}, hit: undefined }, undefined],
  [{ hit: 3 }, "hit is 3, expected a function"],
  [{ hit: "all" }, 'hit is "all", expected a function'],
  [{ hit: null }, "hit is null, expected a function"],
  [{ hit: [1] }, "hit is an array, expected a function"],
  [{ hit: {} }, "hit is an object, expected a function"],
  [{ other: 3, split: () => {} }, undefined],
])("of %o, an optional member that is present must be a function", (made, problem) => {
  expect(invalidMethod(made, ["hit", "split"])).toBe(problem);
});
