import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { builtThreads, programFolder } from "./test/support/built-program.ts";
import { LongestFirst } from "./test/support/longest-first.ts";

const isLong = process.env["KVLAB_LONG"] === "1";

const builtProgram = programFolder();

export default defineConfig({
  plugins: [builtThreads(builtProgram)],
  test: {
    include: ["test/**/*.test.ts"],
    // More than processors, because many tests wait for programs, timers and files.
    maxWorkers: Math.ceil(1.5 * availableParallelism()),
    sequence: { sequencer: LongestFirst },
    globalSetup: ["test/support/built-program.ts"],
    provide: { builtProgram },
    setupFiles: ["test/support/seed.ts"],
    // What is polled for has as long as a busy machine may need; a second would be a timed assertion.
    expect: { poll: { timeout: 30_000 } },
    testTimeout: isLong ? 7_200_000 : 120_000,
  },
});
