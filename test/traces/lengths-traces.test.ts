import { expect, test } from "vitest";
import { BlockKeys } from "../../core/trace/content.ts";
import { readTrace, type Trace } from "../../core/trace/trace.ts";
import { azure } from "../../traces/azure.ts";
import { burstgpt } from "../../traces/burstgpt.ts";
import { openTrace } from "../../traces/open.ts";
import { failureOf, fileOf, haveRecordings, recording } from "./files.ts";

const azureLines = [
  "TIMESTAMP,ContextTokens,GeneratedTokens",
  "2023-11-16 18:15:46.6805900,374,44",
  "2023-11-16 18:15:50.9951690,396,0",
];
const readAzure = (lines: readonly string[] | string) => readTrace(azure.open([fileOf(lines, "a.csv")], {}));
const azureFailure = (...rows: string[]) => failureOf(() => readAzure([...azureLines, ...rows]));

test("arrivals of Azure's traces have nanoseconds from the first request", async () => {
  const trace = await readAzure(azureLines);
  expect(trace.lengthsOnly).toBe(true);
  expect([...trace.arrivalNs]).toEqual([0, 4_314_579_000]);
  expect([...trace.inputTokens]).toEqual([374, 396]);
  expect([...trace.outputTokens]).toEqual([44, 0]);
  expect([trace.keys.length, trace.distinctKeys, ...trace.keyStart]).toEqual([0, 0, 0, 0, 0]);
});

test("dates may have a time zone, quotes, and lines that end as on Windows", async () => {
  const trace = await readAzure(
    "\uFEFFTIMESTAMP,ContextTokens,GeneratedTokens\r\n" +
      '2024-02-29 23:59:59.500000+00:00,1,2\r\n"2024-03-01T01:00:00Z" , "3",4\r\n2024-02-29 23:00:00-03:00,1,1',
  );
  expect([...trace.arrivalNs]).toEqual([0, 3600.5e9, 7200.5e9]);
  expect([...trace.inputTokens]).toEqual([1, 3, 1]);
});

test("columns may be in any order and others are ignored", async () => {
  const trace = await readAzure(["x,GeneratedTokens,TIMESTAMP,ContextTokens", '"a,""b",5,2024-01-01 00:00:00,7']);
  expect([...trace.inputTokens, ...trace.outputTokens]).toEqual([7, 5]);
});

test("an invalid line of a CSV file is reported with the cell", async () => {
  const date = "a date and time, such as 2023-11-16 18:15:46.6805900";
  expect(await azureFailure("2023-02-30 18:15:46,1,1")).toBe(
    `a.csv:4: TIMESTAMP is "2023-02-30 18:15:46", expected ${date}`,
  );
  expect(await azureFailure("1700158546,1,1")).toBe(`a.csv:4: TIMESTAMP is "1700158546", expected ${date}`);
  expect(await azureFailure("2023-11-16 18:16:00,0,1")).toBe(
    'a.csv:4: ContextTokens is "0", expected an integer from 1 to 2147483647',
  );
  expect(await azureFailure("2023-11-16 18:16:00,1.5,1")).toContain('ContextTokens is "1.5", expected');
  expect(await azureFailure("2023-11-16 18:16:00,1")).toBe(
    "a.csv:4: the line has 2 columns, expected 3 as in the first line",
  );
  expect(await azureFailure("2023-11-16 18:16:00,1,1,1")).toContain("the line has 4 columns, expected 3");
  expect(await azureFailure('2023-11-16 18:16:00,"1,1')).toBe(
    "a.csv:4: column 2 has a quote that does not end on the line",
  );
  expect(await azureFailure("2023-11-16 18:15:50,1,1")).toBe(
    "a.csv:4: TIMESTAMP is 2023-11-16 18:15:50.000000000 UTC, expected at least 2023-11-16 18:15:50.995169000 UTC, " +
      "the time of the previous request; kvlab trace convert --sort writes a sorted trace",
  );
  expect(await failureOf(() => readAzure(`${azureLines.join("\n")}\n2023-11-16 18:16:00,1`))).toContain(
    "the last line has no line end: it may be cut short",
  );
  expect(await failureOf(() => readAzure(azureLines.slice(0, 1)))).toBe("a.csv: no requests, only a header");
  expect(await failureOf(() => readAzure(["TIMESTAMP,ContextTokens", "x,1"]))).toBe(
    "a.csv:1: the column GeneratedTokens is missing, expected an integer from 0 to 2147483647; " +
      "the columns are TIMESTAMP, ContextTokens",
  );
});

