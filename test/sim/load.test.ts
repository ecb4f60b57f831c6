import { describe, expect, test } from "vitest";
import { openTrace, simulate } from "../../index.ts";
import type { ServedResult } from "../../lab/run/served-result.ts";

const limit = 400;

async function served(preset: string, rate: number) {
  const trace = await openTrace("example", { limit });
  const run = await simulate(trace, { preset, gpu: "rtx-pro-6000", model: "llama-3.1-8b", rate });
  return { ...(run.result as ServedResult), levels: run.series! };
}

describe.each(["vllm", "sglang", "tgi"])("%s", (preset) => {
  test.each([2, 10, 30])(
    "Little's law at %d requests/s: the mean number in the system, from the series, is arrival rate times mean latency",
    async (rate) => {
      const { latency, throughput, levels } = await served(preset, rate);
      let levelNs = 0;
      for (let i = 0; i < levels.count; i++) levelNs += levels.levels.waiting[i] + levels.levels.running[i];
      const latencyNs = limit * latency.e2eMs!.mean * 1e6;
      expect(levelNs / latencyNs).toBeCloseTo(1, 9);
      expect(throughput.requestsPerS).toBeCloseTo(limit / throughput.makespanS, 9);
    },
  );

  test("with the load, TPOT and TTFT grow, and throughput grows until saturation", async () => {
    const runs = [];
    for (const rate of [1, 5, 20, 80]) runs.push(await served(preset, rate));
    const rising = (values: readonly number[]) => values.every((value, i) => i === 0 || value > values[i - 1]);
    expect(rising(runs.map(({ latency }) => latency.ttftMs!.mean))).toBe(true);
    expect(rising(runs.map(({ throughput }) => throughput.requestsPerS))).toBe(true);
    expect(runs[3].latency.tpotMs!.mean).toBeGreaterThan(runs[0].latency.tpotMs!.mean);
    // Below saturation requests leave as fast as they arrive.
    expect(runs[0].load.servedRequestsPerS! / runs[0].load.offeredRequestsPerS!).toBeGreaterThan(0.9);
  });
});
