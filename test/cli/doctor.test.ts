import { mkdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { randomConfig, randomWeights } from "../../engine/model/random.ts";
import type { Finding } from "../../lab/doctor/finding.ts";
import { checkpointOf } from "../support/checkpoints.ts";
import { bytePairTokenizer } from "../support/tokenizers.ts";
import { ended, newFolder, refusal, start } from "./program.ts";

/** The model cache of all these tests. */
const cache = newFolder();

async function doctor(args: readonly string[] = [], folder = newFolder(), cacheHome = cache) {
  const command = ["doctor", ...args, "--json"];
  const { code, stdout, stderr } = await ended(start(folder, command, { XDG_CACHE_HOME: cacheHome }));
  expect(stderr).toBe("");
  const { findings, ...document } = JSON.parse(stdout);
  for (const { found } of findings) expect(found).not.toContain("\n");
  expect(code).toBe(document.ok ? 0 : 1);
  const failed = findings.filter(({ ok, optional }: Finding) => !ok && !optional);
  return { ...document, found: of(findings), failed: of(failed) };
}

const of = (findings: readonly { readonly what: string; readonly found: string }[]): Record<string, string> =>
  Object.fromEntries(findings.map(({ what, found }) => [what, found]));

const config = randomConfig("tiny");
const checkpoint = (files: Record<string, unknown> = {}) =>
  checkpointOf(config, randomWeights(config, 1), { files: { "tokenizer.json": bytePairTokenizer, ...files } });

describe.concurrent("this machine", () => {
  test("passes all checks, including that of the engine", async () => {
    const { schema, ok, found, memory, engine, model } = await doctor();
    const runtime = createRequire(import.meta.url).resolve("onnxruntime-node/package.json");
    const { version } = JSON.parse(readFileSync(runtime, "utf8"));
    expect({ schema, ok, model }).toEqual({ schema: "doctor/1", ok: true, model: null });
    expect(found).toMatchObject({ engine: "random:tiny runs, its logits are correct", libraries: "all load" });
    expect(engine).toMatchObject({ onnxruntime: version, modelCache: { path: join(cache, "kvlab/models") } });
    expect(engine.providers).toContain("cpu");
    expect(memory.availableBytes).toBeGreaterThan(0);
    expect(memory.totalBytes).toBeGreaterThanOrEqual(memory.availableBytes);
  });

  test("fails if runs cannot be saved", async () => {
    const folder = newFolder();
    writeFileSync(join(folder, "runs"), "");
    expect((await doctor([], folder)).failed).toEqual({
      "runs/": "runs: cannot be written, runs is a file; use --no-save or --out DIR",
    });
  });

  test("fails if the model cache cannot be written", async () => {
    const file = join(newFolder(), "file");
    writeFileSync(file, "");
    const { failed } = await doctor([], newFolder(), file);
    expect(Object.keys(failed)).toEqual(["model cache", "engine"]);
    expect(failed["model cache"]).toContain("cannot be written");
    expect(failed["engine"]).toContain(file);
  });
});

describe.concurrent("a model", () => {
  test("is described by its sizes", async () => {
    const { ok, memory, model } = await doctor(["--model", "random:tiny"]);
    const weightBytes = { 4: 198_912, 8: 252_160, 32: 558_336 };
    expect(model).toMatchObject({ architecture: "llama", parameters: 139_584, maxPositions: 131_072, weightBytes });
    expect(model).toMatchObject({ kvBytesPerToken: 512, bits: 32, poolBytes: null, fits: true });
    expect(model.tokensThatFit[8]).toBe(Math.floor((memory.availableBytes - weightBytes[8]) / 512));
    expect(ok).toBe(true);
  });

  test("fits with a cache of the given size, or does not", async () => {
    const small = await doctor(["--model", "random:160m", "--bits", "4", "--blocks", "10", "--block-size", "8"]);
    expect(small.model).toMatchObject({ bits: 4, poolBytes: 80 * 73_728, fits: true });
    expect(small.found["fit"]).toMatch(/^80 tokens \(5\.6 MiB\) beside 4-bit weights \(176\.0 MiB\) in /);
    const large = await doctor(["--model", "random:tiny", "--capacity", "512TiB"]);
    expect(large).toMatchObject({ ok: false, model: { poolBytes: 2 ** 49, fits: false } });
    expect(large.failed).toEqual({
      fit: expect.stringMatching(/^1,099,511,627,776 tokens \(512\.0 TiB\) do not fit /),
    });
  });

  test("in a complete folder passes", async () => {
    const { found, failed } = await doctor(["--model", checkpoint()]);
    expect(failed).toEqual({});
    expect(found).toMatchObject({ model: "llama, 139,584 parameters, 131,072 positions", tokenizer: "loads" });
  });

  test("in a damaged folder fails with one line", async () => {
    const cut = checkpoint();
    truncateSync(join(cut, "model.safetensors"), 100_000);
    const empty = join(newFolder(), "empty");
    mkdirSync(empty);
    const broken = checkpoint({ "tokenizer.json": "{}" });
    const [ofCut, ofEmpty, ofNone, ofBroken] = await Promise.all(
      [cut, empty, join(empty, "none"), broken].map((folder) => doctor(["--model", folder])),
    );
    expect(ofCut.failed["model"]).toContain(join(cut, "model.safetensors"));
    expect(ofEmpty.failed["model"]).toBe(`${join(empty, "config.json")}: no such file`);
    expect(ofNone.failed["model"]).toMatch(/^no model folder /);
    for (const { ok, model } of [ofCut, ofEmpty, ofNone]) expect({ ok, model }).toEqual({ ok: false, model: null });
    expect(ofBroken.failed).toEqual({ tokenizer: expect.stringMatching(/tokenizer\.json: not a tokenizer: /) });
  });
});

test.each([
  ["--bits 8", "--bits needs --model"],
  ["--block-size 8", "--block-size needs --model"],
  ["--model random:tiny --blocks 1 --capacity 1GiB", /^--capacity and --blocks exclude each other/],
  ["--model random:tiny --capacity 4", '--capacity is "4", expected a size such as 16GiB or 500MB'],
  ["--model random:tiny --bits 5", '--bits is "5", expected 32, 16, 8 or 4'],
])("kvlab doctor %s is refused", async (args, message) => {
  expect(await refusal(newFolder(), ["doctor", ...args.split(" ")])).toMatch(message);
});
