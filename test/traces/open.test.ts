import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { readTrace } from "../../core/trace/trace.ts";
import { openTrace, traceFormats } from "../../traces/open.ts";
import { sampleOf } from "../../traces/sample.ts";
import { failureOf, fileOf, folder } from "./files.ts";

const mooncake = '{"timestamp": 0, "input_length": 30, "output_length": 5, "hash_ids": [7, 9]}';
const tokenIds =
  '{"input_toks": 2, "output_toks": 1, "arrival_time_ns": 0, "input_tok_ids": [7, 9], "output_tok_ids": [1]}';

test("a format is detected by the fields of the first line, also if one is missing", async () => {
  expect((await openTrace([fileOf([mooncake])])).format).toBe("mooncake");
  expect((await openTrace([fileOf(["", tokenIds])])).format).toBe("token-ids");
  const source = await openTrace([fileOf([mooncake.replace("hash_ids", "hashes")], "t.jsonl")]);
  expect(await failureOf(() => readTrace(source))).toBe(
    "t.jsonl:1: hash_ids is missing, expected an array of integers from 0 to 18446744073709551615",
  );
});

test("options reach the reader", async () => {
  const source = await openTrace([fileOf([mooncake])], { format: "mooncake", unitTokens: 24 });
  expect((await readTrace(source)).unitTokens).toBe(24);
  expect(await failureOf(() => openTrace([fileOf([tokenIds])], { unitTokens: 16 }))).toBe(
    "unit tokens is 16, expected 1: the keys of a token-ids trace are tokens",
  );
});

test("an unknown format is refused with the fields that formats of its syntax need, and those that are missing", async () => {
  const open = (line: string) => failureOf(() => openTrace([fileOf([line], "t")]));
  const object = await open('{"question": {"x": [1, "}"]}, "timestamp": 1}');
  expect(object).toMatch(/^t: unknown format: JSON Lines with the fields question, timestamp; aibrix needs /);
  expect(object).toContain(
    "mooncake needs timestamp, input_length, output_length, hash_ids (missing: input_length, output_length, hash_ids)",
  );
  expect(object).not.toMatch(/azure|parquet|token-ids/);
  expect(await open('[{"timestamp": 1}]')).toContain(
    "mooncake needs JSON Lines with timestamp, input_length, output_length, hash_ids (missing: ",
  );
  expect(await open("{}")).toContain("t: unknown format: JSON Lines with the fields (none); ");
  expect(await open("a,b,c")).toBe(
    "t: unknown format: line 1 has the columns a, b, c; azure needs TIMESTAMP, ContextTokens, GeneratedTokens; burstgpt " +
      "needs Timestamp, Model, Request tokens, Response tokens, Total tokens, Log Type; kvlab trace formats lists all formats",
  );
  expect(await open("Hello world")).toBe(
    't: unknown format: line 1 is "Hello world"; expected JSON, CSV or Parquet; kvlab trace formats lists all formats',
  );
  expect(await open('{"timestamp": 1,')).toBe("t:1: invalid JSON: found the end of the line at column 17");
});

test("the fields of a first object over several lines, or in an array, are found", async () => {
  const found = async (text: string) => (await sampleOf(fileOf(text, "t"))).fields;
  const expected = ["a", "b", "b[].c", "d", "d.e"];
  const text = '{"a": 1, "b": [{"c": "x\\""}], "d": {"e": [1]}}';
  expect(await found(text)).toEqual(expected);
  expect(await found(`[${text}, {"other": 1}]`)).toEqual(expected);
  expect(await found(text.replaceAll(" ", "\n  "))).toEqual(expected);
  expect((await sampleOf(fileOf(gzipSync(`\uFEFF\n${text}\n`), "t"))).fields).toEqual(expected);
});

test("a similar format with other units is not recognised as Mooncake's", async () => {
  const bailian = '{"chat_id": 1, "timestamp": 1.5, "input_length": 30, "output_length": 5, "hash_ids": [7, 9]}';
  const found = await openTrace([fileOf([bailian])]).catch((error) => error.message);
  expect(found.format ?? found).not.toBe("mooncake");
});

test("a format that does not exist is refused, with the closest one", async () => {
  const open = (format: string) => failureOf(() => openTrace([fileOf([mooncake])], { format }));
  expect(await open("moncake")).toMatch(
    /^unknown format "moncake": did you mean "mooncake"\? \(known formats: .*mooncake.*\)$/,
  );
  expect(await open("unheard")).toMatch(/^unknown format "unheard" \(known formats: /);
});

test("no file, a missing file, an empty one and files of two formats are refused", async () => {
  expect(await failureOf(() => openTrace([]))).toBe("no trace file given");
  expect(await failureOf(() => openTrace([`${folder}/none`]))).toBe("none: no such file");
  expect(await failureOf(() => openTrace([fileOf("", "empty")]))).toBe("empty: the file is empty, expected a trace");
  expect(await failureOf(() => openTrace([fileOf([""], "blank")]))).toBe("blank: no requests, only blank lines");
  expect(await failureOf(() => openTrace([fileOf([mooncake], "a"), fileOf([tokenIds], "b")]))).toBe(
    "b: the format is token-ids, expected mooncake as in a",
  );
});

test("every format has a description and a source", () => {
  for (const { name, about, source } of traceFormats) {
    expect(name).toMatch(/^[a-z-]+$/);
    expect(about).not.toBe("");
    expect(source).not.toBe("");
  }
});
