import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { asyncBufferFromFile, parquetReadObjects } from "hyparquet";
import { afterAll, expect, test } from "vitest";
import { explanationTexts } from "../../../cli/output/explanation.ts";
import { residencyText } from "../../../cli/output/residency.ts";
import type { RunReport } from "../../../lab/output/report.ts";
import { replay, runTrace, simulate } from "../../../lab/run/run-trace.ts";
import { letterTrace } from "../../support/letters.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-explain-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Prompts over a few letters, of which later ones repeat the beginnings of earlier ones. */
const prompts = Array.from({ length: 60 }, (_, i) => {
  const first = "ABCDE"[i % 5];
  return first + "FGHIJ".slice(0, (i * 7) % 5) + String.fromCharCode(97 + (i % 13));
});
const noTrace = { name: "letters", files: [], format: "content-ids", inputTokens: 0, outputTokens: 0 };
const input = (own = prompts) => {
  const trace = letterTrace(own, { outputTokens: 20 });
  return { ...noTrace, trace: { ...trace, arrivalNs: trace.arrivalNs.map((at) => at * 2e6) } };
};

const total = (numbers: Iterable<number>) => [...numbers].reduce((sum, each) => sum + each, 0);

function expectTotals({ cache, explain, residency }: RunReport): void {
  expect(total(Object.values(explain!.missedTokens))).toBe(cache.missTokens.evicted);
  expect(residency!.ageAtMiss.count + residency!.notStoredTokens).toBe(cache.missTokens.evicted);
  expect(residency!.ageAtHit.count).toBe(cache.hitBlocks);
  expect(residency!.ageAtEviction.count).toBe(cache.evictedBlocks);
  expect(explain!.evictions.blocks).toBe(cache.evictedBlocks);
  expect(cache.evictedBlocks).toBeGreaterThan(0);
}

const explains = { explainTop: 3, residency: true, blocks: { blocks: 12 } };

test.each([
  ["one replica with a warm-up", { warmup: 20 }],
  ["three replicas with a warm-up", { replicas: 3, warmup: 20 }],
  [
    "separate replicas for prefill and decode",
    { prefillReplicas: 2, decodeReplicas: 1, kvLink: { bytesPerS: 5e10, latencyNs: 1e4 } },
  ],
  ["output tokens in the cache", { preset: "sglang" }],
])("simulated, totals equal the report: %s", async (_name, options) => {
  const { report } = await simulate(input(), { ...explains, ...options });
  expectTotals(report);
  for (const { runs, hitTokens, inputTokens } of report.explain!.requests) {
    expect(total(runs.map(({ from, to }) => to - from))).toBe(inputTokens);
    expect(total(runs.map(({ reason, from, to }) => (reason === "hit" ? to - from : 0)))).toBe(hitTokens);
  }
});

test("without a clock and with a warm-up, operations of an operator are causes of their own", async () => {
  const operations = join(folder, "operations.jsonl");
  writeFileSync(
    operations,
    `{"before": 30, "operation": "delete", "like": 29}\n{"before": 40, "operation": "reset"}\n{"before": 45, "operation": "evict", "blocks": 3}\n`,
  );
  const { report } = await replay(input(), { ...explains, operations, warmup: 10, blocks: { blocks: 30 } });
  expectTotals(report);
  expect(report.residency!.removedBlocks.operator).toBeGreaterThan(3);
  expect(report.explain!.missedTokens.operator).toBeGreaterThan(0);
});

test("on an engine, explanations are in real time", async () => {
  const options = { ...explains, target: "cpu", model: "random:tiny" } as const;
  const { report } = await runTrace(input(prompts.slice(0, 12)), { ...options, blocks: { blocks: 8 } });
  expectTotals(report);
  expect(report.explain!.ageUnit).toBe("ns");
  expect(report.explain!.requests.every(({ runs }) => runs.every((run) => run.recomputeMs === undefined))).toBe(true);
});

