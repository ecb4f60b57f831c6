import { defineConfig } from "vitest/config";

const isLong = process.env["KVLAB_LONG"] === "1";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    setupFiles: ["test/support/seed.ts"],
    testTimeout: isLong ? 7_200_000 : 120_000,
  },
});
