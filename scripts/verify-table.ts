// The tables of docs/verify.md: whether engine and simulator make the same decisions, for every combination and workload.
//   npm run -s verify:table [-- PRESET…]
// Results are saved in runs/verify-table.jsonl and not computed again; delete the file to start over.
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { readTrace } from "../core/trace/trace.ts";
import { presetRegistry } from "../policies/registry.ts";
import { openTrace } from "../traces/open.ts";
import { shortened } from "../traces/shorten.ts";
import {
  type Combination,
  combinations,
  evictions,
  generated,
  type Refused,
  sameAs,
  schedulers,
  type Verified,
  verifyOne,
  type Workload,
} from "./verify-matrix.ts";

const resultsFile = "runs/verify-table.jsonl";
const page = "docs/verify.md";
const marker = "<!-- from here on written by npm run -s verify:table -->";

const file = resolve(process.env["KVLAB_TRACES"] ?? "../shared/traces", "mooncake/conversation_trace.jsonl.gz");

async function conversation(): Promise<Workload> {
  const requests = 300;
  const trace = shortened(await readTrace(await openTrace([file]), requests), 128);
  const contents = new Set(trace.keys).size;
  return {
    name: "conversation",
    about: `the first ${requests} requests of Mooncake's conversation trace, all lengths divided by 128 (contents of 512 tokens have 4), 50 times as fast as recorded, a tenth of its contents fit`,
    trace,
    tokens: Math.round(contents / 10) * trace.unitTokens,
    blockTokens: trace.unitTokens,
    speed: 50,
  };
}

type Result = Verified | Refused;

const keyOf = (workload: string, { preset, eviction, scheduler }: Combination) =>
  [workload, preset.name, eviction, scheduler].join(" ");

function kept(): Map<string, Result> {
  const lines = existsSync(resultsFile) ? readFileSync(resultsFile, "utf8").trim().split("\n") : [];
  return new Map(lines.map((line) => JSON.parse(line) as [string, Result]));
}

async function runAll(workloads: readonly Workload[], presets: readonly string[]): Promise<Map<string, Result>> {
  const results = kept();
  mkdirSync("runs", { recursive: true });
  for (const combination of combinations()) {
    if (sameAs(combination) || !presets.includes(combination.preset.name)) continue;
    for (const workload of workloads) {
      const key = keyOf(workload.name, combination);
      if (results.has(key)) continue;
      const result = await verifyOne(workload, combination);
      results.set(key, result);
      appendFileSync(resultsFile, `${JSON.stringify([key, result])}\n`);
      if (process.stderr.isTTY) process.stderr.write(`${key}\n`);
    }
  }
  return results;
}

const row = (cells: readonly (string | number)[]) => `| ${cells.join(" | ")} |`;
const grouped = (count: number) => count.toLocaleString("en-US");
const decided = (result: Verified) => Object.values(result.counts).reduce((sum, count) => sum + count, 0);
const isVerified = (result: Result | undefined): result is Verified => result !== undefined && "counts" in result;
const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

function workloadTable(workloads: readonly Workload[], results: ReadonlyMap<string, Result>): string[] {
  return [
    row([
      "workload",
      "requests",
      "runs",
      "decisions",
      "steps",
      "hits",
      "evictions",
      "preemptions",
      "copies",
      "different",
    ]),
    row(["---", ...Array<string>(9).fill("---:")]),
    ...workloads.map(({ name, trace }) => {
      const all = [...results].flatMap(([key, result]) => (key.startsWith(`${name} `) ? [result] : []));
      const runs = all.filter(isVerified);
      const count = (kind: keyof Verified["counts"]) => grouped(sum(runs.map(({ counts }) => counts[kind])));
      return row([
        ...[
          name,
          trace.requestCount,
          runs.length,
          grouped(sum(runs.map(decided))),
          grouped(sum(runs.map(({ steps }) => steps))),
        ],
        ...[count("hit"), count("evict"), count("preempt"), count("copy")],
        runs.filter(({ divergence }) => divergence).length,
      ]);
    }),
  ];
}

/** The number of decisions over all workloads, the workloads that differ, or the reason of a refusal. */
function cell(combination: Combination, workloads: readonly Workload[], results: ReadonlyMap<string, Result>): string {
  const same = sameAs(combination);
  if (same) {
    const { eviction, scheduler } = same;
    return `same as ${[eviction !== combination.eviction ? eviction : [], scheduler !== combination.scheduler ? scheduler : []].flat().join(", ")}`;
  }
  const all = workloads.map(({ name }) => ({ name, result: results.get(keyOf(name, combination)) }));
  const refused = all.find(({ result }) => result && "refused" in result);
  if (refused) return `refused: ${(refused.result as Refused).refused}`;
  const different = all.filter(({ result }) => isVerified(result) && result.divergence).map(({ name }) => name);
  if (different.length > 0) return `**different**: ${different.join(", ")}`;
  return grouped(sum(all.flatMap(({ result }) => (isVerified(result) ? [decided(result)] : []))));
}

function combinationTable(workloads: readonly Workload[], results: ReadonlyMap<string, Result>): string[] {
  return [
    row(["preset", "eviction", ...schedulers.map((name) => (name === "own" ? "its own scheduler" : `\`${name}\``))]),
    row(["---", "---", ...schedulers.map(() => "---:")]),
    ...presetRegistry.all.flatMap((preset) =>
      evictions.map((eviction) => {
        const name = eviction === "own" ? `its own (\`${preset.eviction.name}\`)` : `\`${eviction}\``;
        const cells = schedulers.map((scheduler) => cell({ preset, eviction, scheduler }, workloads, results));
        return row([`\`${preset.name}\``, name, ...cells]);
      }),
    ),
  ];
}

const names = process.argv.slice(2);
const workloads = [...(await generated(60)), await conversation()];
const results = await runAll(workloads, names.length > 0 ? names : presetRegistry.all.map(({ name }) => name));
const runs = [...results.values()].filter(isVerified);
const different = runs.filter(({ divergence }) => divergence).length;
const text = [
  `${grouped(runs.length)} runs, ${grouped(sum(runs.map(decided)))} decisions in ${grouped(sum(runs.map(({ steps }) => steps)))} steps; **${different} runs differ**.`,
  "",
  ...workloads.map(({ name, about, tokens }) => `- \`${name}\`: ${about}; a cache of ${grouped(tokens)} tokens.`),
  "",
  ...workloadTable(workloads, results),
  "",
  "Number of decisions in all four workloads, identical in engine and simulator unless marked as different:",
  "",
  ...combinationTable(workloads, results),
  "",
].join("\n");
const [before] = readFileSync(page, "utf8").split(marker);
writeFileSync(page, `${before}${marker}\n\n${text}`);
if (different > 0) process.exitCode = 1;
