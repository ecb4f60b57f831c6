// Folders of many reports, for the benchmark of the dashboard.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

interface Report {
  readonly policy: object;
  readonly simulation: object;
  readonly load: object;
  readonly cache: { readonly hitRatio: Readonly<Record<string, number>> };
  readonly latency: { readonly ttftMs: object };
}

const evictions = ["lru", "fifo", "lfu", "slru", "arc", "sieve", "s3-fifo", "random", "mru", "2q"];
const sizes = Array.from({ length: 50 }, (_, i) => 1000 + 400 * i);

/**
 * Writes folders of runs: the report with other eviction policies, cache sizes and offered rates, in this order, and with results
 * that follow from them.
 */
export function writeReports(folder: string, reportFile: string, count: number): void {
  const report: Report = JSON.parse(readFileSync(reportFile, "utf8"));
  for (let i = 0; i < count; i++) {
    const [policy, size] = [i % evictions.length, Math.floor(i / evictions.length) % sizes.length];
    const rate = 1 + Math.floor(i / (evictions.length * sizes.length));
    const ratio = 0.5 * (size / sizes.length) + 0.02 * policy;
    const hitRatio = Object.fromEntries(Object.keys(report.cache.hitRatio).map((name) => [name, ratio]));
    const changed = {
      ...report,
      policy: { ...report.policy, eviction: evictions[policy], blocks: sizes[size] },
      simulation: { ...report.simulation, requestsPerS: rate },
      load: { ...report.load, offeredRequestsPerS: rate },
      cache: { ...report.cache, hitRatio },
      latency: { ...report.latency, ttftMs: { ...report.latency.ttftMs, p50: 100 * rate - 50 * ratio } },
    };
    const run = join(folder, `trace-sim-h200-${evictions[policy]}-${sizes[size]}-${rate}`);
    mkdirSync(run, { recursive: true });
    writeFileSync(join(run, "run.json"), `${JSON.stringify(changed, undefined, 2)}\n`);
  }
}
