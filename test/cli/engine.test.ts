import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parquetReadObjects } from "hyparquet";
import { describe, expect, test } from "vitest";
import { ended, json, newFolder, refusal, start } from "./program.ts";

/** The model cache is in the folder of the test. */
async function fromCheckout(folder: string, args: readonly string[]) {
  const { code, stdout, stderr } = await ended(start(folder, args, { XDG_CACHE_HOME: folder }));
  if (code !== 0) throw new Error(`exit code ${code}: ${stderr}`);
  return { stdout, stderr };
}

const few = ["example", "--limit", "12", "--scheduler", "naive", "--blocks", "2000", "--no-save"];

test("a real model has the hits of a replay without a clock, and measures times", async () => {
  const folder = newFolder();
  const { stdout } = await fromCheckout(folder, ["replay", ...few, "--target", "cpu", "--json"]);
  const report = JSON.parse(stdout);
  const counted = await json(folder, ["replay", ...few]);
  expect(report).toMatchObject({
    schema: "run/1",
    target: "cpu",
    engine: { model: "random:tiny", architecture: "llama", backend: "onnx-cpu", pace: "busy" },
    refusals: {},
  });
  expect(report.cache.hitTokens).toBe(counted.cache.hitTokens);
  expect(report.cache.hitTokens).toBeGreaterThan(0);
  expect(report.cache.missTokens).toEqual(counted.cache.missTokens);
  for (const name of ["ttftMs", "tpotMs", "e2eMs"]) expect(report.latency[name].mean).toBeGreaterThan(0);
  expect(report.latency.ttftMs.p50).toBeLessThanOrEqual(report.latency.e2eMs.p50);
});

test("a saved run has its steps, and the summary describes the engine", async () => {
  const folder = newFolder();
  const args = ["replay", ...few.slice(0, -1), "--target", "cpu", "--threads", "1", "--pace", "none", "--out", "run"];
  const { stdout } = await fromCheckout(folder, args);
  expect(stdout).toMatch(/engine {2}random:tiny \(\d+,\d+ parameters\) on the CPU, 1 thread; all requests/);
  expect(stdout).toMatch(/TTFT +\d/);
  const again = await fromCheckout(folder, ["replay", ...few, "--target", "sim", "--cost", "run", "--json"]);
  expect(JSON.parse(again.stdout).simulation.cost).toBe("run");
});

test("with --output-lengths free all metrics are of the generated tokens", async () => {
  const folder = newFolder();
  const free = ["--target", "cpu", "--output-lengths", "free", "--max-output", "40", "--bits", "8"];
  const { stdout } = await fromCheckout(folder, ["replay", ...few.slice(0, -1), ...free, "--out", "run", "--json"]);
  const report = JSON.parse(stdout);
  expect(report.engine).toMatchObject({ bits: 8, answers: "free", maxOutput: 40 });
  const { command } = JSON.parse(readFileSync(join(folder, "run/run.json"), "utf8"));
  expect(command).toContain(" --max-output 40 --bits 8 --output-lengths free ");
  const file = new Uint8Array(readFileSync(join(folder, "run/requests.parquet"))).buffer as ArrayBuffer;
  const written = (await parquetReadObjects({ file })).map((row) => Number(row["outputTokens"]));
  const total = written.reduce((sum, count) => sum + count, 0);
  expect(total).not.toBe(report.trace.outputTokens);
  expect(report.throughput.outputTokensPerS * report.throughput.makespanS).toBeCloseTo(total, 6);

  const asRecorded = await fromCheckout(folder, ["replay", ...few, "--target", "cpu", "--json"]);
  const { throughput, trace } = JSON.parse(asRecorded.stdout);
  expect(throughput.outputTokensPerS * throughput.makespanS).toBeCloseTo(trace.outputTokens, 6);
});

