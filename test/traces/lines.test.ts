import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { constants, gunzipSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readTrace } from "../../core/trace/trace.ts";
import { lineBlocks } from "../../traces/lines.ts";
import { openTrace } from "../../traces/open.ts";
import { failureOf, fileOf, folder } from "./files.ts";

async function linesOf(path: string): Promise<string[]> {
  const lines: string[] = [];
  for await (const block of lineBlocks(path)) {
    while (block.next()) {
      lines.push(block.text());
      expect(block.line).toBe(lines.length);
    }
  }
  return lines;
}

test("a plain file and a gzip file give the same lines, regardless of the name", async () => {
  const text = "one\n\nthree, größer\n";
  const expected = ["one", "", "three, größer"];
  expect(await linesOf(fileOf(text))).toEqual(expected);
  expect(await linesOf(fileOf(gzipSync(text)))).toEqual(expected);
  expect(await linesOf(fileOf(text, "plain.gz"))).toEqual(expected);
});

test("a gzip file may have several members", async () => {
  expect(await linesOf(fileOf(Buffer.concat([gzipSync("a\nb"), gzipSync("c\nd\n")])))).toEqual(["a", "bc", "d"]);
});

test("only a last line without a line end is not terminated", async () => {
  const terminated: boolean[] = [];
  for await (const block of lineBlocks(fileOf("a\nb"))) while (block.next()) terminated.push(block.terminated);
  expect(terminated).toEqual([true, false]);
});

test("any text is read line by line, also lines longer than the buffer", async () => {
  const line = fc.string({ unit: "grapheme" }).map((text) => text.replace(/[\n\0\uFEFF]/g, " "));
  const long = fc.integer({ min: 1_000_000, max: 2_500_000 }).map((length) => "é".repeat(length / 2));
  const lines = fc.array(fc.oneof({ weight: 9, arbitrary: line }, { weight: 1, arbitrary: long }), { minLength: 1 });
  await fc.assert(
    fc.asyncProperty(lines, fc.boolean(), async (expected, packed) => {
      const text = `${expected.join("\n")}\n`;
      expect(await linesOf(fileOf(packed ? gzipSync(text, { level: 1 }) : text, "any"))).toEqual(expected);
    }),
    { numRuns: 30 },
  );
});

test("a byte order mark is not part of the first line", async () => {
  expect((await linesOf(fileOf("\uFEFFone\ntwo\n"))).map((line) => line.trim())).toEqual(["one", "two"]);
});

test("the reason is reported for a file that cannot be read", async () => {
  mkdirSync(join(folder, "dir"));
  expect(await failureOf(() => linesOf(join(folder, "none")))).toBe("none: no such file");
  expect(await failureOf(() => linesOf(join(fileOf("x", "file"), "below")))).toBe("file/below: no such file");
  expect(await failureOf(() => linesOf(join(folder, "dir")))).toBe("dir: is a directory, expected a file");
  expect(await failureOf(() => linesOf(fileOf("", "empty")))).toBe("empty: the file is empty, expected a trace");
  expect(await failureOf(() => linesOf(fileOf(gzipSync(""), "empty.gz")))).toBe(
    "empty.gz: the file is empty, expected a trace",
  );
  expect(await failureOf(() => linesOf("/dev/null"))).toBe(
    "/dev/null: is not a regular file, expected one (pass - to read a pipe as standard input)",
  );
});

// The superuser may read everything.
test.runIf(process.getuid?.() !== 0)("a file without permission is refused with this reason", async () => {
  const path = fileOf("x", "secret");
  chmodSync(path, 0);
  expect(await failureOf(() => linesOf(path))).toBe("secret: no permission to read it");
});

test("a file that is not text is reported with the line", async () => {
  expect(await failureOf(() => linesOf(fileOf(Uint8Array.of(80, 65, 82, 49, 10, 0, 4), "x.parquet")))).toBe(
    "x.parquet:2: the line has a zero byte, expected text, plain or gzip",
  );
  expect(await failureOf(() => linesOf(fileOf(Uint8Array.of(97, 10, 98, 10, 0xe9, 10), "latin1")))).toBe(
    "latin1:3: the line is not UTF-8, expected text, plain or gzip",
  );
});

test("text in UTF-16 is reported as such, in every format that is text", async () => {
  const text = '{"prompt": "x"}\n';
  const files = [`\uFEFF${text}`, text].map((each) => Buffer.from(each, "utf16le"));
  const expected = "t.jsonl: the text is UTF-16, expected UTF-8, plain or gzip";
  for (const bytes of [
    ...files,
    ...files.map((each) => Buffer.from(each).swap16()),
    ...files.map((each) => gzipSync(each)),
  ]) {
    const path = fileOf(bytes, "t.jsonl");
    expect(await failureOf(() => linesOf(path))).toBe(expected);
    expect(await failureOf(() => openTrace([path]))).toBe(expected);
    for (const format of ["prompts", "mooncake", "azure"])
      expect(await failureOf(async () => readTrace(await openTrace([path], { format })))).toBe(expected);
  }
});

test("gzip data that ends early is reported with the line", async () => {
  // Incompressible numbers, so that the data ends after the first line.
  let state = 1;
  const lines = Array.from({ length: 20_000 }, () => String((state = Math.imul(state, 48271) >>> 1)));
  const packed = gzipSync(`${lines.join("\n")}\n`);
  const cut = packed.subarray(0, packed.length / 2);
  const path = fileOf(cut, "cut.gz");
  let read = 0;
  const failure = await failureOf(async () => {
    for await (const block of lineBlocks(path)) while (block.next()) read++;
  });
  expect(failure).toBe(`cut.gz: gzip data ends early after line ${read}`);
  const whole = gunzipSync(cut, { finishFlush: constants.Z_SYNC_FLUSH }).toString().split("\n").length - 1;
  expect(read).toBe(whole);
  expect(await failureOf(() => linesOf(fileOf(packed.subarray(0, 15), "cut.gz")))).toBe(
    "cut.gz: gzip data ends early in the first line",
  );
});

test("damaged gzip data is reported", async () => {
  const packed = gzipSync("one\ntwo\nthree\n");
  packed[packed.length - 8] ^= 1; // the checksum
  expect(await failureOf(() => linesOf(fileOf(packed, "bad.gz")))).toBe(
    "bad.gz: gzip data is damaged (incorrect data check)",
  );
});
