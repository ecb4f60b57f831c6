import { cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { InputError } from "../../../core/errors.ts";
import { noLoad } from "../../../core/serving/step-load.ts";
import { listProfiles } from "../../../index.ts";
import { profileNamed, profileOf } from "../../../lab/profiles/catalogue.ts";
import { readProfile } from "../../../lab/profiles/read-profile.ts";
import { simulate } from "../../../lab/run/run-trace.ts";
import { hardwareNamed } from "../../../sim/cost/hardware.ts";
import { modelNamed } from "../../../sim/cost/models.ts";
import { Profiled } from "../../../sim/cost/profile/profiled.ts";

const rowsOf = (path: string) =>
  gunzipSync(readFileSync(path))
    .toString()
    .trim()
    .split("\n")
    .slice(1)
    .map((line) => line.split(","));

const known = await listProfiles();
const degrees = known.flatMap((profile) => profile.tensorParallel.map((degree) => [profile, degree] as const));

describe("the package's profiles", () => {
  test("are of models and GPUs that the simulator knows", () => {
    expect(known.map(({ name, gpu, model }) => [name, gpu, model])).toEqual([
      ["rtx4090-llama-3.1-8b", "rtx-4090", "llama-3.1-8b"],
      ["rtxpro6000-llama-3.1-8b", "rtx-pro-6000", "llama-3.1-8b"],
      ["rtxpro6000-qwen3-30b-a3b", "rtx-pro-6000", "qwen3-30b-a3b"],
      ["rtxpro6000-qwen3-32b", "rtx-pro-6000", "qwen3-32b"],
    ]);
  });

  test.each(degrees.map(([profile, degree]) => [`${profile.name}/tp${degree}`, profile, degree] as const))(
    "%s: attention, dense layers and sequences are exact at every measured point",
    async (name, profile, degree) => {
      const read = await readProfile(profile, degree);
      expect(read.name).toBe(name);
      const at = join(profile.folder, `tp${degree}`);
      let count = 0;
      for (const row of rowsOf(join(at, "attention.csv.gz"))) {
        const [chunk, cached, decodes, context, us] = row.map(Number);
        if (read.attention.at(chunk, cached, decodes, context) !== 1e3 * us) expect(row).toBe("exact");
        count++;
      }
      expect(count).toBeGreaterThan(8000);
      for (const [layer, tokens, us] of rowsOf(join(at, "dense.csv.gz")))
        expect(read.dense.get(layer)!.at(Number(tokens))).toBe(1e3 * Number(us));
      for (const [layer, sequences, us] of rowsOf(join(at, "per_sequence.csv.gz")))
        expect(read.perSequence.get(layer)!.at(Number(sequences))).toBe(1e3 * Number(us));
    },
  );
});

describe("a step", () => {
  test("is the sum of its operators' times: worked out from the files", async () => {
    const profile = await readProfile(await profileNamed("rtx4090-llama-3.1-8b"), 1);
    const cost = new Profiled({
      profile,
      shape: modelNamed("llama-3.1-8b"),
      hardware: hardwareNamed("rtx-4090"),
      blockTokens: 16,
    });
    const folder = join(known[0].folder, "tp1");
    const find = (file: string, ...key: string[]) =>
      Number(
        rowsOf(join(folder, file))
          .find((row) => key.every((part, i) => row[i] === part))!
          .at(-1),
      );
    const dense = (layer: string, tokens: string) => find("dense.csv.gz", layer, tokens);
    const layers = (tokens: string) =>
      32 *
        (2 * dense("layernorm", tokens) +
          ["qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj"]
            .map((name) => dense(name, tokens))
            .reduce((sum, us) => sum + us, 0)) +
      dense("embedding", tokens) +
      dense("final_layernorm", tokens);
    const sequences = (count: string) =>
      find("per_sequence.csv.gz", "lm_head", count) + find("per_sequence.csv.gz", "sampler", count);

    const decodes = { decodeTokens: 64, decodeContextTokens: 64 * 1024, longestDecodeTokens: 1024 };
    const decodeUs = layers("64") + 32 * find("attention.csv.gz", "0", "0", "64", "1024") + sequences("64");
    expect(cost.stepNs({ ...noLoad(), ...decodes, sequences: 64, logits: 64 })).toBe(Math.round(1e3 * decodeUs));

    // A chunk of 512 tokens behind 1,024 cached ones.
    const prefill = { prefillTokens: 512, prefillSequences: 1, prefillPairs: 512 * 1024 + (512 * 513) / 2 };
    const prefillUs = layers("512") + 32 * find("attention.csv.gz", "512", "1024", "0", "0") + sequences("1");
    expect(cost.stepNs({ ...noLoad(), ...prefill, sequences: 1 })).toBe(Math.round(1e3 * prefillUs));

    // Decodes are padded to a CUDA graph: 57 decodes take as long as 64, but for attention, logits and sampling.
    const few = (count: number) =>
      cost.stepNs({ ...noLoad(), decodeTokens: count, decodeContextTokens: count, longestDecodeTokens: 1 });
    expect(few(57)).toBeGreaterThan(1e3 * layers("64"));
  });
});

describe("--cost profile:NAME", () => {
  test("a profile of the package is the default where there is one, and names itself in the report", async () => {
    const options = { preset: "vllm", gpu: "rtx-4090", model: "llama-3.1-8b" };
    const byDefault = (await simulate("example", options)).report;
    const named = (await simulate("example", { preset: "vllm", cost: "profile:rtx4090-llama-3.1-8b" })).report;
    const roofline = (await simulate("example", { ...options, cost: "roofline" })).report;
    const costOf = (report: typeof named) => (report as unknown as { simulation: { cost: string } }).simulation.cost;
    expect(costOf(byDefault)).toBe("profile:rtx4090-llama-3.1-8b/tp1");
    expect(costOf(named)).toBe("profile:rtx4090-llama-3.1-8b/tp1");
    expect(costOf(roofline)).toBe("roofline");
    expect(await profileOf("h200", "llama-3.1-8b", 1)).toBeUndefined();
  });

  test.each([
    [{ cost: "profile:rtx409-llama-3.1-8b" }, 'did you mean "rtx4090-llama-3.1-8b"?'],
    [{ cost: "profile:nothing" }, "kvlab profiles describes them"],
    [{ cost: "profile" }, '--cost is "profile", expected profile:NAME (kvlab profiles lists the names)'],
    [{ cost: "profile:./nowhere" }, "nowhere/meta.yaml: no such file"],
    [{ cost: "profile:rtx4090-llama-3.1-8b", gpu: "h200" }, "was measured with --gpu rtx-4090, not h200"],
    [
      { cost: "profile:rtx4090-llama-3.1-8b", model: "qwen3-8b" },
      "was measured with --model llama-3.1-8b, not qwen3-8b",
    ],
    [{ cost: "profile:rtx4090-llama-3.1-8b", tp: 2 }, "has no times for --tp 2, only for 1"],
    [{ cost: "profile:rtxpro6000-qwen3-30b-a3b", tp: 2 }, "was measured with whole experts; give --ep"],
    [{ cost: "profile:rtx4090-llama-3.1-8b", kvDtype: "fp8" }, "keys and values of the model's type, not fp8"],
  ])("%j is refused in one line", async (options, message) => {
    const error = await simulate("example", { preset: "vllm", ...options }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(InputError);
    expect((error as InputError).message).toContain(message);
  });

  const copy = () => {
    const folder = join(mkdtempSync(join(tmpdir(), "kvlab-profile-")), "mine");
    cpSync(known[0].folder, folder, { recursive: true });
    return folder;
  };

  test.each([
    ["meta.yaml", "model: [", /meta\.yaml: is not YAML/],
    ["meta.yaml", "hardware: RTX4090\nmodel: x\n", /meta\.yaml: tp_degrees is undefined, expected a list of numbers/],
    ["tp1/dense.csv.gz", "layer,tokens,time_us\nqkv_proj,1,2\n", /dense\.csv\.gz: is not gzip/],
  ])("a malformed %s is named", async (file, text, message) => {
    const folder = copy();
    writeFileSync(join(folder, file), text);
    await expect(simulate("example", { cost: `profile:${folder}` })).rejects.toThrow(message);
  });

  test("a wrong number names file and line; uncompressed CSV is read", async () => {
    const folder = copy();
    const path = join(folder, "tp1", "dense.csv");
    const text = gunzipSync(readFileSync(`${path}.gz`)).toString();
    // The reader prefers the file that it finds first, so that the other one must not be there.
    cpSync(join(folder, "tp1"), join(folder, "tp2"), { recursive: true, filter: (from) => !from.includes("dense") });
    writeFileSync(join(folder, "meta.yaml"), "hardware: RTX4090\nmodel: meta-llama/Llama-3.1-8B\ntp_degrees: [2]\n");
    writeFileSync(join(folder, "tp2", "dense.csv"), text.replace("act_fn,2,3.18967", "act_fn,2,fast"));
    const profile = await profileNamed(folder);
    await expect(readProfile(profile, 2)).rejects.toThrow(
      `${join(folder, "tp2", "dense.csv")}:3: time_us is "fast", expected a number from 0`,
    );
    writeFileSync(join(folder, "tp2", "dense.csv"), text);
    expect((await readProfile(profile, 2)).dense.get("act_fn")!.at(2)).toBe(3189.67);
  });
});
