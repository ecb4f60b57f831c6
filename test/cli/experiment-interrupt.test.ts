import { expect, test, vi } from "vitest";
import { TraceBuilder } from "../../core/trace/trace.ts";
import { ExperimentRunner, StepSums } from "../../lab/experiments/runner.ts";

test("an aborted run of an experiment rejects instead of reporting partial metrics", async () => {
  const builder = new TraceBuilder(1);
  const keys = [1, 2, 3, 4, 5, 6, 7, 8];
  for (const outputTokens of [8, 80]) builder.add({ arrivalNs: 0, inputTokens: keys.length, outputTokens, keys });
  const controller = new AbortController();
  const steps = vi.spyOn(StepSums.prototype, "steps").mockImplementation(() => {
    // The shorter output is complete, the longer one is not.
    if (steps.mock.calls.length === 12) controller.abort();
  });
  const runner = new ExperimentRunner({ seed: 1, target: "cpu", model: "random:tiny", signal: controller.signal });
  const run = runner.run(builder.take(), { preset: "vllm", machine: { model: "llama-3.1-8b", gpu: "h200" } });
  await expect(run).rejects.toThrow("interrupted");
  expect(steps).toHaveBeenCalledTimes(12);
});
