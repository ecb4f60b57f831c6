import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ended, newFolder, refusal, start, startReporting, untilDoing } from "./program.ts";

/** The model cache is in the folder of the test. */
const verify = (folder: string, args: string) =>
  ended(start(folder, ["verify", ...args.split(" ")], { XDG_CACHE_HOME: folder }));

test("engine and simulator make the same decisions, whose number is printed", async () => {
  const folder = newFolder();
  const args = "example --limit 12 --preset vllm --blocks 2000 --threads 1 --pace none";
  const { code, stdout, stderr } = await verify(folder, args);
  expect([code, stderr]).toEqual([0, ""]);
  expect(stdout).toMatch(/^identical: [\d,]+ decisions in [\d,]+ steps\n {2}admit 12, .*\n.*chunk/m);
});

test("the same as a JSON document", async () => {
  const args = "example --limit 12 --preset sglang --scheduler lpm --blocks 150 --output-lengths free --fold --json";
  const { code, stdout } = await verify(newFolder(), args);
  const document = JSON.parse(stdout);
  expect([code, document.identical]).toEqual([0, true]);
  expect(document).toMatchObject({
    schema: "verify/1",
    target: "cpu",
    policy: { preset: "sglang", scheduler: "lpm", blocks: 150 },
    engine: { model: "random:tiny", answers: "free", backend: "onnx-cpu" },
    difference: null,
    thereupon: null,
  });
  const { chunk, ...events } = document.decisionsByKind as Record<string, number>;
  expect(events["step"]).toBe(document.steps);
  expect(events["finish"]).toBe(12);
  expect(Object.values(events).reduce((sum, count) => sum + count, chunk)).toBe(document.decisions);
});

test("contents are compared with recomputed ones", async () => {
  const args = "example --limit 12 --shorten 8 --preset sglang --blocks 200 --threads 1 --pace none --contents";
  const { code, stdout, stderr } = await verify(newFolder(), args);
  expect([code, stderr]).toEqual([0, ""]);
  expect(stdout).toMatch(/^identical: [\d,]+ decisions in [\d,]+ steps\n/m);
  expect(stdout).toMatch(
    /^identical contents: [\d,]+ blocks of \d+ sequences? and the logits of \d+ hits?,\s+recomputed without the cache, bit for bit\n$/m,
  );
  const { stdout: text } = await verify(newFolder(), `${args} --contents-share 100% --json`);
  const { identical, contents } = JSON.parse(text);
  expect(identical).toBe(true);
  expect(contents).toMatchObject({ identical: true, tolerance: null, share: 1, difference: null });
  // The end of each prompt, and the last step of each request.
  expect(contents.sequences).toBeGreaterThanOrEqual(24);
  expect(contents.hits).toBeGreaterThan(0);
});

test("contents are compared while engines take turns", async () => {
  const args = "example --limit 10 --shorten 8 --preset sglang --blocks 60 --threads 1 --calibrate 1 --contents --json";
  const { code, stdout } = await verify(newFolder(), args);
  const { identical, contents, times } = JSON.parse(stdout);
  expect([code, identical, contents.identical]).toEqual([0, true, true]);
  expect(contents.blocks).toBeGreaterThan(0);
  expect(times).toHaveLength(19);
});

test("times are compared with the predictions of a cost model", async () => {
  const folder = newFolder();
  const picoseconds = { step: 1e9, prefillTokens: 1e7, decodeTokens: 1e8 };
  writeFileSync(join(folder, "cost.json"), JSON.stringify({ schema: "cost/1", about: "made up", picoseconds }));
  const args = "example --limit 12 --preset vllm --blocks 150 --pace none --cost cost.json";
  const { code, stdout } = await verify(folder, `${args} --json`);
  const { identical, times } = JSON.parse(stdout);
  expect([code, identical]).toEqual([0, true]);
  const figures = Object.fromEntries(times.map((one: { figure: string }) => [one.figure, one]));
  for (const { engine, simulated, error } of times) expect(error).toBeCloseTo(simulated / engine - 1, 12);
  expect(Object.keys(figures)).toHaveLength(19);
  // The predictions do not depend on the engine's times: a simulation alone gives the same.
  const simulatedArgs = args.replace("--pace none", "--target sim --speed 1e12 --no-save --json").split(" ");
  const simulated = await ended(start(folder, ["replay", ...simulatedArgs]));
  const { latency } = JSON.parse(simulated.stdout);
  expect(figures["e2eMs mean"].simulated).toBeCloseTo(latency.e2eMs.mean, 3);
});

