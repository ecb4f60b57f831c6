import { expect, test } from "vitest";
import { readTrace } from "../../core/trace/trace.ts";
import type { TimeUnit } from "../../traces/format.ts";
import { openTrace } from "../../traces/open.ts";
import { failureOf, fileOf, folder } from "./files.ts";

/** Requests at these times in Mooncake's format, whose unit is ms. */
const traceOf = (times: readonly number[]) =>
  fileOf(
    times.map((time) => `{"timestamp": ${time}, "input_length": 9000, "output_length": 1, "hash_ids": [${range(18)}]}`),
    "t.jsonl",
  );
const range = (count: number) => Array.from({ length: count }, (_, i) => i);

async function notesOf(times: readonly number[], timeUnit?: TimeUnit): Promise<string[]> {
  const source = await openTrace([traceOf(times)], timeUnit === undefined ? {} : { timeUnit });
  await readTrace(source, 30);
  return (source.notes?.() ?? []).map((note) => note.replace(`${folder}/`, ""));
}

test("seconds and microseconds instead of milliseconds are noted, also if only the first requests are read", async () => {
  const seconds = range(40).map((i) => i * 0.25);
  expect(await notesOf(seconds)).toEqual([
    "t.jsonl: 4,103 requests a second over 0.00975 s is implausibly high: the times may be in a larger unit; " +
      "--time-unit states it",
  ]);
  expect(await notesOf(seconds, "s")).toEqual([]);
  expect(await notesOf(range(40).map((i) => i * 1e6))).toEqual([
    "t.jsonl: 0.00103 requests a second over 39,000 s is implausibly low: the times may be in a smaller unit; " +
      "--time-unit states it",
  ]);
  expect(await notesOf(range(40).map((i) => i * 250))).toEqual([]);
  // All at once, and too few to say.
  expect(await notesOf(range(40).map(() => 5))).toEqual([]);
  expect(await notesOf([0, 1, 2])).toEqual([]);
});

test("a Unix time in another unit is refused, unless the unit is stated", async () => {
  const times = [1_760_587_752, 1_760_587_753];
  expect(await failureOf(() => notesOf(times))).toBe(
    "t.jsonl:1: timestamp is 1760587752, a Unix time in s, expected ms; --time-unit s reads it so, --time-unit ms as it is",
  );
  const arrivals = async (timeUnit: TimeUnit) =>
    [...(await readTrace(await openTrace([traceOf(times)], { timeUnit }))).arrivalNs].map((time) => time % 1e6);
  expect(await arrivals("s")).toEqual([0, 0]);
  expect(await notesOf(times, "ms")).toEqual([]);
});

test("the rate of WEKA's sessions is noted with the option that this format has", async () => {
  const session = (id: number) =>
    JSON.stringify({
      ...{ id, block_size: 64, scope: "local" },
      requests: [0, 0.001].map((t) => ({ t, in: 64, out: 1, ranges: [[1, 1]] })),
    });
  const path = fileOf(range(20).map(session), "w.jsonl");
  const notes = async (options: object) => {
    const source = await openTrace([path], options);
    await readTrace(source);
    return (source.notes?.() ?? []).map((note) => note.replace(`${folder}/`, ""));
  };
  expect(await notes({})).toEqual([
    "w.jsonl: 20 sessions without start times all start at 0; --session-spread SECONDS starts them at random times",
    "w.jsonl: 40,000 requests a second over 0.00100 s is implausibly high, because all sessions start at 0",
  ]);
  expect(await notes({ sessionSpread: { seconds: 0, seed: 1 } })).toEqual([
    "w.jsonl: 40,000 requests a second over 0.00100 s is implausibly high: the times may be in a larger unit",
  ]);
  expect(await notes({ sessionSpread: { seconds: 100, seed: 1 } })).toEqual([]);
});
