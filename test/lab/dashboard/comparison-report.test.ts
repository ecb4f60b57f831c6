import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { comparisonReport } from "../../../lab/dashboard/comparison-report.ts";
import type { RunRow } from "../../../viz/api.ts";
import type { ReportedRuns } from "../../../viz/server/reported-runs.ts";
import { kvlab, newFolder, refusal } from "../../cli/program.ts";
import { dashboardOver } from "../../viz/dashboard.ts";

const folder = newFolder();
const read = (name: string) => readFileSync(join(folder, name), "utf8");

beforeAll(async () => {
  const example = ["compare", "example", "--limit", "200"];
  await kvlab(folder, [...example, "--eviction", "lru,fifo", "--blocks", "100,300", "--out", "runs"]);
  const sim = ["--target", "sim", "--preset", "vllm,sglang", "--blocks", "500", "--rate", "2,4"];
  await kvlab(folder, [...example, ...sim, "--slo", "ttft=500ms", "--out", "timed"]);
}, 120_000);

/** The addresses that a document refers to. */
const references = (html: string) =>
  [...html.matchAll(/(?:src|href|action|data)\s*=|url\(|@import|<(?:script|link|img|iframe|object|base|form)/gi)].map(
    String,
  );

test("the document has the figures, a row and the command of each run, and refers to nothing else", async () => {
  const { stdout } = await kvlab(folder, ["dashboard", "runs", "--export", "out.html"]);
  expect(stdout).toBe("out.html: a comparison of 7 runs\n");
  const html = read("out.html");
  expect(references(html)).toEqual([]);
  expect(html.match(/<svg /g)).toHaveLength(1);
  expect(html).toContain("Hit ratio by cache size");
  const { stdout: json } = await kvlab(folder, [
    "replay",
    "example",
    "--limit",
    "200",
    "--blocks",
    "100",
    "--no-save",
    "--json",
  ]);
  const ratio: number = JSON.parse(json).cache.hitRatio.block;
  expect(html).toContain(`<td class="number">${(ratio * 100).toFixed(2)}%</td>`);
  expect(html.match(/<pre>kvlab replay example /g)).toHaveLength(7);
  expect(html).toContain("--eviction fifo --allocator block --scheduler naive --blocks 300");
  expect(html.match(/kvlab 0\.1\.0, saved 20\d\d-\d\d-\d\d \d\d:\d\d UTC/g)).toHaveLength(7);
  expect(html).toMatch(
    /<h2>Settings that differ<\/h2>.*<th scope="col">Run<\/th><th scope="col">eviction<\/th><th scope="col">blocks<\/th>/s,
  );
});

test("runs with a clock have latencies and figures by the offered rate", async () => {
  await kvlab(folder, ["dashboard", "timed", "--export", "timed.html"]);
  const html = read("timed.html");
  expect([...html.matchAll(/font-weight="600">([^<]*)</g)].map(([, title]) => title)).toEqual([
    "TTFT p99 by offered rate, req/s",
    "Goodput, req/s by offered rate, req/s",
    "Hit ratio",
  ]);
  for (const heading of ["Offered, req/s", "Output tokens/s", "TTFT p99", "TPOT p99", "Goodput, req/s"])
    expect(html).toContain(`<th scope="col" class="number">${heading}</th>`);
  expect(html).not.toMatch(/NaN|undefined|Infinity/);
});

test("the same runs give the same document, on the command line and from the server", async () => {
  await kvlab(folder, ["dashboard", "runs", "--export", "again.html"]);
  expect(read("again.html")).toBe(read("out.html"));
  const client = await dashboardOver(join(folder, "runs"));
  const { runs } = await client.get<{ runs: { id: string }[] }>("/api/runs");
  const posted = await client.post({ runs: runs.map(({ id }) => id), metric: "block" }, {}, "/api/report");
  expect(posted.status).toBe(200);
  expect(posted.text).toBe(read("out.html"));
});

test("the search selects the runs by tags, and hidden runs are left out", async () => {
  const client = await dashboardOver(join(folder, "runs"));
  const { runs } = await client.get<{ runs: { id: string }[] }>("/api/runs");
  const [first, second, hidden] = runs.map(({ id }) => id);
  for (const id of [first, second, hidden]) await client.patch(id, { tags: ["paper"], name: `run <${id.slice(-3)}>` });
  await client.patch(hidden, { hidden: true });
  await kvlab(folder, ["dashboard", "runs", "--export", "paper.html", "--search", "tag=paper"]);
  const html = read("paper.html");
  expect(html.match(/<pre>/g)).toHaveLength(2);
  expect(html).toContain(`run &lt;${first.slice(-3)}>`);
  expect(html).not.toContain(hidden);
});

test.each<[string, string[], RegExp]>([
  [
    "no run that is found",
    ["--export", "x.html", "--search", "tag=none"],
    /runs: has no run that --search "tag=none" finds/,
  ],
  ["a search without a file", ["--search", "lru"], /--search: selects the runs of --export/],
  ["a folder as the file", ["--export", "."], /\.: is not a regular file/],
])("an export with %s is refused", async (_, args, message) => {
  expect(await refusal(folder, ["dashboard", "runs", ...args])).toMatch(message);
});

test("a folder without runs is refused, and nothing is written", async () => {
  mkdirSync(join(folder, "none/half"), { recursive: true });
  writeFileSync(join(folder, "none/half/run.json"), "{");
  const message = await refusal(folder, ["dashboard", "none", "--export", "x.html"]);
  expect(message).toContain("none: has no run");
  expect(() => read("x.html")).toThrow("ENOENT");
});

const word = fc.string({ unit: fc.constantFrom(..."a<>&\"'` /="), minLength: 1, maxLength: 12 });
const row = fc.record({
  name: word,
  trace: word,
  eviction: word,
  text: word,
  blocks: fc.option(fc.integer({ min: 1, max: 2 ** 40 })),
  ratio: fc.double({ min: 0, max: 1, noNaN: true }),
  rate: fc.option(fc.double({ min: 1e-3, max: 1e4, noNaN: true })),
});

test("whatever runs are named and contain, the document has their texts and no markup of theirs", () => {
  fc.assert(
    fc.property(fc.array(row, { minLength: 1, maxLength: 12 }), (values) => {
      const rows = values.map(
        ({ name, trace, eviction, text, blocks, ratio, rate }, i): RunRow => ({
          ...{
            id: `run-${i}`,
            savedAtMs: i,
            target: "sim",
            trace,
            requests: 5,
            preset: null,
            index: "hash-table",
            eviction,
          },
          ...{ allocator: "block", scheduler: "fcfs", blocks, blockTokens: 16 },
          capacityTokens: blocks === null ? null : blocks * 16,
          ...{ hitRatio: { token: ratio }, hitTokens: 1, lookupTokens: 2, notes: { name, text } },
          settings: rate === null ? {} : { requestsPerS: rate },
          ...(rate !== null && { requestsPerS: rate, ttftMsP99: 1e4 / rate }),
        }),
      );
      const reported: ReportedRuns = {
        ...{ rows, all: [] },
        commands: new Map(rows.map(({ id, eviction }) => [id, `kvlab replay --eviction '${eviction}'`])),
        versions: new Map(),
      };
      const html = comparisonReport(reported);
      expect(comparisonReport(reported)).toBe(html);
      const known =
        /<\/?(!doctype|html|head|meta|title|style|body|h[123]|p|ul|li|figure|svg|rect|text|line|path|circle|div|table|thead|tbody|tr|th|td|pre)\b[^<>]*>/g;
      expect(html.replace(known, "")).not.toContain("<");
      expect(html).not.toMatch(/NaN|undefined|Infinity/);
    }),
    { numRuns: 200 },
  );
});
