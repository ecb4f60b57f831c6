import { defineConfig } from "vitest/config";
import { builtThreads, programFolder } from "./test/support/built-program.ts";

const isLong = process.env["KVLAB_LONG"] === "1";

const builtProgram = programFolder();

export default defineConfig({
  plugins: [builtThreads(builtProgram)],
  test: {
    include: ["test/**/*.test.ts"],
    // All processors: many tests wait for programs, and two of them would otherwise be one.
    maxWorkers: "100%",
    globalSetup: ["test/support/built-program.ts"],
    provide: { builtProgram },
    setupFiles: ["test/support/seed.ts"],
    // What is polled for has as long as a busy machine may need; a second would be a timed assertion.
    expect: { poll: { timeout: 30_000 } },
    testTimeout: isLong ? 7_200_000 : 120_000,
  },
});
