import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { generators } from "../../traces/generators/registry.ts";
import { json, kvlab, newFolder } from "./program.ts";

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));

test("--version prints package.json's", async () => {
  expect(await kvlab(newFolder(), ["--version"])).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
});

test("every command's help has an example and fits 80 columns", async () => {
  const commands = [
    "",
    "replay",
    "compare",
    "curve",
    "size",
    "trace",
    "trace stats",
    "trace generate",
    ...generators.map(({ name }) => `trace generate ${name}`),
    "policies",
    "profiles",
    "doctor",
    "init policy",
    "check",
    "conformance",
    "experiment",
    "generate",
    "verify",
    "dashboard",
    "calibrate",
    "fidelity",
    "fuzz",
    "sweep",
    "worker",
  ];
  const helps = await Promise.all(
    commands.map((name) => kvlab(newFolder(), [...name.split(" "), "--help"].filter(Boolean))),
  );
  helps.forEach(({ code, stdout, stderr }, i) => {
    expect({ code, stderr }, commands[i]).toEqual({ code: 0, stderr: "" });
    expect(stdout, commands[i]).toMatch(/^Usage: kvlab/);
    expect(stdout, commands[i]).toMatch(/Examples:\n {2}kvlab /);
    expect(Math.max(...stdout.split("\n").map((line) => line.length)), commands[i]).toBeLessThanOrEqual(80);
  });
});

test("kvlab alone prints the help", async () => {
  const { code, stdout } = await kvlab(newFolder(), []);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^Usage: kvlab/);
});

test("policies lists all plug-ins and rules", async () => {
  const { schema, plugins, rules } = await json(newFolder(), ["policies"]);
  expect(schema).toBe("policies/1");
  expect(new Set(plugins.map(({ kind }: { kind: string }) => kind))).toEqual(
    new Set(["index", "eviction", "allocator", "scheduler", "router"]),
  );
  expect(plugins).toContainEqual(expect.objectContaining({ kind: "eviction", name: "lru" }));
  expect(rules).toContainEqual(
    expect.objectContaining({ name: "free-order", values: ["reverse", "forward"], default: "reverse" }),
  );
});

test("policies lists the presets with their parts, and some index supports every value of every rule", async () => {
  const { presets, rules } = await json(newFolder(), ["policies"]);
  for (const { name, later } of rules) expect([false, []], name).toContainEqual(later);
  expect(presets).toHaveLength(17);
  expect(presets).toContainEqual({
    name: "tgi",
    about: expect.stringContaining("radix tree"),
    source: expect.stringContaining("Text Generation Inference"),
    link: expect.stringMatching(/^https:/),
    index: "radix-tree",
    eviction: "lru",
    allocator: "block-list",
    scheduler: "tgi-queue",
    blockTokens: 1,
    rules: expect.objectContaining({ reserve: "worst-case", publish: "finish", "victim-unit": "tail" }),
  });
  const { stdout } = await kvlab(newFolder(), ["policies"]);
  expect(stdout).toMatch(/\n {2}vllm +hash-table +lru +block +fcfs-chunked +16\n/);
  expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
});

test("a generated trace equals the example, and its statistics agree with a replay", async () => {
  const folder = newFolder();
  const generated = await kvlab(folder, [
    "trace",
    "generate",
    "chat",
    "--requests",
    "500",
    "--out",
    "a/b/chat.jsonl.gz",
  ]);
  expect(generated).toEqual({ code: 0, stdout: "Wrote 500 requests to a/b/chat.jsonl.gz\n", stderr: "" });
  expect(
    gunzipSync(readFileSync(join(folder, "a/b/chat.jsonl.gz")))
      .toString()
      .trimEnd()
      .split("\n"),
  ).toHaveLength(500);
  const stats = await json(folder, ["trace", "stats", "a/b/chat.jsonl.gz"]);
  const all = ["--blocks", "unlimited", "--no-save"];
  const file = await json(folder, ["replay", "a/b/chat.jsonl.gz", ...all]);
  const example = await json(folder, ["replay", "example", "--limit", "500", ...all]);
  expect(file.cache).toEqual(example.cache);
  expect(stats).toMatchObject({ requests: 500, inputTokens: file.trace.inputTokens });
  expect(stats.content.repeatedShare).toBe(file.cache.hitRatio.block);
});
