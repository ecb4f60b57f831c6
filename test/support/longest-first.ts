import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Folders and files whose tests take longest on a machine with two cores, longest first. */
const longest = [
  "test/package/install.test.ts",
  "test/cli/verify.test.ts",
  "test/cli/check.test.ts",
  "test/cli/engine-compare.test.ts",
  "test/bench/gpu.test.ts",
  "test/engine/fuzz.test.ts",
  "test/policies/scheduler/laws.test.ts",
  "test/laws/combinations.test.ts",
  "test/cli/user-parts.test.ts",
  "test/engine/cuda/faults.test.ts",
  "test/cli/simulate-refusals.test.ts",
  "test/laws/operations.test.ts",
  "test/engine/cpu/shapes.test.ts",
  "test/cli/",
  "test/browser/",
  "test/engine/",
  "test/sim/",
  "test/viz/",
  "test/scripts/",
];

const rankOf = ({ moduleId }: TestSpecification): number => {
  const rank = longest.findIndex((path) => moduleId.includes(`/${path}`));
  return rank < 0 ? longest.length : rank;
};

/**
 * Runs the longest test files first, so that all workers finish at about the same time. Vitest's own order does that only where an
 * earlier run was recorded, and by the size of files elsewhere.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).sort((a, b) => rankOf(a) - rankOf(b));
  }
}
