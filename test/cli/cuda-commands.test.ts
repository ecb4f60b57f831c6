import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { buildTimeoutMs, canEmulate, emulatorLibrary } from "../engine/cuda/emulation/build.ts";
import { ended, newFolder, start } from "./program.ts";

const folder = newFolder();
let library = "";
beforeAll(async () => {
  if (canEmulate) library = await emulatorLibrary();
}, buildTimeoutMs);

const run = (args: readonly string[], driver = library) => ended(start(folder, args, { KVLAB_CUDA_DRIVER: driver }));

test("doctor passes without a CUDA driver, and says that there is none", async () => {
  const [{ code, stdout }, text] = await Promise.all(
    [["doctor", "--json"], ["doctor"]].map((args) => run(args, "libno-such-driver.so")),
  );
  const { ok, findings, engine } = JSON.parse(stdout);
  expect({ code, ok, cuda: engine.cuda }).toEqual({ code: 0, ok: true, cuda: null });
  expect(findings).toContainEqual({
    ...{ what: "CUDA", ok: false, optional: true },
    found: "not available: no CUDA driver: libno-such-driver.so not found",
  });
  expect(text.stdout).toMatch(/^ {2}– CUDA {10}not available: no CUDA driver/m);
});

test.each([
  ["generate hi --target cuda --bits 8", "--bits is 8, expected 16 with --target cuda"],
  [
    "generate hi --target cuda --threads 1",
    "--threads is not an option of --target cuda: the model's operators run on the GPU",
  ],
  ["replay example --target cuda --bits 32", "--bits is 32, expected 16 with --target cuda"],
  ["verify example --target cuda --bits 4", "--bits is 4, expected 16 with --target cuda"],
  [
    "calibrate --target cuda --threads 2",
    "--threads is not an option of --target cuda: the model's operators run on the GPU",
  ],
  [
    "experiment roseinfer --target cuda --threads 2",
    "--threads is not an option of --target cuda: the model's operators run on the GPU",
  ],
  ["replay example --bits 16 --target cpu", "--bits is 16, expected 32, 8 or 4 with --target cpu"],
  ["fuzz --beat lru fifo --target cuda", "--beat and --target exclude each other"],
  ["generate hi --target sim", '--target is "sim", expected cpu or cuda: generate runs a model'],
])("kvlab %s is refused by name", async (args, message) => {
  const { code, stderr } = await run(args.split(" "));
  expect([code, stderr]).toEqual([2, `kvlab: ${message}\n`]);
});

describe.runIf(canEmulate)("in emulation", () => {
  test("doctor runs a model on the device, and shows the memory of a model on it", async () => {
    const { code, stdout } = await run(["doctor", "--model", "random:tiny", "--json"]);
    const { findings, engine, model } = JSON.parse(stdout);
    expect(code).toBe(0);
    expect(engine.cuda).toMatchObject({ device: "CPU emulation" });
    const found = new Map<string, string>(findings.map((one: Record<string, string>) => [one["what"], one["found"]]));
    expect(found.get("engine, cuda")).toBe("random:tiny runs, its logits are correct");
    expect(found.get("fit, cuda")).toMatch(/ beside 16-bit weights \(/);
    expect(model.otherBackends).toMatchObject([{ name: "cuda", bits: 16, kvBytesPerToken: 256, fits: true }]);
  });

  test("generate reuses the prefix of an earlier prompt", async () => {
    const args = "--target cuda --max-tokens 4 --json --temperature 1 --top-k 20".split(" ");
    const prompts = ["A prompt of more than one block", "A prompt of more than one chunk"];
    const { code, stdout } = await run(["generate", ...prompts, ...args]);
    const report = JSON.parse(stdout);
    expect([code, report.backend, report.bits, report.threads]).toEqual([0, "cuda-emulated", 16, null]);
    const answers: { cachedTokens: number; tokens: number[] }[] = report.answers;
    expect(answers.map(({ cachedTokens, tokens }) => [cachedTokens, tokens.length])).toEqual([
      [0, 4],
      [16, 4],
    ]);
  });

  test("fuzz finds no counterexample, and states the backend", async () => {
    const { code, stdout } = await run("fuzz --target cuda --cases 5 --against sim-engine,caching --json".split(" "));
    const { backend, found, cases } = JSON.parse(stdout);
    expect([code, backend, found]).toEqual([0, "cuda-emulated", 0]);
    expect(cases).toBeGreaterThan(5);
  });

  test("calibrate fits a cost model to its steps, which the simulator uses", async () => {
    const args = "calibrate --target cuda --max-prompt 64 --max-batch 2 --rounds 1 --out cost.json --json";
    const { code, stdout } = await run(args.split(" "));
    expect(code).toBe(0);
    expect(JSON.parse(stdout).about).toMatch(/^random:tiny on the GPU, 16 bits, blocks of 16, /);
    const file = join(folder, "cost.json");
    expect(JSON.parse(readFileSync(file, "utf8"))).toBeTypeOf("object");
    const simulated = await run(["replay", "example", "--limit", "5", "--target", "sim", "--cost", file, "--no-save"]);
    expect([simulated.code, simulated.stderr]).toEqual([0, ""]);
  });
});
