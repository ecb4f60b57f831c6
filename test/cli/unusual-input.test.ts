import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { repeatable } from "../../cli/input/repeated.ts";
import { ended, kvlab, newFolder, refusal, startReporting, untilDoing } from "./program.ts";

const line = '{"timestamp": 0, "input_length": 1000, "output_length": 10, "hash_ids": [7, 8]}\n';
const tooLong = "n".repeat(300);

function folderWith(name: string, content: string | Uint8Array): string {
  const folder = newFolder();
  writeFileSync(join(folder, name), content);
  return folder;
}

describe.concurrent("a name longer than the file system allows is refused in one line", () => {
  test("of a trace", async () => {
    expect(await refusal(newFolder(), ["replay", tooLong])).toBe(
      `${tooLong}: the name is longer than the file system allows`,
    );
  });
  test("of the folder of a run", async () => {
    const folder = folderWith("t.jsonl", line);
    expect(await refusal(folder, ["replay", "t.jsonl", "--blocks", "1", "--out", tooLong])).toBe(
      `${tooLong}: cannot be written, the name is longer than the file system allows`,
    );
  });
});

test("a trace and a folder with the longest possible names can be replayed and saved", async () => {
  const trace = `${"t".repeat(249)}.jsonl`;
  const folder = folderWith(trace, line);
  expect(await kvlab(folder, ["replay", trace, "--blocks", "1"])).toMatchObject({ code: 0 });
  expect(readdirSync(join(folder, "runs"))).toHaveLength(1);
  const out = "o".repeat(255);
  expect(await kvlab(folder, ["replay", trace, "--blocks", "1", "--out", out])).toMatchObject({ code: 0 });
  expect(readdirSync(folder)).toContain(out);
});

test("temporary folders of killed runs are removed by the next run, and a run that was being replaced is restored", async () => {
  const folder = folderWith("t.jsonl", line);
  const noProcess = 2 ** 22 + 1;
  mkdirSync(join(folder, "runs", `.half-written.${hostname()}.${noProcess}.tmp`), { recursive: true });
  mkdirSync(join(folder, "runs", `.replaced.${hostname()}.${noProcess}.old`));
  mkdirSync(join(folder, "runs", `.being-written.${hostname()}.${process.pid}.tmp`));
  expect(await kvlab(folder, ["replay", "t.jsonl", "--blocks", "1"])).toMatchObject({ code: 0 });
  const left = readdirSync(join(folder, "runs"));
  expect(left).not.toContain(`.half-written.${hostname()}.${noProcess}.tmp`);
  expect(left).not.toContain(`.replaced.${hostname()}.${noProcess}.old`);
  expect(left).toContain("replaced");
  expect(left).toContain(`.being-written.${hostname()}.${process.pid}.tmp`);
});

describe.concurrent("an endless file is refused at once", () => {
  test.each([
    ["replay t.jsonl --target sim --cost /dev/zero", "/dev/zero: is not a regular file, expected one"],
    ["replay t.jsonl --operations /dev/zero", "/dev/zero: is not a regular file, expected one"],
    ["conformance /dev/zero", /^\/dev\/zero: .*is not a regular file/],
    ["fuzz --replay /dev/zero", /^\/dev\/zero: .*is not a regular file/],
  ])("%s", async (args, expected) => {
    const message = await refusal(folderWith("t.jsonl", line), args.split(" "));
    if (typeof expected === "string") expect(message).toBe(expected);
    else expect(message).toMatch(expected);
  });
  test("a gzip file of blank lines", async () => {
    const blank = gzipSync(Buffer.alloc(50_000_000, "\n"));
    expect(await refusal(folderWith("t.gz", blank), ["replay", "t.gz"])).toBe(
      "t.gz: the first 16 MiB are blank lines, expected a trace",
    );
  });
});

test("a signal stops reading a file between two of its requests", async () => {
  const blank = gzipSync(Buffer.alloc(200_000_000, "\n"));
  const folder = folderWith("t.gz", Buffer.concat([gzipSync(line), blank, blank, blank, blank, blank]));
  const child = startReporting(folder, ["replay", "t.gz", "--format", "mooncake"]);
  const result = ended(child);
  await untilDoing(child, "reading t");
  child.kill("SIGINT");
  expect(await result).toEqual({ code: 130, stdout: "", stderr: "kvlab: interrupted\n" });
});

test("fuzz --beat with two equal configurations is refused", async () => {
  expect(await refusal(newFolder(), ["fuzz", "--beat", "lru", "lru"])).toBe(
    "--beat has lru twice, expected two configurations that differ",
  );
});

describe.concurrent("an option that takes one value is refused when it is given twice", () => {
  test.each([
    ["replay --blocks 5 --blocks 9", '--blocks is given twice, as "5" and as "9", expected it once'],
    ["compare --eviction lru --eviction fifo", '--eviction is given twice, as "lru" and as "fifo", expected it once'],
    ["trace stats --limit 1 --limit 1", '--limit is given twice, as "1" and as "1", expected it once'],
  ])("%s", async (args, expected) => {
    expect(await refusal(newFolder(), args.split(" "))).toBe(expected);
  });
  test("except those that the help calls repeatable", async () => {
    const named = new Set<string>();
    for (const command of ["replay", "generate", "sweep"]) {
      const { stdout } = await kvlab(newFolder(), [command, "--help"]);
      const options = stdout.replace(/\n {10,}/g, " ").split("\n");
      for (const text of options) if (text.includes("(repeatable")) named.add(/--([\w-]+)/.exec(text)![1]);
    }
    expect([...named].sort()).toEqual([...repeatable].sort());
  });
});

describe.concurrent("shell completion", () => {
  const completed = async (...words: string[]) => {
    const { stdout, code } = await kvlab(newFolder(), ["complete", "--", ...words]);
    expect(code).toBe(0);
    return stdout.split("\n").map((candidate) => candidate.split("\t")[0]);
  };
  test("completes commands, options and the values of plug-ins", async () => {
    expect(await completed("re")).toContain("replay");
    expect(await completed("replay", "--evi")).toContain("--eviction");
    expect(await completed("replay", "--eviction", "")).toEqual(expect.arrayContaining(["lru", "fifo", "belady"]));
    expect(await completed("compare", "--preset", "v")).toContain("vllm");
  });
  test.each(["bash", "zsh", "fish"])("prints a script for %s", async (shell) => {
    const { stdout, code } = await kvlab(newFolder(), ["completion", shell]);
    expect(code).toBe(0);
    expect(stdout).toContain("kvlab complete --");
  });
});
