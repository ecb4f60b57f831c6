import { afterAll, describe, expect, test } from "vitest";
import { cudaBackend } from "../../../engine/cuda/backend.ts";
import { presetRegistry } from "../../../policies/registry.ts";
import { type Case, plantedFaults, SharedExecutors, verified } from "../planted-contents.ts";
import { conversationTrace } from "../serving.ts";
import { canEmulate, useEmulator } from "./decoders.ts";

useEmulator();

const executors = new SharedExecutors(cudaBackend);
afterAll(() => executors.close());

describe.runIf(canEmulate)("kvlab verify --contents on the emulated device", () => {
  test.each(plantedFaults)(
    "%s: found by recomputing contents, and not by comparing decisions",
    async (_, own, wrap) => {
      const { report } = await verified(executors.backend(wrap), own, "decisions only");
      expect([report.identical, report.contents]).toEqual([true, null]);
      const { report: checked } = await verified(executors.backend(wrap), own);
      expect(checked.identical).toBe(true);
      expect(checked.contents).toMatchObject({ identical: false, tolerance: cudaBackend.contentsTolerance });
      expect(checked.contents!.difference!.relativeError).toBeGreaterThan(0.2);
    },
  );

  const trace = conversationTrace({ seed: 4, requests: 12, outputs: true });

  /** Errors are small compared with the tolerance, and planted faults cause large ones. */
  async function expectWithinTolerance(own: Case): Promise<void> {
    const { report, text } = await verified(executors.backend(), { trace, ...own });
    expect([report.identical, report.contents?.identical], text).toEqual([true, true]);
    const { sequences, largestErrors } = report.contents!;
    expect(sequences).toBeGreaterThanOrEqual(trace.requestCount);
    expect(largestErrors!.keysAndValues).toBeLessThan(0.05);
    expect(largestErrors!.logits).toBeLessThan(0.05);
  }

  test.each(presetRegistry.all.map(({ name }) => name))("%s: contents are within tolerance", (preset) =>
    expectWithinTolerance({ preset }),
  );

  test.each(["vllm", "turbomind"])("%s with swaps: contents are within tolerance", (preset) =>
    expectWithinTolerance({ preset, swap: true }),
  );
});
