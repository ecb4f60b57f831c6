// The prediction error of the simulator against a recorded run of vLLM: the tables of docs/fidelity.md, as Markdown.
//   npm run -s fidelity [-- TRACE FOLDER]         with the default factors of the roofline
//   npm run -s fidelity -- fit [TRACE FOLDER]     with factors fitted to the first half of the requests
import { resolve } from "node:path";
import { type RecordedRun, readRecordedRun } from "../lab/calibrate/recorded-run.ts";
import { defaultEfficiency, type Efficiency } from "../sim/cost/roofline.ts";
import { compare, otherSimulator, simulateRecorded } from "./recorded-run.ts";

/** The fitted factors and their plausible ranges (see `Efficiency`). The other factors have their defaults. */
const ranges: Partial<Record<keyof Efficiency, readonly [low: number, high: number]>> = {
  memory: [0.7, 0.95],
  matrices: [0.5, 0.9],
};
type Factors = Record<string, number>;

/** Root mean square error of the times of first and last tokens of the fitted requests, ms. */
function errorOf(run: RecordedRun, factors: Factors): number {
  const { ttftMs, latencyMs } = simulateRecorded(run, factors);
  const half = run.trace.requestCount / 2;
  let sum = 0;
  for (let row = 0; row < half; row++)
    sum += (ttftMs[row] - run.times.ttftMs[row]) ** 2 + (latencyMs[row] - run.times.latencyMs[row]) ** 2;
  return Math.sqrt(sum / half / 2);
}

const rounded = (value: number) => Math.round(value * 1000) / 1000;

/** Pattern search: starts in the middle of the ranges, moves to a better neighbour, and halves the stride if there is none. */
function fitted(run: RecordedRun): Factors {
  const names = Object.keys(ranges);
  const limits = Object.values(ranges);
  let best = limits.map(([low, high]) => rounded((low + high) / 2));
  const errorAt = (point: readonly number[]) => errorOf(run, named(names, point));
  let error = errorAt(best);
  for (let stride = 1 / 8; stride >= 1 / 256; ) {
    const [from, before] = [best, error];
    for (const direction of directions(names.length)) {
      const point = direction.map((sign, i) => {
        const [low, high] = limits[i];
        return rounded(Math.min(high, Math.max(low, from[i] + sign * stride * (high - low))));
      });
      const found = errorAt(point);
      if (found < error) [best, error] = [point, found];
    }
    console.error(`${error.toFixed(1)} ms error with ${JSON.stringify(named(names, best))}`);
    if (error === before) stride /= 2;
  }
  return named(names, best);
}

const named = (names: readonly string[], point: readonly number[]): Factors =>
  Object.fromEntries(names.map((name, i) => [name, point[i]]));

/** All lists of `count` values of −1, 0 and 1. */
const directions = (count: number): number[][] =>
  count === 0 ? [[]] : directions(count - 1).flatMap((rest) => [-1, 0, 1].map((sign) => [sign, ...rest]));

const folder = resolve(process.env["KVLAB_TRACES"] ?? "../shared/traces", "sharegpt");
const given = process.argv.slice(2);
const fits = given[0] === "fit";
const [tracePath, runFolder] = fits ? given.slice(1) : given;
const recorded = runFolder ?? `${folder}/vllm-0.19-rtxpro6000-llama-3.1-8b`;
const run = await readRecordedRun(tracePath ?? `${folder}/sharegpt-llama-3.1-8b-300-sps10.jsonl.gz`, recorded);
const others = otherSimulator(recorded);
const factors = fits ? fitted(run) : {};
const simulated = simulateRecorded(run, factors);
const half = run.trace.requestCount / 2;
const parts = [
  [0, half],
  [half, run.trace.requestCount],
  [0, run.trace.requestCount],
] as const;

const row = (cells: readonly string[]) => console.log(`| ${cells.join(" | ")} |`);
const percent = (share: number) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)} %`;
const tables = parts.map(([from, to]) => compare(run.times, simulated, from, to));
console.log(`Factors: ${JSON.stringify({ ...defaultEfficiency, ...factors })}\n`);
row(["", ...parts.flatMap(([from, to]) => [`vLLM, ${from}–${to - 1}, ms`, "kvlab", ""]), "LLMServingSim"]);
row(["---", ...parts.flatMap(() => ["---:", "---:", "---:"]), "---:"]);
tables[0].forEach(({ name }, i) => {
  const cells = tables.flatMap((table) => {
    const { recordedMs, simulatedMs, difference } = table[i];
    return [recordedMs.toFixed(1), simulatedMs.toFixed(1), percent(difference)];
  });
  const other = others.get(name);
  row([name, ...cells, other === undefined ? "" : percent(other)]);
});
