import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { hasRecordedTraces, recordedTracePath } from "../support/recordings.ts";
import { ended, json, newFolder, refusal, start } from "./program.ts";

/** The model cache is in the folder of the test. */
async function calibrated(folder: string, args: readonly string[]) {
  const { code, stdout, stderr } = await ended(start(folder, args, { XDG_CACHE_HOME: folder }));
  if (code !== 0) throw new Error(`exit code ${code}: ${stderr}`);
  return stdout;
}

const few = ["--limit", "40", "--blocks", "500", "--no-save"];

test("an engine is calibrated, the simulator uses the cost file, and the plot has a point for every step", async () => {
  const folder = newFolder();
  const small = ["--max-prompt", "96", "--max-batch", "2", "--rounds", "1"];
  const document = JSON.parse(await calibrated(folder, ["calibrate", ...small, "--out", "tiny.json", "--json"]));
  expect(document).toMatchObject({ schema: "calibrate/1", from: null, cost: "tiny.json", plot: "tiny.svg" });
  expect(document.about).toMatch(/^random:tiny on the CPU, \d+ threads?, 32 bits, blocks of 16, /);
  const kinds = document.residuals.map(({ kind }: { kind: string }) => kind);
  expect(kinds).toEqual(["answers", "both", "prompts", "all"]);
  for (const { picoseconds, lowPs, highPs } of document.coefficients) {
    expect(picoseconds).toBeGreaterThanOrEqual(0);
    expect(lowPs).toBeLessThanOrEqual(highPs);
  }
  const cost = JSON.parse(readFileSync(join(folder, "tiny.json"), "utf8"));
  expect(cost).toMatchObject({ schema: "cost/1", about: document.about });
  const svg = readFileSync(join(folder, "tiny.svg"), "utf8");
  expect(svg.match(/<circle [^>]* r="2"/g)).toHaveLength(document.steps);
  const { simulation, latency } = await json(folder, ["replay", "--target", "sim", "--cost", "tiny.json", ...few]);
  expect(simulation.cost).toBe("tiny.json");
  expect(latency.ttftMs.mean).toBeGreaterThan(0);
});

test("an operator profile is written, the simulator uses it, and an interrupted measurement leaves no file", async () => {
  const folder = newFolder();
  const small = ["calibrate", "--max-prompt", "32", "--max-batch", "1", "--profile"];
  const text = await calibrated(folder, [...small, "cpu", "--rounds", "1"]);
  expect(text).toMatch(/^profiled random:tiny on the CPU, /);
  expect(text.replaceAll(/\s+/g, " ")).toContain("for kvlab replay --target sim --cost profile:./cpu");
  const { profiles } = await json(folder, ["profiles", "./cpu"]);
  expect(profiles).toMatchObject([{ name: "cpu", gpu: "cpu", model: "random:tiny" }]);
  const { simulation } = await json(folder, ["replay", "--target", "sim", "--cost", "profile:./cpu", ...few]);
  expect(simulation).toMatchObject({ cost: "profile:cpu/tp1", gpu: "cpu", model: "random:tiny" });
  expect(await refusal(folder, [...small, "cpu"])).toBe("cpu: has files in it; expected a new folder for the profile");

  const child = start(folder, [...small, "new/cpu", "--rounds", "1000"], { XDG_CACHE_HOME: folder });
  const end = ended(child);
  await expect.poll(() => readdirSync(folder)).toContain("new");
  child.kill("SIGINT");
  expect((await end).code).toBe(130);
  expect(readdirSync(folder)).not.toContain("new");
});

test("a fit to a saved run reproduces the coefficients that it was simulated with", async () => {
  const folder = newFolder();
  const picoseconds = { step: 5e9, prefillStep: 1e9, prefillTokens: 2e7, decodeTokens: 3e8, decodeContextTokens: 1e6 };
  writeFileSync(join(folder, "known.json"), JSON.stringify({ schema: "cost/1", picoseconds }));
  const run = ["replay", "--target", "sim", "--cost", "known.json", "--limit", "200", "--out", "run"];
  await json(folder, run);
  const document = await json(folder, ["calibrate", "--from", "run", "--out", "again.json"]);
  expect(document).toMatchObject({ from: "run", about: "the steps of run" });
  const found = JSON.parse(readFileSync(join(folder, "again.json"), "utf8")).picoseconds;
  const [before, after] = [picoseconds, found].map((ps) => [ps.step, ps.prefillTokens, ps.decodeContextTokens]);
  before.forEach((ps, i) => {
    expect(after[i] / ps).toBeCloseTo(1, 3);
  });
  const again = await json(folder, ["calibrate", "--from", "run", "--out", "again.json"]);
  expect(again).toEqual(document);
});

/** A request log in vLLM's format, and the trace of its requests. */
function logged(folder: string, requests: readonly object[]): string[] {
  const row = { input_toks: 2, output_toks: 3, arrival_time_ns: 0, input_tok_ids: [1, 2], output_tok_ids: [3, 4, 5] };
  const options = { model: "meta-llama/Llama-3.1-8B", max_num_seqs: 8, max_num_batched_tokens: 64 };
  const instances = [{ hardware: "h200", npu_mem: { mem_util: 0.9 } }];
  mkdirSync(join(folder, "log"));
  const lines = (rows: readonly object[]) => rows.map((one) => `${JSON.stringify(one)}\n`).join("");
  writeFileSync(join(folder, "trace.jsonl"), lines([row, { ...row, arrival_time_ns: 5e9 }]));
  writeFileSync(join(folder, "log/meta.json"), JSON.stringify({ engine_kwargs: options }));
  writeFileSync(join(folder, "log/config.json"), JSON.stringify({ nodes: [{ instances }] }));
  writeFileSync(join(folder, "log/requests.jsonl"), lines(requests));
  return ["calibrate", "trace.jsonl", "--from", "log"];
}