test("times are compared with a cost model of designed steps, which run in turn with the trace, served twice", async () => {
  const args = "example --limit 10 --shorten 8 --preset sglang --blocks 60 --threads 1 --calibrate 1";
  const { code, stdout } = await verify(newFolder(), `${args} --json`);
  const { identical, times, calibration } = JSON.parse(stdout);
  expect([code, identical]).toEqual([0, true]);
  expect(times).toHaveLength(19);
  for (const { engine, again, noise, simulated, error } of times) {
    expect(noise).toBeCloseTo(again / engine - 1, 12);
    expect(error).toBeCloseTo(simulated / ((engine + again) / 2) - 1, 12);
  }
  expect(calibration.steps).toBeGreaterThan(100);
  expect(calibration.coefficients.length).toBeGreaterThan(2);
  expect(calibration.residuals.map(({ kind }: { kind: string }) => kind)).toEqual(["answers", "prompts", "all"]);
  expect(calibration.traceResiduals.at(-1).kind).toBe("all");
  const { stdout: text } = await verify(newFolder(), args);
  expect(text).toMatch(/^ +engine +again +noise +simulated +error$/m);
  expect(text).toMatch(/The cost model is fitted to [\d,]+ designed steps/);
});

test("a signal ends all engines that take turns: exit code 130, one line, no files", async () => {
  const folder = newFolder();
  const args = "verify example --preset vllm --blocks 2000 --threads 1 --calibrate 1000".split(" ");
  const child = startReporting(folder, args, { XDG_CACHE_HOME: join(folder, "cache") });
  const end = ended(child);
  await untilDoing(child, "serving");
  child.kill("SIGINT");
  expect(await end).toEqual({ code: 130, stdout: "", stderr: "kvlab: interrupted\n" });
  expect(readdirSync(folder)).toEqual(["cache"]);
});

test.each([
  [
    "--calibrate 1 --pace real",
    "--calibrate and --pace real exclude each other: engines that take turns cannot run in real time",
  ],
  ["--calibrate 1 --cost cost.json", "--calibrate and --cost exclude each other: both set the step times"],
  [
    "--calibrate 1 --blocks 20000000",
    /of free memory \(three engines take turns: \d+ \+ 20000000 \+ 20000000 blocks\)$/m,
  ],
  [
    "--contents --pace real",
    "--contents and --pace real exclude each other: requests would wait while contents are recomputed",
  ],
  ["--contents-share 10%", "--contents-share needs --contents"],
  ["--contents --contents-share 0%", '--contents-share is "0%", expected a percentage above 0% and up to 100%'],
  ["--contents --contents-share 0.5", '--contents-share is "0.5", expected a percentage above 0% and up to 100%'],
  [
    "--contents --blocks 20000000",
    /of free memory \(--contents recomputes in further blocks: 20000000 \+ \d+ blocks\)$/m,
  ],
  ["--calibrate 0", '--calibrate is "0", expected a whole number from 1 to 1000'],
])("%s is refused", async (options, message) => {
  const folder = newFolder();
  const picoseconds = { step: 1 };
  writeFileSync(join(folder, "cost.json"), JSON.stringify({ schema: "cost/1", picoseconds }));
  const { code, stdout, stderr } = await verify(
    folder,
    `example --limit 5 ${options.includes("--blocks") ? "" : "--blocks 500 "}${options}`,
  );
  expect([code, stdout]).toEqual([2, ""]);
  expect(stderr).toMatch(message);
});

