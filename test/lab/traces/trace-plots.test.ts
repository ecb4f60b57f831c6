import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { TraceBuilder } from "../../../core/trace/trace.ts";
import { tracePlots } from "../../../lab/traces/plots/trace-plots.ts";
import { traceStats } from "../../../lab/traces/trace-stats.ts";
import { TraceStatistics } from "../../../traces/stats/stats.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-plots-"));
afterAll(() => rmSync(folder, { recursive: true }));

const contentPlots = ["popularity.svg", "reuse-distance.svg", "sharing-depth.svg", "working-set.svg"];

test("every plot of a trace is an SVG document with a title, labelled axes, and finite positions", async () => {
  const { plots } = await traceStats("example", { limit: 400, plots: join(folder, "a/b") });
  expect(readdirSync(join(folder, "a/b")).sort()).toEqual(["arrivals.svg", "lengths.svg", ...contentPlots]);
  expect(plots).toHaveLength(6);
  for (const file of plots) {
    const svg = readFileSync(file, "utf8");
    expect(svg).toMatch(/^<svg [^>]*aria-label="[A-Z][a-z ]+: example"/);
    expect(svg).not.toMatch(/NaN|undefined|Infinity/);
    expect(svg).toContain("prefers-color-scheme: dark");
    expect(svg.match(/<path /g)!.length).toBeGreaterThan(0);
  }
});

test("a trace of lengths has no plots of content, and a name is escaped", () => {
  const builder = new TraceBuilder(1, 0, { lengthsOnly: true });
  for (const arrivalNs of [0, 1e9, 3e9]) builder.add({ arrivalNs, inputTokens: 100, outputTokens: 0, keys: [] });
  const statistics = new TraceStatistics();
  statistics.add(builder.take(), undefined);
  const plots = tracePlots("a<b", statistics);
  expect(plots.map(({ file }) => file)).toEqual(["arrivals.svg", "lengths.svg"]);
  for (const { svg } of plots) {
    expect(svg).toContain("a&lt;b");
    expect(svg).not.toMatch(/NaN|undefined|Infinity/);
  }
});

test("a single request has plots too", () => {
  const builder = new TraceBuilder(16);
  builder.add({ arrivalNs: 0, inputTokens: 20, outputTokens: 1, keys: [0, 1] });
  const statistics = new TraceStatistics();
  const batch = builder.take();
  const { keys, keyStart: start } = batch;
  statistics.add(batch, { blockTokens: 16, keys, start, promptBlocks: Uint32Array.of(2), distinct: 2 });
  for (const { svg } of tracePlots("one", statistics)) expect(svg).not.toMatch(/NaN|undefined|Infinity/);
});
