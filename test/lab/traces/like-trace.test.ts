import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { generateTrace } from "../../../lab/traces/generate-trace.ts";
import { likeTrace } from "../../../lab/traces/like-trace.ts";
import { hasRecordedTraces, recordedTracePath } from "../../support/recordings.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-like-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("a trace like generated chat has its sessions, lengths and sharing, and the report states how far they differ", async () => {
  const chat = join(folder, "chat.jsonl");
  await generateTrace({ out: chat, requests: 2000 });
  const likeness = await likeTrace(chat, { out: join(folder, "like.jsonl") });
  expect(likeness.requests).toBe(2000);
  expect(likeness.inputLengthDistance).toBeLessThan(0.05);
  expect(likeness.outputLengthDistance).toBeLessThan(0.05);
  const unlimited = likeness.hitRatios!.at(-1)!;
  expect(Math.abs(unlimited.trace - unlimited.generated)).toBeLessThan(0.02);
  expect(likeness.hitRatioDifferenceMax).toBeLessThan(0.05);
  const { sessionTurns, inputLength, arrivalGapS, reuseDistanceBlocks } = likeness;
  for (const compared of [sessionTurns!, inputLength, arrivalGapS, reuseDistanceBlocks!])
    expect(compared.generated!.p50 / compared.trace!.p50).toBeCloseTo(1, 0);
  expect(likeness.arrivalGapDistance).toBeLessThan(0.05);
  const differences = likeness.hitRatios!.map((at) => Math.abs(at.trace - at.generated));
  expect(likeness.hitRatioDifferenceMax).toBe(Math.max(...differences));
});

test.runIf(hasRecordedTraces)(
  "a trace like the conversation trace: lengths within 0.05 and hit ratios within 0.02",
  async () => {
    const trace = recordedTracePath("mooncake/conversation_trace.jsonl.gz");
    const likeness = await likeTrace(trace, { out: join(folder, "mooncake.jsonl") });
    expect(likeness.inputLengthDistance).toBeLessThan(0.05);
    expect(likeness.outputLengthDistance).toBeLessThan(0.05);
    expect(likeness.hitRatioDifferenceMax).toBeLessThan(0.02);
  },
);

test("sessions of a trace without sessions are inferred, and are written with their parents", async () => {
  const turns = (keys: number[], at: number) =>
    `{"timestamp": ${at}, "input_length": ${16 * keys.length}, "output_length": 5, "hash_ids": [${keys}], "block_size": 16}\n`;
  // Conversations of two turns, five seconds apart; each second a new one that begins with block 0.
  const requests = Array.from({ length: 40 }, (_, i) => [
    { at: 1000 * i, keys: [0, 100 + i] },
    { at: 1000 * i + 5500, keys: [0, 100 + i, 200 + i] },
  ]).flat();
  const file = join(folder, "turns.jsonl");
  writeFileSync(
    file,
    requests
      .sort((a, b) => a.at - b.at)
      .map(({ at, keys }) => turns(keys, at))
      .join(""),
  );
  const out = join(folder, "turns-like.jsonl");
  const { sessionTurns, hitRatioDifferenceMax } = await likeTrace(file, { out });
  expect(sessionTurns).toMatchObject({ trace: null, generated: { p50: 2, max: 2 } });
  expect(hitRatioDifferenceMax).toBeLessThan(0.05);
  const generated = readFileSync(out, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  const second = generated.filter(({ parent = -1 }) => parent >= 0);
  expect(second).toHaveLength(40);
  for (const { parent, session_id, timestamp, hash_ids } of second) {
    expect(generated[parent]).toMatchObject({ session_id, timestamp: timestamp - 5500 });
    expect(hash_ids.slice(0, 2)).toEqual(generated[parent].hash_ids);
  }
});

test("a trace of lengths gets the sharing of a generator, which the report names", async () => {
  const lengths = join(folder, "azure.csv");
  const rows = Array.from({ length: 50 }, (_, i) => `2023-11-16 18:00:${10 + i}.0000000,${100 + i},${i + 1}`);
  writeFileSync(lengths, `TIMESTAMP,ContextTokens,GeneratedTokens\n${rows.join("\n")}\n`);
  const likeness = await likeTrace(lengths, { out: join(folder, "azure.jsonl"), requests: 200, sharing: "few-shot" });
  expect(likeness).toMatchObject({ requests: 200, sharing: "few-shot", hitRatios: null, hitRatioDifferenceMax: null });
});
