import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openTrace } from "../../../lab/input.ts";
import { likeTrace } from "../../../lab/traces/like-trace.ts";
import { traceStats } from "../../../lab/traces/trace-stats.ts";
import { fileOf, folder } from "../../traces/files.ts";

/** More requests than a batch has; the last ones have namespaces, and repeat prompts of the first ones. */
const line = (i: number, late: object) =>
  JSON.stringify({
    ...{ timestamp: i * 50, input_length: 1024, output_length: 5 },
    ...{ hash_ids: [i % 70, 100 + (i % 700)], ...(i > 9000 && late) },
  });
const trace = (late: object) => fileOf(Array.from({ length: 9300 }, (_, i) => line(i, late)));

const file = trace({ cache_salt: "a" });

test("statistics of a trace whose namespaces begin after its first batch are those of the trace in memory", async () => {
  const { report } = await traceStats(file);
  expect(report).toEqual((await traceStats(await openTrace(file))).report);
  // The contents of the namespace are others.
  const plain = await traceStats(trace({}));
  expect(report.content!.distinctBlocks).toBe(plain.report.content!.distinctBlocks + 70 + 299);
});

test("a trace like one whose namespaces begin after its first batch is written", async () => {
  const out = join(folder, "like.jsonl");
  const { requests } = await likeTrace(file, { out, requests: 50 });
  expect(requests).toBe(50);
  expect(existsSync(out) && readFileSync(out, "utf8").trimEnd().split("\n")).toHaveLength(50);
});
