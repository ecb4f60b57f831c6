import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { byteTokenizer, openTokenizer } from "../../traces/tokenize.ts";
import { chatTokenizer } from "../support/tokenizers.ts";
import { failureOf, fileOf, folder } from "./files.ts";
import "../support/seed.ts";

let file = "";
beforeAll(() => {
  file = fileOf(chatTokenizer, "tokenizer.json");
});

test("the byte-level tokenizer has one token for each byte, and the tokens are the text", async () => {
  const property = fc.asyncProperty(fc.array(fc.string({ unit: "grapheme" })), async (texts) => {
    const tokens = await byteTokenizer.encode(texts);
    expect(tokens.map((ids) => Buffer.from(ids).toString())).toEqual(texts);
    expect(tokens.map(({ length }) => length)).toEqual(texts.map((text) => Buffer.byteLength(text)));
  });
  await fc.assert(property);
});

test("a tokenizer.json gives the library's token ids, of many texts as of one, repeated ones included", async () => {
  const { Tokenizer } = await import("tokenizers");
  const library = Tokenizer.fromString(chatTokenizer);
  library.disableTruncation();
  const tokenizer = await openTokenizer(file);
  const texts = ["hello world", "", "hello", "hello world", "x".repeat(300_000), "…", "hello"];
  const expected = [];
  for (const text of texts) expected.push((await library.encode(text, null, { addSpecialTokens: false })).getIds());
  for (let i = 0; i < 2; i++) expect((await tokenizer.encode(texts)).map((ids) => Array.from(ids))).toEqual(expected);
});

test("the start of a prompt has the tokens that the model adds", async () => {
  expect(Array.from((await openTokenizer(file)).start)).toEqual([266]);
  expect(byteTokenizer.start.length).toBe(0);
});

test("a folder stands for its tokenizer.json", async () => {
  const tokenizer = await openTokenizer(folder);
  expect(tokenizer.name).toBe(join(folder, "tokenizer.json"));
});

test("a file that is missing or not a tokenizer is refused", async () => {
  expect(await failureOf(() => openTokenizer(join(folder, "none.json")))).toBe("none.json: no such file");
  writeFileSync(join(folder, "other.json"), '{"a": 1}');
  expect(await failureOf(() => openTokenizer(join(folder, "other.json")))).toMatch(
    /^other\.json: not a Hugging Face tokenizer\.json: /,
  );
});
