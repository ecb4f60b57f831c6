import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { rowOf, type Trace, type TraceContent } from "../../../core/trace/trace.ts";
import { convertTrace, Interrupted, openTrace } from "../../../index.ts";
import { writeParquetTo } from "../../../traces/parquet/write.ts";
import { anyTrace, sourceOf } from "../../traces/any-trace.ts";
import { failureOf, folder } from "../../traces/files.ts";

const at = (name: string) => join(folder, name);

async function converted(trace: Trace, content: TraceContent, names: readonly string[]): Promise<Trace> {
  await writeParquetTo(at("first.parquet"), sourceOf(trace, content));
  let from = at("first.parquet");
  for (const name of names) {
    const { requests, lost } = await convertTrace(from, { out: at(name), force: true });
    expect([requests, lost]).toEqual([trace.requestCount, []]);
    from = at(name);
  }
  return (await openTrace(from)).trace;
}

test("content ids survive every chain of formats that have them", async () => {
  await fc.assert(
    fc.asyncProperty(
      anyTrace("blocks"),
      fc.array(fc.constantFrom("a.jsonl", "a.jsonl.gz", "a.parquet"), { maxLength: 3 }),
      async (trace, chain) => {
        const names = chain.map((name, i) => `${i}${name}`);
        expect(await converted(trace, "blocks", names)).toEqual(trace);
      },
    ),
    { numRuns: 50 },
  );
});

test("token ids survive every chain of formats that have them", async () => {
  const withOutput = anyTrace("tokens").filter(({ optional }) => optional.generatedKeys !== undefined);
  await fc.assert(
    fc.asyncProperty(
      withOutput,
      fc.array(fc.constantFrom("b.jsonl", "b.jsonl.gz", "b.parquet"), { maxLength: 3 }),
      async (trace, chain) => {
        const names = chain.map((name, i) => `${i}${name}`);
        expect(await converted(trace, "tokens", names)).toEqual(trace);
      },
    ),
    { numRuns: 50 },
  );
});

test("lengths survive a CSV file, with arrivals relative to the first one", async () => {
  await fc.assert(
    fc.asyncProperty(anyTrace("lengths"), fc.constantFrom("c.csv", "c.csv.gz"), async (trace, name) => {
      await writeParquetTo(at("lengths.parquet"), sourceOf(trace, "lengths"));
      await convertTrace(at("lengths.parquet"), { out: at(name), force: true });
      const { trace: read } = await openTrace(at(name));
      expect([read.inputTokens, read.outputTokens]).toEqual([trace.inputTokens, trace.outputTokens]);
      expect(read.arrivalNs).toEqual(trace.arrivalNs.map((ns) => ns - trace.arrivalNs[0]));
      expect(read.lengthsOnly).toBe(true);
    }),
    { numRuns: 50 },
  );
});

const request = (timestamp: number, rest = "") =>
  `{"timestamp": ${timestamp}, "input_length": 1000, "output_length": 3, "hash_ids": [7, ${timestamp}]${rest}}\n`;
writeFileSync(
  at("t.jsonl"),
  request(1) + request(2, ', "session_id": 5') + request(3, ', "session_id": 5, "priority": 2'),
);

test("the columns that the format lacks are listed with the number of requests that have them", async () => {
  const { format, lost, inputTokens, outputTokens } = await convertTrace(at("t.jsonl"), { out: at("t.csv") });
  expect([format, inputTokens, outputTokens]).toEqual(["azure", 3000, 9]);
  expect(lost).toEqual([
    { column: "keys", requests: 3 },
    { column: "session", requests: 2 },
    { column: "priority", requests: 1 },
  ]);
  expect(readFileSync(at("t.csv"), "utf8").split("\n")[1]).toBe("1970-01-01 00:00:00.0010000,1000,3");
});

test("several files are one trace, and a limit ends it", async () => {
  writeFileSync(at("u.jsonl"), request(4));
  const files = [at("t.jsonl"), at("u.jsonl")];
  expect((await convertTrace(files, { out: at("tu.parquet") })).requests).toBe(4);
  expect((await convertTrace(files, { out: at("tu2.parquet"), limit: 2 })).requests).toBe(2);
  const { trace } = await openTrace(at("tu2.parquet"));
  expect(trace.arrivalNs).toEqual(Float64Array.of(1e6, 2e6));
  expect(rowOf(trace, 1).session).toBe(1);
});