test("an interrupted run on an engine is saved, and a request that was not admitted is explained as such", async () => {
  const controller = new AbortController();
  const at = join(folder, "interrupted");
  const { report, directory } = await runTrace(input(), {
    ...{ target: "cpu", model: "random:tiny", scheduler: "naive", blocks: { blocks: 12 } },
    ...{ explain: [0, 59], save: { as: at }, signal: controller.signal },
    progress: ({ doing, done }) => void (doing === "serving" && done > 0 && controller.abort()),
  });
  const { requests } = report.explain!;
  expect(report.interrupted!.requestsDone).toBeGreaterThan(0);
  expect(requests.map(({ request, notAdmitted }) => [request, notAdmitted])).toEqual([
    [0, undefined],
    [59, "interrupted"],
  ]);
  expect(requests[1].replica).toBeNull();
  expect(explanationTexts(report.explain!, report.cache.missTokens.evicted).at(-1)).toBe(
    "Request 59 was not admitted before the run was interrupted",
  );
  expect(directory).toBe(at);
  expect(existsSync(join(at, "run.json"))).toBe(true);
});

test("the histograms are saved as a table, and the event log only if it is wanted", async () => {
  const at = join(folder, "run");
  const { report } = await replay(input(), { ...explains, save: { as: at } });
  const rows = await parquetReadObjects({ file: await asyncBufferFromFile(join(at, "residency.parquet")) });
  const hits = rows.filter(({ histogram }) => histogram === "ageAtHit");
  expect(hits.map(({ unit }) => unit).every((unit) => unit === "requests")).toBe(true);
  expect(
    hits.map(({ from, below, count }) => ({ from: Number(from), below: Number(below), count: Number(count) })),
  ).toEqual(report.residency!.ageAtHit.bins);
  expect(existsSync(join(at, "events.parquet"))).toBe(false);
});

test("without an index nothing is stored, and the texts say so", async () => {
  const { report } = await replay(input(["AB", "AB"]), {
    index: "none",
    blocks: { blocks: 4 },
    explain: [1],
    residency: true,
  });
  const { evicted } = report.cache.missTokens;
  expect(report.explain!.missedTokens.notStored).toBe(evicted);
  expect(residencyText(report.residency!)).toBe("No block was stored.");
  expect(explanationTexts(report.explain!, evicted).join("\n")).toContain(
    "32  100 %  computed before, not stored since",
  );
});

test("the texts of explanations", async () => {
  const small = { ...noTrace, trace: letterTrace(["AB", "C", "D", "AX"]) };
  const { report } = await replay(small, { blocks: { blocks: 2 }, explainTop: 1, residency: true });
  const texts = [
    residencyText(report.residency!),
    ...explanationTexts(report.explain!, report.cache.missTokens.evicted),
  ];
  expect(texts.join("\n\n")).toMatchInlineSnapshot(`
    "Residency of blocks; ages are requests since the last use
                            count  p10  p50  p90  p99  max
      age at eviction           4    1    1    2    2    2
      lifetime                  4    1    1    2    2    2
      hits per block            6    0    0    0    0    0
      age at miss (tokens)     16    1    1    1    1    1

      age  hits                      evictions
        1                                 50 %  ██████████████████
      2–4                                 50 %  ██████████████████

    Why 16 tokens missed that had been computed before
      16  100 %  the block had been evicted
      Of 4 evicted blocks, 3 (75 %) had the furthest next use of all evictable
      blocks. The next lookup of 1 block missed because of an eviction, at a cost of
      16 tokens; at the evictions of 16 (100 %) of these tokens, another evictable
      block was never used again.

    Costliest evictions
         missed  first by  evicted for  blocks  right victim
      16 tokens         3            2  1 of 1  of request 1, never used again

    Request 3: 0 of 32 prompt tokens hit
      tokens  count  why         for request       ago  last used by      idle
        0–15     16  evicted               2  1 (1 ns)             0  2 (2 ns)
       16–31     16  never-seen
      Right victim: a block of request 1, never used again (16 tokens).
      Longest prefix shared with an earlier request: 16 tokens, request 0; the
        prompts diverge there."
  `);
});
