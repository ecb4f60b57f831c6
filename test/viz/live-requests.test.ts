import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Metrics } from "../../core/serving/metrics.ts";
import { LiveRun } from "../../lab/run/live.ts";
import { LiveRequests } from "../../lab/run/live-requests.ts";
import { Simulation } from "../../sim/simulation.ts";
import type { LiveRow, SeriesData } from "../../viz/api.ts";
import { liveFiles, requestColumns } from "../../viz/server/live-format.ts";
import { newFolder } from "../cli/program.ts";
import { linearCost, simulated, simulationConfigOf, tracesOf, workloads } from "../support/simulated.ts";
import { dashboardOver } from "./dashboard.ts";

/** Steps of the property take nanoseconds. */
const slo = { ttftMs: 2e-5, tpotMs: 2e-6 };

test("every measured request that has ended is written once and counted against the SLO as in the report", () => {
  const folder = newFolder();
  fc.assert(
    fc.property(workloads(), fc.nat(5), fc.integer({ min: 1, max: 40 }), (rows, warmup, events) => {
      const simulation = new Simulation(simulationConfigOf());
      const requests = new LiveRequests(folder, { warmup, slo });
      for (const trace of tracesOf(rows, 7)) {
        simulation.feed(trace);
        while (simulation.run(events)) requests.write(simulation.arrivals);
      }
      simulation.end();
      while (simulation.run(events)) requests.write(simulation.arrivals);
      requests.write(simulation.arrivals);
      requests.write(simulation.arrivals);
      requests.close();
      const values = new Float64Array(new Uint8Array(readFileSync(join(folder, liveFiles.requests))).buffer);
      const width = requestColumns.length;
      const written = Array.from({ length: values.length / width }, (_, row) => values[row * width]);
      const { passedOn, batches } = simulation.arrivals;
      const finishedNs = [...passedOn, ...batches].flatMap(({ outcomes }) => [...outcomes.finishedNs]);
      const measured = [...finishedNs.keys()].filter((id) => id >= warmup);
      expect([...written].sort((a, b) => a - b)).toEqual(measured);
      written.forEach((id, row) => {
        expect(values[row * width + requestColumns.indexOf("finishedNs")]).toBe(finishedNs[id]);
      });
      expect(requests.ended).toBe(measured.length);
      const attained = new Metrics(simulation, warmup).slo(slo).attained;
      expect(requests.attained / Math.max(1, requests.ended)).toBeCloseTo(attained, 12);
    }),
    { numRuns: 40 },
  );
});

test("a live run has its latency over time, SLO, refusals and replicas", async () => {
  const folder = newFolder();
  const rows = Array.from({ length: 40 }, (_, i) => ({ at: i * 400_000, prompt: 9, output: 3 + (i % 5) }));
  const simulation = simulated(rows, { replicas: 2, router: "round-robin", cost: linearCost({ fixed: 1e6 }) });
  const slo = { ttftMs: 3 };
  const header = {
    ...{ command: "kvlab replay", run: null, trace: "t", requests: 40, target: "sim", preset: null, index: "i" },
    ...{ eviction: "lru", allocator: "block", scheduler: "fcfs", victims: "any", blocks: 16, blockTokens: 4 },
  };
  const live = await LiveRun.open(folder, header, () => {}, { warmup: 0, slo });
  try {
    live.watch(simulation);
    const client = await dashboardOver(folder);
    const { now } = await client.get<LiveRow>(`/api/live/${process.pid}`);
    const metrics = new Metrics(simulation);
    expect(now!.slo!.attained).toBeCloseTo(metrics.slo(slo).attained, 12);
    expect(now!.replicas!.map(({ requests }) => requests)).toEqual(
      simulation.replicas.map(({ cache }) => cache.counters.lookups),
    );
    for (const { utilisation } of now!.replicas!) expect(utilisation).toBeGreaterThan(0);
    expect(now!.refusals).toEqual({});
    const { latency } = await client.get<SeriesData>(`/api/live/${process.pid}/series?bins=1`);
    expect(latency!.columns["ttftMs"].p50[0]).toBeCloseTo(metrics.latency().ttftMs!.p50, 9);
  } finally {
    live.close();
  }
});