test("a user's policy with unseeded random numbers is detected, with the first different victim", async () => {
  const folder = newFolder();
  const policy = `
    export default {
      name: "mine",
      description: "any one",
      create() {
        const idle = [];
        return {
          add(entry) { idle.push(entry); },
          remove(entry) { idle.splice(idle.indexOf(entry), 1); this.next = undefined; },
          victim() { return idle.includes(this.next) ? this.next : (this.next = idle[Math.floor(Math.random() * idle.length)]); },
        };
      },
    };`;
  writeFileSync(join(folder, "mine.js"), policy);
  const args = "example --limit 40 --eviction ./mine.js --blocks 400 --threads 1 --pace none";
  const { code, stdout, stderr } = await verify(folder, args);
  expect([code, stderr]).toEqual([1, ""]);
  expect(stdout).toMatch(/different: the first difference is after [\d,]+ steps? and [\d,]+ events, request \d+/);
  expect(stdout.match(/evicts content/g)!.length).toBeGreaterThanOrEqual(2);
  expect(stdout).toMatch(/cached: referenced, idle +\d+, \d+ +\d+, \d+/);
  const { stdout: text } = await verify(folder, `${args} --json`);
  const { identical, difference } = JSON.parse(text);
  expect(identical).toBe(false);
  const { engine, simulator } = difference.sides;
  expect(engine.before).toEqual(simulator.before);
  expect(engine.words).not.toBe(simulator.words);
});

test("pins, deletions and resets are executed on both sides", async () => {
  const folder = newFolder();
  const operations = [
    { before: 10, operation: "pin", like: 2, name: "mine" },
    { before: 11, operation: "delete", like: 4 },
    { before: 12, operation: "unpin", name: "mine" },
    { before: 13, operation: "reset" },
  ];
  writeFileSync(join(folder, "pins.jsonl"), operations.map((one) => JSON.stringify(one)).join("\n"));
  const args =
    "example --limit 14 --preset vllm --blocks 1300 --rate 0.02 --rule pin-blocks=50 --operations pins.jsonl";
  const { code, stdout } = await verify(folder, `${args} --json`);
  const { identical, decisionsByKind } = JSON.parse(stdout);
  expect([code, identical]).toEqual([0, true]);
  for (const kind of ["pin", "unpin", "drop", "clear"]) expect(decisionsByKind[kind], kind).toBeGreaterThan(0);
});

test("a shortened trace is marked in the report", async () => {
  const args = "example --limit 12 --shorten 8 --blocks 100 --rate 500 --json";
  const { code, stdout } = await verify(newFolder(), args);
  const { trace, policy, identical } = JSON.parse(stdout);
  expect([code, identical]).toEqual([0, true]);
  expect(trace).toMatchObject({ requests: 12, shortened: 8, unitTokens: 2 });
  expect(policy.blockTokens).toBe(2);
  expect(await refusal(newFolder(), ["verify", "--shorten", "5"])).toMatch(/^lengths cannot be divided by 5: /);
});

describe.concurrent("invalid options are refused in one line", () => {
  const cases: [args: string, message: RegExp][] = [
    ["verify --target sim", /^--target is "sim", expected cpu or cuda: /],
    ["verify --gpu h200", /^--gpu needs --target sim$/],
    ["verify --timeline t.json", /^--timeline is an option of kvlab replay$/],
    ["verify --blocks unlimited", /has no unlimited cache/],
    ["verify --blocks 10 --capacity 1GiB", /exclude each other/],
    ["verify --rule publish=step,finish", /one run has one value/],
    [
      "verify --index block-trie --rule store-tail=true --rule cache-generated=true --output-lengths free",
      /^store-tail=true needs the lengths of outputs, /,
    ],
  ];
  test.each(cases)("kvlab %s", async (args, message) => {
    expect(await refusal(newFolder(), args.split(" "))).toMatch(message);
  });
});