test.runIf(haveRecordings)("Azure's published trace has its totals", async () => {
  const source = await openTrace([recording("azure/AzureLLMInferenceTrace_conv.csv.gz")]);
  const trace = await readTrace(source);
  const sum = (column: Uint32Array) => column.reduce((total, value) => total + value, 0);
  expect([source.format, source.content, source.notes?.()]).toEqual(["azure", "lengths", undefined]);
  expect([trace.requestCount, sum(trace.inputTokens), sum(trace.outputTokens)]).toEqual([
    19_366, 22_361_870, 4_088_665,
  ]);
  expect(trace.arrivalNs[19_365]).toBe(3_501_721_937_000);
});

const burstLines = [
  "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
  "5,ChatGPT,472,18,490,Conversation log",
  '45.25,"GPT-4",1087,0,1087,API log',
  "45.25,ChatGPT,0,0,0,API log",
  "118,ChatGPT,417,276,690,Conversation log",
];

test("BurstGPT's failed requests have no output, and lines without a prompt are left out, both with a note", async () => {
  const source = burstgpt.open([fileOf(burstLines, "b.csv")], {});
  const trace: Trace = await readTrace(source);
  expect([...trace.arrivalNs]).toEqual([5e9, 45.25e9, 118e9]);
  expect([...trace.inputTokens]).toEqual([472, 1087, 417]);
  expect([...trace.outputTokens]).toEqual([18, 0, 276]);
  expect([...trace.optional.category!]).toEqual([1, 2, 1]);
  expect(source.notes?.().map((note) => note.replace(/^.*b\.csv: /, ""))).toEqual([
    "1 request without response tokens (failed) are read without output",
    "1 line without request tokens are left out",
    "1 line have other Total tokens than request and response tokens",
  ]);
});

test("BurstGPT's times may have another unit, and sessions", async () => {
  const lines = [
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type",
    "1000,7,3.2,ChatGPT,10,5,15,API log",
    "2000,8,3.2,ChatGPT,10,5,15,API log",
    "2500,7,3.2,ChatGPT,10,5,15,API log",
  ];
  const trace = await readTrace(await openTrace([fileOf(lines)], { timeUnit: "ms" }));
  expect([...trace.arrivalNs]).toEqual([1e9, 2e9, 2.5e9]);
  expect([...trace.optional.session!]).toEqual([1, 2, 1]);
});

test("every block of a trace of lengths is new content, at any block size", () => {
  const trace = (inputTokens: number[]): Trace => ({
    ...{ unitTokens: 1, requestCount: inputTokens.length, lengthsOnly: true, distinctKeys: 0, optional: {} },
    arrivalNs: new Float64Array(inputTokens.length),
    inputTokens: Uint32Array.from(inputTokens),
    outputTokens: new Uint32Array(inputTokens.length),
    maxOutputTokens: new Uint32Array(inputTokens.length),
    keys: new Uint32Array(0),
    keyStart: new Float64Array(inputTokens.length + 1),
  });
  const keys = new BlockKeys({ unitTokens: 1, blockTokens: 16 });
  const first = keys.of(trace([40, 10]));
  expect([[...first.keys], [...first.promptBlocks], first.distinct]).toEqual([[0, 1], [2, 0], 2]);
  const second = keys.of(trace([48]));
  expect([[...second.keys], [...second.start], second.distinct]).toEqual([[2, 3, 4], [0, 3], 5]);
});
