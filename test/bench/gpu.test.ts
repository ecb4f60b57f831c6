import { spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectedLogits, modelNames, writeExpected } from "../../bench/gpu/expected.ts";
import { defaultBackend } from "../../engine/backends.ts";
import { driverVariable } from "../../engine/cuda/driver.ts";
import { loadModel } from "../../engine/model/load.ts";
import { randomConfig, randomWeights } from "../../engine/model/random.ts";
import { blocksFor, blockTokens, promptOf, stepOf } from "../../lab/calibrate/profile/batch-steps.ts";
import { profileNamed } from "../../lab/profiles/catalogue.ts";
import { readProfile } from "../../lab/profiles/read-profile.ts";
import { presetRegistry } from "../../policies/registry.ts";
import { bundlePrograms } from "../../scripts/gpu-programs.ts";
import { buildTimeoutMs, canEmulate, emulatorLibrary } from "../engine/cuda/emulation/build.ts";
import { checkpointOf } from "../support/checkpoints.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-gpu-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** The programs as gpu:pack bundles them, which start faster than their sources; inside node_modules, where koffi is found. */
const programs = mkdtempSync(fileURLToPath(new URL("../../node_modules/.cache/kvlab-gpu-", import.meta.url)));
afterAll(() => rmSync(programs, { recursive: true }));
const expected = join(folder, "expected");

let driver = "";
beforeAll(async () => {
  if (canEmulate) driver = await emulatorLibrary();
  await bundlePrograms(programs);
  await writeExpected(expected);
}, buildTimeoutMs);

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

type Program = "check" | "bench";
const fromSource = (program: Program) => ["--import", "tsx", `bench/gpu/${program}.ts`];
const fromBundle = (program: Program) => [join(programs, `${program}.js`)];

/** Runs a program of bench/gpu on the emulated device. */
function run(program: Program, args: readonly string[], library = driver, file = fromBundle(program)): Promise<Ended> {
  const child = spawn(process.execPath, [...file, ...args], { env: { ...process.env, [driverVariable]: library } });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (text) => (stdout += text));
  child.stderr.on("data", (text) => (stderr += text));
  return new Promise((resolve) => child.on("close", (code) => resolve({ code, stdout, stderr })));
}

const json = (file: string) => JSON.parse(readFileSync(join(folder, file), "utf8"));

test("without a driver both programs end with one line and exit code 2", async () => {
  for (const program of ["check", "bench"] as const) {
    const out = ["--out", join(folder, "none")];
    const { code, stderr } = await run(program, out, "/none.so", fromSource(program));
    expect({ code, stderr }).toEqual({ code: 2, stderr: `gpu:${program}: no CUDA driver: /none.so not found\n` });
  }
});

