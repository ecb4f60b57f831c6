import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { generateTrace } from "../../../lab/traces/generate-trace.ts";
import { likeTrace } from "../../../lab/traces/like-trace.ts";
import { hasRecordedTraces, recordedTracePath } from "../../support/recordings.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-like-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("a trace like generated chat has its lengths and its sharing, and the report states how far hit ratios differ", async () => {
  const chat = join(folder, "chat.jsonl");
  await generateTrace({ out: chat, requests: 2000 });
  const likeness = await likeTrace(chat, { out: join(folder, "like.jsonl") });
  expect(likeness.requests).toBe(2000);
  expect(likeness.inputLengthDistance).toBeLessThan(0.05);
  expect(likeness.outputLengthDistance).toBeLessThan(0.05);
  const unlimited = likeness.hitRatios!.at(-1)!;
  expect(Math.abs(unlimited.trace - unlimited.generated)).toBeLessThan(0.02);
  const differences = likeness.hitRatios!.map((at) => Math.abs(at.trace - at.generated));
  expect(likeness.hitRatioDifferenceMax).toBe(Math.max(...differences));
});

test.runIf(hasRecordedTraces)("a trace like the conversation trace: lengths and hit ratios within 0.05", async () => {
  const trace = recordedTracePath("mooncake/conversation_trace.jsonl.gz");
  const likeness = await likeTrace(trace, { out: join(folder, "mooncake.jsonl") });
  expect(likeness.inputLengthDistance).toBeLessThan(0.05);
  expect(likeness.outputLengthDistance).toBeLessThan(0.05);
  expect(likeness.hitRatioDifferenceMax).toBeLessThan(0.05);
});

test("a trace of lengths gets the sharing of a generator, which the report names", async () => {
  const lengths = join(folder, "azure.csv");
  const rows = Array.from({ length: 50 }, (_, i) => `2023-11-16 18:00:${10 + i}.0000000,${100 + i},${i + 1}`);
  writeFileSync(lengths, `TIMESTAMP,ContextTokens,GeneratedTokens\n${rows.join("\n")}\n`);
  const likeness = await likeTrace(lengths, { out: join(folder, "azure.jsonl"), requests: 200, sharing: "few-shot" });
  expect(likeness).toMatchObject({ requests: 200, sharing: "few-shot", hitRatios: null, hitRatioDifferenceMax: null });
});
