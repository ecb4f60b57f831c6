import { readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { ended, newFolder, refusal, start } from "./program.ts";

const linesOf = (requests: number): string =>
  Array.from(
    { length: requests },
    (_, i) =>
      `{"timestamp": ${i * 50}, "input_length": 1200, "output_length": 5, "hash_ids": [${i % 7}, ${10 + (i % 7)}, ${20 + i}]}\n`,
  ).join("");
const lines = linesOf(300);

/** Runs the program with this standard input, written in two pieces. */
async function piped(folder: string, args: readonly string[], input: Uint8Array) {
  const child = start(folder, args);
  const end = ended(child);
  child.stdin?.on("error", () => {});
  child.stdin?.write(input.subarray(0, 1));
  await sleep(50);
  child.stdin?.end(input.subarray(1));
  return await end;
}

test("a dash reads standard input, plain or gzip, with the same result as the file", async () => {
  const folder = newFolder();
  writeFileSync(join(folder, "stdin.jsonl"), lines);
  const args = ["--blocks", "20", "--json", "--no-save"];
  const expected = await piped(folder, ["replay", "stdin.jsonl", ...args], Buffer.alloc(0));
  const { files: _, ...trace } = JSON.parse(expected.stdout).trace;
  const { hitRatio } = JSON.parse(expected.stdout).cache;
  for (const input of [Buffer.from(lines), gzipSync(lines)]) {
    const { code, stdout, stderr } = await piped(folder, ["replay", "-", ...args], input);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const report = JSON.parse(stdout);
    expect(report.trace).toEqual({ ...trace, files: ["-"] });
    expect(report.cache.hitRatio).toEqual(hitRatio);
  }
});

test("namespaces that begin after the first batch: statistics are those of the file, and a replay states that it needs one", async () => {
  const folder = newFolder();
  const late =
    linesOf(8500) +
    linesOf(8700)
      .split("\n")
      .slice(8500, -1)
      .map((line) => line.replace("}", ', "adapter": 1}\n'))
      .join("");
  writeFileSync(join(folder, "stdin.jsonl"), late);
  const [ofFile, ofPipe] = [
    await piped(folder, ["trace", "stats", "stdin.jsonl", "--json"], Buffer.alloc(0)),
    await piped(folder, ["trace", "stats", "-", "--json"], Buffer.from(late)),
  ];
  expect(JSON.parse(ofPipe.stdout)).toEqual({ ...JSON.parse(ofFile.stdout), files: ["-"] });
  const { code, stderr } = await piped(folder, ["replay", "-", "--blocks", "20", "--no-save"], Buffer.from(late));
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr:
      "kvlab: standard input: the first requests of the trace have no namespaces and later ones have, which needs a second pass: expected a file\n",
  });
});

test("only the first requests of standard input are read if they are enough", async () => {
  const folder = newFolder();
  const child = start(folder, ["trace", "stats", "-", "--limit", "3"]);
  const end = ended(child);
  child.stdin?.on("error", () => {});
  child.stdin?.write(linesOf(20_000));
  // Standard input stays open.
  const { code, stdout } = await end;
  expect(code).toBe(0);
  expect(stdout).toContain("stdin (mooncake): 3 requests");
});

test("an error in standard input names it and the line", async () => {
  const folder = newFolder();
  const input = lines.replace('"timestamp": 100,', '"timestamp": -1,');
  const { code, stderr } = await piped(folder, ["replay", "-"], Buffer.from(input));
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: "kvlab: standard input:3: timestamp is -1, expected a number of milliseconds, 0 or more\n",
  });
  expect(await refusal(folder, ["replay", "-", "-"])).toBe("standard input is given twice, expected once");
});

test("a signal ends the wait for standard input and leaves no temporary file", async () => {
  const folder = newFolder();
  const child = start(folder, ["replay", "-"]);
  const end = ended(child);
  child.stdin?.on("error", () => {});
  // More than the pipe's capacity, so that it is written only when the program reads.
  await new Promise((resolve) => child.stdin?.write("\n".repeat(1 << 20) + lines.slice(0, 200), resolve));
  child.kill("SIGINT");
  expect(await end).toEqual({ code: 130, stdout: "", stderr: "kvlab: interrupted\n" });
  expect(readdirSync(tmpdir()).filter((name) => name.startsWith(`kvlab-standard-input-${child.pid}`))).toEqual([]);
});