test("the summary reports 4-bit weights, and runs of different weights have different folders", async () => {
  const folder = newFolder();
  for (const bits of ["32", "4"]) {
    const { stdout } = await fromCheckout(folder, ["replay", ...few.slice(0, -1), "--target", "cpu", "--bits", bits]);
    expect(stdout.includes("parameters, 4-bit weights) on the CPU")).toBe(bits === "4");
  }
  const runs = readdirSync(join(folder, "runs"));
  expect(runs).toEqual(Array(2).fill(expect.stringMatching(/^example-cpu-random_tiny-hash-table-lru-2000-\w{8}$/)));
});

test("generate prints text, and a second prompt hits the prefix that it shares with the first", async () => {
  const prompts = ["What is a key-value cache good for?", "What is a key-value cache bad for?"];
  const { stdout, stderr } = await fromCheckout(newFolder(), ["generate", ...prompts, "--max-tokens", "8"]);
  expect(stdout.length).toBeGreaterThan(0);
  const [first, second] = stderr.trim().split("\n");
  expect(first).toMatch(/^35 prompt tokens, 0 of them cached; first token after .* tokens\/s$/);
  expect(second).toMatch(/^34 prompt tokens, 16 of them cached;/);
});

describe.concurrent("options that an engine does not support are refused in one line", () => {
  const cases: [args: string, message: RegExp][] = [
    ["replay --target cpu --gpu h200", /^--gpu needs --target sim$/],
    ["replay --target sim --threads 1", /^--threads needs --target cpu$/],
    ["replay --target cpu --model random:tny", /random:tiny/],
    ["replay --target cpu --model nowhere", /^no model folder nowhere; /],
    ["replay --target sim --bits 8", /^--bits needs --target cpu or cuda$/],
    ["replay --output-lengths free", /^--output-lengths needs --target cpu or cuda$/],
    ["replay --target cpu --bits 16", /^--bits is 16, expected 32, 8 or 4 with --target cpu$/],
    ["replay --target cuda --bits 8", /^--bits is 8, expected 16 with --target cuda$/],
    ["replay --target cuda --threads 2", /^--threads is not an option of --target cuda: /],
    ["replay --target cpu --bits 5", /^--bits is "5", expected 32, 16, 8 or 4$/],
    ["replay --target cpu --output-lengths long", /^--output-lengths is "long", expected trace or free$/],
    ["replay --target cpu --output-lengths free --max-output 999999", /^request 0 has \d+ tokens with its output, /],
    ["replay --target cpu --pace fast", /^--pace is "fast", expected busy or real or none$/],
    ["replay --target cpu --blocks unlimited", /^an engine has no unlimited cache/],
    ["replay --target cpu --capacity 1KiB", /less than the \d+ bytes of one block/],
    [
      "replay --target cpu --model random:tiny-gpt2",
      /^request \d+ has \d+ tokens with its output, .* has 1024 positions$/,
    ],

    ["generate --model nowhere hello", /^no model folder nowhere; /],
  ];
  test.each(cases)("kvlab %s", async (args, message) => {
    expect(await refusal(newFolder(), args.split(" "))).toMatch(message);
  });
  test("free output lengths, if the cache stores the outputs of the trace", async () => {
    const folder = newFolder();
    const request = { input_toks: 2, output_toks: 1, arrival_time_ns: 0, input_tok_ids: [1, 2], output_tok_ids: [3] };
    writeFileSync(join(folder, "message.jsonl"), JSON.stringify(request));
    const args = "replay message.jsonl --target cpu --preset vllm --output-lengths free --blocks 10".split(" ");
    expect(await refusal(folder, args)).toMatch(/^cache-generated=true caches the output tokens of the trace/);
  });
  test("a folder without a model", async () => {
    const folder = newFolder();
    mkdirSync(join(folder, "model"));
    writeFileSync(join(folder, "model/config.json"), "{}");
    expect(await refusal(folder, ["generate", "--model", "model", "hello"])).toContain("config.json");
  });
});
