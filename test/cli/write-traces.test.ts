import { once } from "node:events";
import { chmodSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { ended, json, kvlab, newFolder, refusal, start } from "./program.ts";

const line = (i: number) =>
  `{"timestamp": ${i * 50}, "input_length": 1000, "output_length": 3, "hash_ids": [0, ${i + 1}], "session_id": 1}\n`;
const lines = Array.from({ length: 300 }, (_, i) => line(i)).join("");

test("a trace is converted from standard input, and columns without a place are notes", async () => {
  const folder = newFolder();
  const child = start(folder, ["trace", "convert", "-", "t.parquet"]);
  child.stdin?.end(lines);
  expect(await ended(child)).toEqual({
    code: 0,
    stdout: "Wrote 300 requests, 300,000 input and 900 output tokens to t.parquet (parquet)\n",
    stderr: "",
  });
  const { code, stdout, stderr } = await kvlab(folder, ["trace", "convert", "t.parquet", "t.csv", "--limit", "1"]);
  expect([code, stdout]).toEqual([0, "Wrote 1 request, 1,000 input and 3 output tokens to t.csv (azure)\n"]);
  expect(stderr).toBe(
    "kvlab: note: azure has no column keys, which 1 request of the trace has\n" +
      "kvlab: note: azure has no column session, which 1 request of the trace has\n",
  );
  // Parquet on standard input is read at any position.
  const again = start(folder, ["trace", "convert", "-", "again.jsonl"]);
  again.stdin?.end(readFileSync(join(folder, "t.parquet")));
  expect((await ended(again)).code).toBe(0);
  expect(readFileSync(join(folder, "again.jsonl"), "utf8").split("\n")[2]).toBe(line(2).trimEnd());
});

test("a dash as the output writes only the trace to standard output", async () => {
  const folder = newFolder();
  const generate = ["trace", "generate", "rag", "--requests", "900", "--out"];
  await kvlab(folder, [...generate, "t.jsonl"]);
  const text = readFileSync(join(folder, "t.jsonl"), "utf8");
  expect(await kvlab(folder, [...generate, "-"])).toEqual({ code: 0, stdout: text, stderr: "" });
  expect(await kvlab(folder, ["trace", "convert", "t.jsonl", "-"])).toEqual({ code: 0, stdout: text, stderr: "" });
  const anonymize = ["trace", "anonymize", "t.jsonl", "--block-size", "16", "--salt", "s"];
  await kvlab(folder, [...anonymize, "a.jsonl"]);
  const anonymous = readFileSync(join(folder, "a.jsonl"), "utf8");
  expect(await kvlab(folder, [...anonymize, "-"])).toEqual({ code: 0, stdout: anonymous, stderr: "" });
  const like = await kvlab(folder, ["trace", "generate", "--like", "t.jsonl", "--json", "--out", "-"]);
  expect(like.stdout.trimEnd().split("\n")).toHaveLength(900);
  expect(JSON.parse(like.stderr)).toMatchObject({ schema: "trace-like/1", requests: 900 });
  expect(readdirSync(folder).sort()).toEqual(["a.jsonl", "t.jsonl"]);
});

test("a generated trace is replayed through a pipe, also as Parquet", async () => {
  const folder = newFolder();
  await kvlab(folder, ["trace", "generate", "chat", "--requests", "300", "--out", "t.parquet"]);
  const args = ["--blocks", "500", "--no-save"];
  const expected = await json(folder, ["replay", "t.parquet", ...args]);
  for (const to of ["mooncake", "parquet"]) {
    const from = start(folder, ["trace", "generate", "chat", "--requests", "300", "--to", to, "--out", "-"]);
    const into = start(folder, ["replay", "-", ...args, "--json"]);
    from.stdout?.pipe(into.stdin!);
    const { code, stdout } = await ended(into);
    expect([code, JSON.parse(stdout).cache]).toEqual([0, expected.cache]);
  }
});

test("a writer ends without a message when the reader closes the pipe, and waits for a slow reader", async () => {
  const folder = newFolder();
  const child = start(folder, ["trace", "generate", "chat", "--requests", "100000000", "--out", "-"]);
  const exit = new Promise((resolve) => child.on("exit", resolve));
  let stderr = "";
  child.stderr?.on("data", (text) => {
    stderr += text;
  });
  const [first] = await once(child.stdout!, "data");
  expect(String(first)).toMatch(/^\{"timestamp": 0, /);
  child.stdout?.pause();
  await sleep(300);
  child.stdout?.destroy();
  expect([await exit, stderr]).toEqual([0, ""]);
  expect(readdirSync(folder)).toEqual([]);
});

test("the format of a generated trace follows from the extension or from --to, and a lost column is a note", async () => {
  const folder = newFolder();
  const generate = (...args: string[]) => kvlab(folder, ["trace", "generate", "few-shot", "--requests", "9", ...args]);
  expect((await generate("--out", "t.parquet")).code).toBe(0);
  expect(readFileSync(join(folder, "t.parquet")).toString("latin1", 0, 4)).toBe("PAR1");
  const { stderr } = await generate("--out", "t.csv");
  expect(stderr).toContain("kvlab: note: azure has no column keys, which 9 requests have\n");
  expect((await generate("--out", "t.txt")).code).toBe(0);
  expect(readFileSync(join(folder, "t.txt"), "utf8")).toMatch(/^\{"timestamp": 0, /);
  expect(await refusal(folder, ["trace", "generate", "few-shot", "--to", "token-ids", "--out", "x"])).toMatch(
    /^the trace has content ids of blocks, but token-ids has token ids; /,
  );
});

test("an interrupted conversion leaves no file", async () => {
  const folder = newFolder();
  const child = start(folder, ["trace", "convert", "-", "out/t.parquet"]);
  const end = ended(child);
  child.stdin?.on("error", () => {});
  child.stdin?.write(lines);
  // Standard input stays open until the signal.
  for (let waited = 0; waited < 20_000 && !readdirSync(folder).includes("out"); waited += 20) await sleep(20);
  child.kill("SIGINT");
  const { code, stderr } = await end;
  expect([code, stderr]).toEqual([130, "kvlab: interrupted\n"]);
  expect(readdirSync(folder)).toEqual([]);
});

test("what cannot be written or read is one message", async () => {
  const folder = newFolder();
  writeFileSync(join(folder, "t.jsonl"), lines);
  writeFileSync(join(folder, "cut.parquet"), "PAR1 and no footer");
  const message = (...args: string[]) => refusal(folder, ["trace", ...args]);
  expect(await message("convert", "t.jsonl")).toBe("only t.jsonl is given, expected a TRACE and the file to write");
  expect(await message("convert", "t.jsonl", "t.jsonl", "--force")).toBe(
    "t.jsonl: is also the input, expected another file to write to",
  );
  expect(await message("convert", "cut.parquet", "out.jsonl")).toBe(
    "cut.parquet: the Parquet file is cut: it does not end with PAR1",
  );
  expect(await message("anonymize", "t.jsonl", "out.jsonl")).toMatch(/--block-size/);
  expect(await message("anonymize", "t.jsonl", "out.csv", "--block-size", "512")).toBe(
    "out.csv: anonymized traces have content ids, expected the format mooncake or parquet",
  );
  expect(await message("anonymize", "t.jsonl", "out.jsonl", "--block-size", "100")).toBe(
    "--block-size is 100, expected a multiple of the trace's unit, 512",
  );
  expect(await message("fetch", "mooncake")).toMatch(/^unknown trace "mooncake"/);
  if (process.getuid?.() !== 0) {
    chmodSync(folder, 0o555);
    expect(await message("convert", "t.jsonl", "out.parquet")).toBe("out.parquet: cannot be written (EACCES)");
  }
});

test("the public traces are listed", async () => {
  const { code, stdout } = await kvlab(newFolder(), ["trace", "fetch"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^ {2}mooncake-conversation +mooncake +3\.0 MB +Apache-2\.0 +yes/m);
});
