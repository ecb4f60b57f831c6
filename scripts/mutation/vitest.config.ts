import { relative } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Runs the test files with the shortest last run first: most mutants fail in one of them, and then no other file is run. */
class ShortestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const durationOf = ({ project, moduleId }: TestSpecification) => {
      const key = `${project.name}:${relative(this.ctx.config.root, moduleId)}`;
      return this.ctx.cache.getFileTestResults(key)?.duration ?? 0;
    };
    return [...files].sort((a, b) => durationOf(a) - durationOf(b));
  }
}

/** Replays of long traces, laws with many cases, and a test that starts processes: `--slow` runs them, and all of test/sim. */
const slow = [
  "test/core/make-folder.test.ts",
  "test/golden/anchors.test.ts",
  "test/golden/evictions.test.ts",
  "test/golden/examples.test.ts",
  "test/golden/sorted-list-counts.test.ts",
  "test/laws/combinations.test.ts",
  "test/laws/operations.test.ts",
  "test/policies/index/shapes.test.ts",
];

/** Tests that read the text of sources, which Stryker changes. */
const ofText = ["test/laws/tree-faults.test.ts", "test/policies/presets/files.test.ts"];

const isSlow = process.env["KVLAB_MUTATION_SLOW"] === "1";

/** The tests that run against each mutant: those that call the sources directly and take at most a few seconds. */
export default defineConfig({
  test: {
    include: [
      ...["core", "policies", "laws", "golden"].map((folder) => `test/${folder}/**/*.test.ts`),
      isSlow ? "test/sim/**/*.test.ts" : "test/sim/{expiry,hit-compute,pipeline,queueing,speculation,worked}.test.ts",
    ],
    exclude: isSlow ? ofText : [...ofText, ...slow],
    env: isSlow ? {} : { KVLAB_CASES: "0.1" },
    // One worker loads each source once for all test files: a mutant is tested in a fraction of the time.
    isolate: false,
    sequence: { sequencer: ShortestFirst },
    setupFiles: ["test/support/seed.ts"],
    testTimeout: 600_000,
  },
});
