import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { newFolder, refusal } from "./program.ts";

const line = '{"timestamp": 0, "input_length": 1000, "output_length": 10, "hash_ids": [7, 8]}\n';

/** A folder with one file in it. */
function folderWith(name: string, content: string | Uint8Array): string {
  const folder = newFolder();
  writeFileSync(join(folder, name), content);
  return folder;
}

describe.concurrent("bad traces are refused in one line", () => {
  const replay = (content: string | Uint8Array, ...args: string[]) =>
    refusal(folderWith("t.jsonl", content), ["replay", "t.jsonl", ...args]);
  const request = (changed: object) =>
    `${JSON.stringify({ timestamp: 0, input_length: 1000, output_length: 10, hash_ids: [7, 8], ...changed })}\n`;

  test("a missing file", async () => {
    expect(await refusal(newFolder(), ["replay", "t.jsonl"])).toBe("t.jsonl: no such file");
  });
  test("a file that is not regular, without waiting for data, and an unreadable file", async () => {
    const folder = newFolder();
    execFileSync("mkfifo", [join(folder, "pipe")]);
    expect(await refusal(folder, ["replay", "pipe"])).toContain("pipe: is not a regular file, expected one");
    expect(await refusal(folder, ["replay", "/dev/null"])).toContain("/dev/null: is not a regular file");
    expect(await refusal(folder, ["replay", "."])).toBe(".: is a directory, expected a file");
    if (process.platform === "linux")
      expect(await refusal(folder, ["replay", "/proc/self/mem"])).toBe("/proc/self/mem: cannot be read (EIO)");
  });
  test("an empty file", async () => {
    expect(await replay("")).toContain("t.jsonl: the file is empty");
  });
  test("gzip data that ends early", async () => {
    const packed = gzipSync(line.repeat(1000));
    expect(await replay(packed.subarray(0, packed.length - 20))).toContain("t.jsonl: gzip data ends early");
  });
  test("half a line", async () => {
    expect(await replay(line + line.slice(0, 40))).toMatch(/^t\.jsonl:2: /);
  });
  test("a negative length", async () => {
    expect(await replay(line + request({ input_length: -5 }))).toMatch(/^t\.jsonl:2: input_length is -5, expected /);
  });
  test("a length with a fraction", async () => {
    expect(await replay(request({ output_length: 1.5 }))).toMatch(/^t\.jsonl:1: output_length is 1\.5, expected /);
  });
  test("content ids that contradict the length", async () => {
    expect(await replay(line + request({ input_length: 5000 }))).toMatch(/^t\.jsonl:2: .*hash_ids/);
  });
  test("an unknown format, detected or given", async () => {
    expect(await replay("hello\n")).toContain("t.jsonl: unknown format");
    expect(await replay(line, "--format", "moncake")).toMatch(/^unknown .*"moncake".*did you mean "?mooncake/);
  });
  test("a block size that is not a multiple of the unit", async () => {
    expect(await replay(line, "--block-size", "500")).toBe(
      "--block-size is 500, expected a multiple of 512, the tokens of the trace's blocks",
    );
  });
  test("a warm-up of all requests", async () => {
    expect(await replay(line, "--warmup", "1")).toBe("--warmup is 1, the trace has only 1 requests");
  });
});

describe.concurrent("options are refused by name", () => {
  const cases: [args: string, message: string | RegExp][] = [
    ["replay --blocks 0", /^--blocks is "0", expected a whole number from 1/],
    ["replay --blocks ten", /^--blocks is "ten", expected a whole number from 1/],
    ["replay --block-size 0", '--block-size is "0", expected a whole number from 1'],
    ["replay --limit 0", '--limit is "0", expected a whole number from 1'],
    ["replay --seed -1", '--seed is "-1", expected a whole number from 0 to 4294967295'],
    ["replay --warmup 1.5", '--warmup is "1.5", expected a whole number from 0'],
    ["replay --repeat 0", '--repeat is "0", expected a whole number from 1'],
    [
      "compare --rule match-limit=all --rule match-limit=l-1",
      "--rule match-limit is given twice; kvlab compare takes several values: --rule match-limit=A,B",
    ],
    ["replay --eviction beladi", 'unknown eviction policy "beladi": did you mean "belady"?'],
    ["replay --index hashtable", 'unknown index "hashtable": did you mean "hash-table"?'],
    ["replay --indx none", "unknown option '--indx' (Did you mean --index?)"],
    ["replay --rule free-oder=forward", 'unknown rule "free-oder": did you mean "free-order"?'],
    ["replay --rule free-order=sideways", /^rule free-order is "sideways", expected one of reverse, forward$/],
    ["replay --rule free-order", /^--rule is "free-order", expected NAME=VALUE/],
    ["replay --rule victims=leaf", /does not support rule victims=leaf/],
    ["replay --out x --no-save", "--out and --no-save exclude each other"],
    ["replay example other.jsonl", '"example" is the built-in trace and cannot be combined with files'],
    ["compare --blocks 10,unlimited", "--blocks contains unlimited, which compare always shows; remove it"],
    ["compare --eviction lru,lru", '--eviction has "lru" twice'],
    ["compare --metric blok", '--metric is "blok", did you mean "block"?'],
    ["replay --preset vllm@0.7", 'preset vllm has no version "0.7", expected vllm or vllm@0.19'],
    ["compare --preset sglang@1", 'preset sglang has no version "1", expected sglang or sglang@2501'],
    ["replay --preset vlm", 'unknown preset "vlm": did you mean "vllm"?'],
    ["replay --preset vllm,sglang", '--preset is "vllm,sglang", expected one name; kvlab compare takes several'],
    ["replay --preset vllm --rule victims=leaf", /does not support rule victims=leaf/],
    ["replay --preset nano-vllm --allocator block --rule free-queue=single", /^allocator block does not support rule/],
    ["compare --preset vllm,vllm", '--preset has "vllm" twice'],
    ["compare --preset vllm,huge", /^unknown preset "huge", expected one of lightllm, /],
    ["repaly", "unknown command 'repaly' (Did you mean replay?)"],
    ["bogus", "unknown command 'bogus'; kvlab --help lists all"],
    ["trace", "missing subcommand of trace; kvlab trace --help lists them"],
    ["trace stat", "unknown command 'stat' (Did you mean stats?)"],
    ["replay --eviction lur", 'unknown eviction policy "lur": did you mean "lru"?'],
    ["replay --eviction marconi:alpha=x", 'option alpha of marconi is "x", expected a number'],
    ["replay --eviction marconi:alpha=-2", "option alpha of marconi is -2, expected a number from -1"],
    ["replay --eviction ttl:ttl-s=-1", /^option ttl-s of ttl is -1, expected a number from /],
    ["replay --eviction queue-lru:requests=0", "option requests of queue-lru is 0, expected a whole number from 1"],
    ["replay --eviction ttl:ttl-s=1:ttl-s=2", "option ttl-s of ttl is given twice"],
    ["replay --eviction lru,fifo", '--eviction is "lru,fifo", expected one name; kvlab compare takes several'],
    ["trace generate chat --requests 0 --out x", /^--requests is 0, expected a whole number from 1/],
    ["trace generate", "required option '--out <FILE>' not specified"],
    ["trace generate few-shots --out x", 'unknown generator "few-shots": did you mean "few-shot"?'],
    ["trace generate rag --documents 0 --out x", "--documents is 0, expected a whole number from 1 to 100000"],
    ["trace generate rag --zipf many --out x", '--zipf is "many", expected a number'],
    ["trace generate chat", "required option '--out <FILE>' not specified"],
    ["trace generate chat --requests -1 --out x", /^--requests is -1, expected a whole number from 1/],
    ["replay --eviction unbounded --blocks 10", /^--blocks and --eviction unbounded exclude each other/],
    ["replay --explain x", /^--explain is "x", expected a whole number from 0/],
    ["replay --explain 3 --explain 3", /^--explain 3 is given twice/],
    ["replay --explain-top 0", /^--explain-top is "0", expected a whole number from 1/],
    ["replay --events --no-save", /^--events and --no-save exclude each other/],
    ["replay --out a --out b", "--out is given twice, expected once"],
    ["compare --out .", ".: is the current directory, expected one of its own"],
    ["help foo", 'there is no command "foo"; kvlab --help lists them'],
    ["trace help foo", 'there is no command "trace foo"; kvlab trace --help lists them'],
    ["init policy ../up", 'the policy\'s name is "../up", expected a letter, then letters, digits, - or _'],
  ];
  test.each(cases)("kvlab %s", async (args, message) => {
    expect(await refusal(newFolder(), args.split(" "))).toMatch(
      typeof message === "string" ? asPattern(message) : message,
    );
  });
});

const asPattern = (text: string) => new RegExp(`^${text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`);

describe.concurrent("unsupported and renamed options and commands are refused by name", () => {
  const cases: [args: string, message: string][] = [
    ["replay --target http://localhost:8000", "--target http://localhost:8000: servers are not part of this version"],
    ["replay --policy vllm", "--policy vllm: is called --preset"],
    ["replay --answers free", "--answers free: is called --output-lengths"],
    ["verify --answers free", "--answers free: is called --output-lengths"],
    ["simulate example", "simulate: is called kvlab replay --target sim"],
    ["help simulate", "simulate: is called kvlab replay --target sim"],
    ["trace record a b", "trace record: recording traces is not part of this version"],
  ];
  test.each(cases)("kvlab %s", async (args, message) => {
    expect((await refusal(newFolder(), args.split(" "))).slice(0, message.length)).toBe(message);
  });

  test("unsupported algorithms are refused with the supported ones", async () => {
    const parts = ["eviction lru-k", "eviction lfu-da", "allocator page"];
    const messages = await Promise.all(
      parts.map((part) => refusal(newFolder(), ["compare", ...`--${part}`.split(" ")])),
    );
    for (const [i, text] of messages.entries())
      expect(text).toContain(`--${parts[i]}: not part of this version; expected one of `);
  });
});

describe.concurrent("user files are not overwritten", () => {
  test("a folder with other files is not replaced by a run", async () => {
    const folder = newFolder();
    mkdirSync(join(folder, "mine"));
    writeFileSync(join(folder, "mine/notes.txt"), "precious");
    expect(await refusal(folder, ["replay", "--out", "mine"])).toBe(
      "mine: exists and is not a run of kvlab (has notes.txt in it), so it is not replaced",
    );
  });
  test("compare does not save runs among other files", async () => {
    const folder = newFolder();
    mkdirSync(join(folder, "mine/run"), { recursive: true });
    writeFileSync(join(folder, "mine/run/notes.txt"), "precious");
    expect(await refusal(folder, ["compare", "--events"])).toBe("--events needs --out: the log is part of a saved run");
    expect(await refusal(folder, ["compare", "--out", "mine"])).toBe(
      "mine: has run in it, which is not a run of kvlab; expected a new folder, or one of runs",
    );
    for (const args of [["compare"], ["replay"]])
      expect(await refusal(folder, [...args, "--out", ""])).toBe("--out is empty, expected a folder");
    expect(await refusal(folder, ["trace", "generate", "chat", "--out", ""])).toBe("--out is empty, expected a file");
  });
  test("a file is not replaced by a run", async () => {
    const folder = folderWith("mine", "precious");
    expect(await refusal(folder, ["replay", "--out", "mine"])).toContain("mine: exists and is not a run of kvlab");
    expect(readFileSync(join(folder, "mine"), "utf8")).toBe("precious");
  });
  test("a pipe or device is not replaced, also inside a run's folder", async () => {
    const folder = newFolder();
    mkdirSync(join(folder, "run"));
    execFileSync("mkfifo", [join(folder, "pipe"), join(folder, "run/run.json")]);
    symlinkSync("pipe", join(folder, "link"));
    for (const out of ["pipe", "link", "/dev/null"])
      expect(await refusal(folder, ["trace", "generate", "chat", "--force", "--out", out])).toBe(
        `${out}: is not a regular file, so it is not replaced`,
      );
    expect(await refusal(folder, ["replay", "--out", "pipe"])).toContain("pipe: exists and is not a run of kvlab");
    expect(await refusal(folder, ["replay", "--out", "run"])).toContain("has run.json in it");
  });
  test("a folder that cannot be created is reported at once", async () => {
    const folder = folderWith("file", "");
    expect(await refusal(folder, ["replay", "--out", "file/run"])).toBe("file/run: cannot be written, file is a file");
    expect(await refusal(folderWith("runs", ""), ["replay"])).toBe("runs: cannot be written, runs is a file");
  });
  test("trace generate and init policy do not replace a file", async () => {
    const folder = folderWith("chat.jsonl", "precious");
    writeFileSync(join(folder, "mine.ts"), "precious");
    expect(await refusal(folder, ["trace", "generate", "chat", "--out", "chat.jsonl"])).toContain("already exists");
    expect(await refusal(folder, ["init", "policy"])).toMatch(/^mine\.ts: already exists; .*another name.*--force/);
  });
});
