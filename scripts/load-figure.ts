// Draws docs/load.svg: throughput, TTFT and TPOT against the load, from 10 % to 150 % of saturation, for three presets, and prints
// the deviation from Little's law at each load.
//   npx tsx scripts/load-figure.ts
import { writeFileSync } from "node:fs";
import { format } from "d3-format";
import { scaleLinear, scaleLog } from "d3-scale";
import { line } from "d3-shape";
import { openTrace, simulate, type TraceRun } from "../index.ts";
import type { ServedResult } from "../lab/run/served-result.ts";

const system = { gpu: "rtx-pro-6000", model: "llama-3.1-8b" };
const presets = [
  { name: "vllm", colour: "#0969da", dash: "" },
  { name: "sglang", colour: "#bc4c00", dash: "6 3" },
  { name: "tgi", colour: "#8250df", dash: "2 3" },
];
const loads = Array.from({ length: 15 }, (_, i) => (i + 1) / 10);
const limit = 3000;

interface LoadPoint {
  /** Arrivals ÷ saturation. */
  readonly load: number;
  /** Completed requests per second of the time in which requests arrive. */
  readonly requestsPerS: number;
  readonly ttftMs: number;
  readonly tpotMs: number;
  /** Mean number of waiting and running requests ÷ (arrival rate × mean latency) − 1. */
  readonly littleError: number;
}

/** Requests per second when all of them are always waiting. */
async function saturationOf(preset: string): Promise<number> {
  const { result } = await simulate(await openTrace("example", { limit }), { ...system, preset, rate: 10_000 });
  return timed(result).throughput.requestsPerS;
}

const timed = (result: TraceRun["result"]) => result as ServedResult;

async function pointOf(preset: string, saturation: number, load: number): Promise<LoadPoint> {
  const trace = await openTrace("example", { limit });
  const run = await simulate(trace, { ...system, preset, rate: load * saturation });
  const { latency, throughput, load: offered } = timed(run.result);
  const { levels, count } = run.series!;
  let inSystem = 0;
  for (let i = 0; i < count; i++) inSystem += levels.waiting[i] + levels.running[i];
  const makespanNs = throughput.makespanS * 1e9;
  const arrivalsPerNs = trace.trace.requestCount / makespanNs;
  return {
    load,
    requestsPerS: offered.servedRequestsPerS!,
    ttftMs: latency.ttftMs!.mean,
    tpotMs: latency.tpotMs!.mean,
    littleError: inSystem / makespanNs / (arrivalsPerNs * latency.e2eMs!.mean * 1e6) - 1,
  };
}

const curves: { preset: (typeof presets)[number]; saturation: number; points: LoadPoint[] }[] = [];
for (const preset of presets) {
  const saturation = await saturationOf(preset.name);
  const points: LoadPoint[] = [];
  for (const load of loads) points.push(await pointOf(preset.name, saturation, load));
  curves.push({ preset, saturation, points });
}

const panels = [
  { title: "throughput, requests/s", of: (point: LoadPoint) => point.requestsPerS, log: false },
  { title: "mean TTFT, ms", of: (point: LoadPoint) => point.ttftMs, log: true },
  { title: "mean TPOT, ms", of: (point: LoadPoint) => point.tpotMs, log: false },
];
const [width, height, margin] = [960, 330, { top: 60, right: 24, bottom: 50, left: 58 }];
const panelWidth = width / panels.length;
const parts: string[] = [];
panels.forEach(({ title, of, log }, i) => {
  const values = curves.flatMap(({ points }) => points.map(of));
  const [left, right] = [i * panelWidth + margin.left, (i + 1) * panelWidth - margin.right];
  const x = scaleLinear([0, 1.5], [left, right]);
  const y = log
    ? scaleLog(
        [10 ** Math.floor(Math.log10(Math.min(...values))), Math.max(...values) * 1.2],
        [height - margin.bottom, margin.top],
      )
    : scaleLinear([0, Math.max(...values) * 1.1], [height - margin.bottom, margin.top]);
  const yTicks = log ? y.ticks(5).filter((tick) => Number.isInteger(Math.log10(tick))) : y.ticks(5);
  for (const tick of yTicks)
    parts.push(
      `<line x1="${left}" x2="${right}" y1="${y(tick)}" y2="${y(tick)}" stroke="#d8dee4"/>`,
      `<text x="${left - 6}" y="${y(tick) + 4}" text-anchor="end">${format(",~f")(tick)}</text>`,
    );
  for (const tick of [0, 0.5, 1, 1.5])
    parts.push(
      `<text x="${x(tick)}" y="${height - margin.bottom + 18}" text-anchor="middle">${format(".0%")(tick)}</text>`,
    );
  parts.push(
    `<line x1="${x(1)}" x2="${x(1)}" y1="${margin.top}" y2="${height - margin.bottom}" stroke="#57606a" stroke-dasharray="1 3"/>`,
    `<text x="${left}" y="${margin.top - 10}" font-weight="600">${title}</text>`,
    `<text x="${(left + right) / 2}" y="${height - 10}" text-anchor="middle">arrivals, share of saturation</text>`,
  );
  for (const { preset, points } of curves) {
    const path = line<LoadPoint>(
      (point) => x(point.load),
      (point) => y(of(point)),
    )(points);
    parts.push(
      `<path d="${path}" fill="none" stroke="${preset.colour}" stroke-width="2" stroke-dasharray="${preset.dash}"/>`,
    );
  }
});
presets.forEach(({ name, colour, dash }, i) => {
  const x = width - 300 + i * 100;
  parts.push(
    `<line x1="${x}" x2="${x + 26}" y1="20" y2="20" stroke="${colour}" stroke-width="2" stroke-dasharray="${dash}"/>`,
    `<text x="${x + 32}" y="24" fill="${colour}" font-weight="600">${name}</text>`,
  );
});
const title = `Load and latency: ${format(",")(limit)} chat requests, Llama 3.1 8B, one RTX PRO 6000`;
writeFileSync(
  new URL("../docs/load.svg", import.meta.url),
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="13" fill="#24292f" role="img" aria-label="${title}">
<rect width="${width}" height="${height}" fill="#ffffff"/>
<text x="14" y="24" font-size="15" font-weight="600">${title}</text>
${parts.join("\n")}
</svg>
`,
);
for (const { preset, saturation, points } of curves) {
  console.log(`${preset.name}: saturation ${saturation.toFixed(2)} requests/s`);
  for (const { load, requestsPerS, ttftMs, tpotMs, littleError } of points)
    console.log(
      `  ${format(".0%")(load).padStart(5)}  ${requestsPerS.toFixed(2).padStart(6)}/s  TTFT ${ttftMs.toFixed(0).padStart(7)} ms  TPOT ${tpotMs.toFixed(1).padStart(6)} ms  Little ${(100 * littleError).toFixed(3)} %`,
    );
}
console.log("docs/load.svg");