const finished = { input_toks: 2, output_toks: 3, queued_ts: 1, first_token_ts: 1.5, last_token_ts: 2 };

describe.concurrent("an invalid request log is refused in one line", () => {
  const cases: [what: string, requests: readonly object[], message: RegExp][] = [
    [
      "a missing request",
      [{ request_id: "a-0", ...finished }],
      /^log\/requests\.jsonl: has 1 requests, trace\.jsonl 2$/,
    ],
    [
      "a missing field",
      [{ request_id: "a-0", ...finished, queued_ts: undefined }],
      /^log\/requests\.jsonl:1: queued_ts is undefined, expected a number$/,
    ],
    [
      "a token before the request was queued",
      [{ request_id: "a-0", ...finished, first_token_ts: 0 }],
      /^log\/requests\.jsonl:1: a token precedes queued_ts/,
    ],
    [
      "another trace's request",
      [0, 1].map((i) => ({ request_id: `a-${i}`, ...finished, input_toks: 2 + i })),
      /^log\/requests\.jsonl: a-1 is not request 1 of trace\.jsonl$/,
    ],
    [
      "too few requests",
      [0, 1].map((i) => ({ request_id: `a-${i}`, ...finished })),
      /^log: 4 steps are too few for \d+ coefficients, expected \d+ at least$/,
    ],
  ];
  test.each(cases)("%s", async (_, requests, message) => {
    const folder = newFolder();
    expect(await refusal(folder, logged(folder, requests))).toMatch(message);
  });
});

test.runIf(hasRecordedTraces)(
  "a fit to a vLLM request log, which has no steps, reproduces its token times",
  async () => {
    const folder = newFolder();
    const trace = recordedTracePath("sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl.gz");
    const log = recordedTracePath("sharegpt/vllm-0.19-rtxpro6000-llama-3.1-8b");
    const document = await json(folder, ["calibrate", trace, "--from", log, "--out", "vllm.json"]);
    const [, later] = document.residuals;
    expect(later).toMatchObject({ kind: "later tokens", steps: 300 });
    for (const name of ["p5", "p50", "p95", "total"]) expect(Math.abs(later[name]), name).toBeLessThan(0.03);
    // Both count in nearly every step, so only the sum of the two is determined.
    const fixed = document.coefficients.filter(({ name }: { name: string }) => /^(step|batchStep)$/.test(name));
    const ms = fixed.reduce((sum: number, { picoseconds }: { picoseconds: number }) => sum + picoseconds / 1e9, 0);
    // Reading 16 GB of weights at 1.6 TB/s takes 10 ms.
    expect(ms).toBeGreaterThan(10);
    expect(ms).toBeLessThan(15);
  },
);

describe.concurrent("invalid options are refused in one line", () => {
  const cases: [args: string, message: RegExp][] = [
    ["calibrate --target sim", /^--target is "sim", expected cpu or cuda: /],
    ["calibrate --model nowhere", /^no model folder nowhere; /],
    ["calibrate --max-prompt 16", /^--max-prompt is "16", expected a whole number from 32$/],
    [
      "calibrate --block-size 64 --max-prompt 100",
      /^prompts have at most 100 tokens, expected two blocks of 64 at least$/,
    ],
    ["calibrate --model random:tiny-gpt2 --max-prompt 4096", /has 1024 positions$/],
    ["calibrate --from nowhere", /^nowhere\/steps\.parquet: no such file; expected the folder of a run$/],
    ["calibrate --from nowhere --model random:tiny", /^--model and --from exclude each other: /],
    ["calibrate trace.jsonl", /^a trace \(trace\.jsonl\) needs --from DIR, /],
    ["calibrate --out a.json --plot a.json", /^--plot is a\.json, the file of the cost model; expected another one$/],
    ["calibrate --profile cpu --preset vllm", /^--preset and --profile exclude each other: /],
    ["calibrate trace.jsonl --profile cpu", /^a trace and --profile exclude each other: /],
    ["calibrate --profile cpu --out a.json", /^--out and --profile exclude each other: /],
    ["calibrate --profile cpu --block-size 32", /^--block-size and --profile exclude each other: /],
    ["calibrate --profile /proc/new", /^\/proc\/new: cannot be written \(EN/],
  ];
  test.each(cases)("kvlab %s", async (args, message) => {
    expect(await refusal(newFolder(), args.split(" "))).toMatch(message);
  });

  test("damaged runs, and runs without times", async () => {
    const folder = newFolder();
    mkdirSync(join(folder, "broken"));
    writeFileSync(join(folder, "broken/steps.parquet"), "PAR1 and nothing else");
    expect(await refusal(folder, ["calibrate", "--from", "broken"])).toMatch(
      /^broken\/steps\.parquet: is not Parquet \(/,
    );
    await json(folder, ["replay", "--limit", "20", "--out", "untimed"]);
    expect(await refusal(folder, ["calibrate", "--from", "untimed"])).toBe(
      "untimed/steps.parquet: has no column sequences; expected a timed run that this version or a later one saved",
    );
    writeFileSync(join(folder, "file"), "");
    expect(await refusal(folder, ["calibrate", "--out", "file/cost.json"])).toBe(
      "file/cost.json: cannot be written, file is a file",
    );
  });
});