test("requests out of order are refused, or sorted with a note; a limit is that of the sorted trace", async () => {
  writeFileSync(at("late.jsonl"), request(3) + request(1) + request(2));
  expect(await failureOf(() => convertTrace(at("late.jsonl"), { out: at("late.parquet") }))).toBe(
    "late.jsonl:2: timestamp is 1, expected at least 3, the time of the previous request; kvlab trace convert --sort writes a sorted trace",
  );
  const notes: string[] = [];
  const note = (text: string) => notes.push(text);
  await convertTrace(at("late.jsonl"), { out: at("late.parquet"), sort: true, note });
  expect(notes).toEqual(["requests out of order are sorted by time: 2 of 3"]);
  expect((await openTrace(at("late.parquet"))).trace.arrivalNs).toEqual(Float64Array.of(1e6, 2e6, 3e6));
  await convertTrace(at("late.jsonl"), { out: at("first.jsonl"), sort: true, limit: 1 });
  expect(readFileSync(at("first.jsonl"), "utf8")).toBe(request(1).replace("[7, 1]", "[0, 1]"));
});

test("content that the format lacks is refused", async () => {
  const failure = (out: string, to?: string) =>
    failureOf(() => convertTrace(at("t.jsonl"), { out: at(out), ...(to !== undefined && { to }) }));
  expect(await failure("x.jsonl", "token-ids")).toBe(
    "the trace has content ids of blocks, but token-ids has token ids; parquet, mooncake and qwen-bailian have content ids",
  );
  expect(await failure("x.txt")).toBe(
    "x.txt: the extension does not select a format (.parquet: parquet, .jsonl: mooncake, .jsonl: token-ids, .csv: azure); --to FORMAT does: parquet, mooncake, token-ids, qwen-bailian, azure",
  );
  expect(await failure("x.parquet.gz")).toBe("x.parquet.gz: Parquet is compressed itself, expected a name without .gz");
  expect(await failure("x.jsonl", "moonckae")).toBe(
    '--to is "moonckae": did you mean "mooncake"?, expected one of parquet, mooncake, token-ids, qwen-bailian, azure',
  );
  expect(readdirSync(folder).filter((name) => name.startsWith("x"))).toEqual([]);
});

test("an existing file, the input under any name, and a device are not replaced", async () => {
  writeFileSync(at("old.parquet"), "old");
  const failure = (out: string, force = true) => failureOf(() => convertTrace(at("t.jsonl"), { out, force }));
  expect(await failure(at("old.parquet"), false)).toBe("old.parquet: already exists; --force replaces it");
  expect(readFileSync(at("old.parquet"), "utf8")).toBe("old");
  symlinkSync(at("t.jsonl"), at("symbolic.jsonl"));
  linkSync(at("t.jsonl"), at("hard.jsonl"));
  for (const name of ["t.jsonl", "symbolic.jsonl", "hard.jsonl"])
    expect(await failure(at(name))).toBe(`${name}: is also the input, expected another file to write to`);
  expect(await failureOf(() => convertTrace(at("t.jsonl"), { out: "/dev/full", to: "parquet", force: true }))).toBe(
    "/dev/full: is not a regular file, so it is not replaced",
  );
  expect(await failure(at("t.jsonl/x.parquet"))).toMatch(/cannot be written, .* is a file/);
});

test("an invalid line, an interruption and a file without requests leave the old file", async () => {
  writeFileSync(at("old.parquet"), "old");
  writeFileSync(at("bad.jsonl"), `${request(1)}{"timestamp": 2}\n`);
  writeFileSync(at("empty.jsonl"), "\n\n");
  const out = at("old.parquet");
  expect(await failureOf(() => convertTrace(at("bad.jsonl"), { out, force: true }))).toMatch(/^bad\.jsonl:2: /);
  expect(await failureOf(() => convertTrace(at("empty.jsonl"), { out, force: true }))).toMatch(/^empty\.jsonl: /);
  const stopping = convertTrace(at("t.jsonl"), { out, force: true, signal: AbortSignal.abort() });
  await expect(stopping).rejects.toThrow(Interrupted);
  expect(readFileSync(out, "utf8")).toBe("old");
  const inNewFolder = at("new/folder/x.parquet");
  expect(await failureOf(() => convertTrace(at("bad.jsonl"), { out: inNewFolder }))).toMatch(/^bad/);
  expect(existsSync(at("new"))).toBe(false);
  expect(readdirSync(folder).filter((name) => name.includes("unfinished"))).toEqual([]);
  mkdirSync(at("new"));
});