describe.runIf(canEmulate)("gpu:check", () => {
  test("passes all checks in emulation", { timeout: 300_000 }, async () => {
    const out = join(folder, "check.json");
    const args = ["--requests", "24", "--python", "none", "--expected", expected, "--out", out];
    const { code, stdout } = await run("check", args);
    const { schema, backend, failed, checks } = json("check.json");
    expect(checks.filter(({ ok }: { ok: boolean }) => !ok)).toEqual([]);
    expect({ schema, backend, failed, code }).toEqual({
      ...{ schema: "gpu-check/1", backend: "cuda-emulated", failed: 0, code: 0 },
    });
    const names: string[] = checks.map(({ name }: { name: string }) => name);
    for (const model of modelNames) expect(names).toContain(`logits ${model}`);
    for (const { name } of presetRegistry.all) expect(names).toContain(`verify ${name}`);
    for (const name of names) expect(stdout).toContain(name);
    const skipped = checks.filter((check: { skipped: string | null }) => check.skipped !== null);
    expect(skipped).toMatchObject([{ name: "transformers", skipped: expect.stringContaining("none") }]);
  });

  test("computes the expected logits on the CPU in a checkout", async () => {
    const out = join(folder, "computed.json");
    const args = ["--only", "logits random:tiny-bloom", "--out", out];
    const { code } = await run("check", args, driver, fromSource("check"));
    expect([code, json("computed.json").checks.length]).toEqual([0, 1]);
  });

  test("a failed check does not stop the others: exit code 1", async () => {
    const wrong = join(folder, "wrong");
    cpSync(expected, wrong, { recursive: true });
    const [file] = readdirSync(wrong).filter((name) => name.includes("qwen2"));
    const path = join(wrong, file);
    writeFileSync(path, new Uint8Array(new Float32Array(readFileSync(path).length / 4).fill(1).buffer));
    const args = ["--only", "logits", "--expected", wrong, "--out", join(folder, "failed.json")];
    const { code, stdout } = await run("check", args);
    expect(code).toBe(1);
    expect(stdout).toMatch(/FAILED {2}logits random:tiny-qwen2\n.*largest error/);
    const ok = json("failed.json").checks.map((check: { ok: boolean }) => check.ok);
    expect(ok).toEqual(modelNames.map((name) => name !== "random:tiny-qwen2"));
    expect(await expectedLogits("random:tiny", expected)).toEqual(await expectedLogits("random:tiny", undefined));
  });

  test("a check that ends its process does not stop the others", async () => {
    const python = join(folder, "python");
    writeFileSync(python, "#!/bin/sh\nkill -9 $PPID\n", { mode: 0o755 });
    const args = [
      "--only",
      "tr",
      "--expected",
      expected,
      "--python",
      python,
      "--requests",
      "24",
      "--out",
      join(folder, "killed.json"),
    ];
    const { code, stdout } = await run("check", args);
    expect(code).toBe(1);
    const { checks, failed } = json("killed.json");
    expect(failed).toBe(1);
    expect(checks.filter(({ ok }: { ok: boolean }) => !ok)).toMatchObject([
      { name: "transformers", failures: [expect.stringContaining("the process ended with SIGKILL")] },
    ]);
    expect(checks.at(-1)).toMatchObject({ name: "verify trt-llm", ok: true });
    expect(stdout).toContain("1 checks failed");
  });

  test("compares logits with those of another library for the same checkpoint", async () => {
    const config = randomConfig("tiny-bloom");
    const checkpoint = checkpointOf(config, randomWeights(config, 3));
    const checkpoints = join(folder, "checkpoints");
    mkdirSync(checkpoints);
    const prompt = promptOf(20, config.vocabulary);
    writeFileSync(join(checkpoint, "prompt.json"), JSON.stringify(Array.from(prompt)));
    writeFileSync(join(checkpoint, "logits.f32"), new Uint8Array((await logitsOf(checkpoint, prompt)).buffer));
    symlinkSync(checkpoint, join(checkpoints, "bloom"));
    const args = ["--only", "transformers", "--checkpoints", checkpoints, "--out", join(folder, "oracle.json")];
    const { code, stdout } = await run("check", args);
    expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining("ok      transformers") });
    expect(json("oracle.json").checks[0].results.bloom).toMatchObject({ rows: 20 });
  });
});

/** Logits of all rows, computed on the CPU. */
async function logitsOf(checkpoint: string, tokens: Int32Array): Promise<Float32Array> {
  const model = loadModel(checkpoint);
  const executor = await defaultBackend.open({ model, blockCount: blocksFor(tokens.length), blockTokens });
  try {
    const step = stepOf([{ tokens, from: 0, to: tokens.length, block: 0 }]);
    const { logits } = await executor.executeStep({ ...step, logitsIndices: tokens.map((_, row) => row) });
    return logits.slice();
  } finally {
    await executor.close();
    model.close();
  }
}

describe.runIf(canEmulate)("gpu:bench", () => {
  test("measures all sections with a tiny shape, and writes an operator profile", async () => {
    const out = join(folder, "bench");
    const { code, stdout, stderr } = await run("bench", ["--shape", "tiny", "--out", out]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toContain("copy bandwidth");
    expect(stdout).toContain("read bandwidth");
    const document = json("bench/bench.json");
    expect(document).toMatchObject({ schema: "gpu-bench/1", shape: "tiny", backend: "cuda-emulated" });
    for (const name of [
      "rates",
      "decodeAttention",
      "weightLayouts",
      "decode",
      "prefill",
      "cachedPrefill",
      "small decode",
      "presets",
    ])
      expect(document).toHaveProperty([name]);
    const profile = join(out, "cpu-random-tiny");
    const lines = (name: string) =>
      gunzipSync(readFileSync(join(profile, "tp1", `${name}.csv.gz`)))
        .toString("utf8")
        .trim()
        .split("\n");
    expect(lines("dense")[0]).toBe("layer,tokens,time_us");
    expect(lines("attention")[0]).toBe("prefill_chunk,kv_prefill,n_decode,kv_decode,time_us");
    expect(lines("per_sequence")).toHaveLength(1 + 2 * 2);
    for (const name of ["dense", "attention", "per_sequence"])
      for (const line of lines(name).slice(1)) expect(Number(line.split(",").at(-1))).toBeGreaterThan(0);
    const meta = readFileSync(join(profile, "meta.yaml"), "utf8").split("\n");
    for (const line of ["gpu: CPU emulation", "hardware: cpu", "model: random:tiny", "tp_degrees: [1]"])
      expect(meta).toContain(line);
    // The simulator reads it, as `--cost profile:FOLDER`.
    const read = await readProfile(await profileNamed(profile), 1);
    for (const line of lines("attention").slice(1)) {
      const [chunk, cached, decodes, context, us] = line.split(",").map(Number);
      expect(read.attention.at(chunk, cached, decodes, context)).toBe(1e3 * us);
    }
  });
});
