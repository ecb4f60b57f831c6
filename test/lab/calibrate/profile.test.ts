import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { noLoad } from "../../../core/serving/step-load.ts";
import { calibrateProfile, Interrupted, listProfiles, type ProfileDocument, simulate } from "../../../index.ts";
import { blockTokens } from "../../../lab/calibrate/profile/batch-steps.ts";
import {
  attentionCases,
  attentionStep,
  gridUpTo,
  type ProfileGrid,
  profileBlocks,
} from "../../../lab/calibrate/profile/grid.ts";
import { dividedTimes } from "../../../lab/calibrate/profile/measured-steps.ts";
import { writeProfile } from "../../../lab/calibrate/profile/profile-files.ts";
import { profileNamed } from "../../../lab/profiles/catalogue.ts";
import { readProfile } from "../../../lab/profiles/read-profile.ts";
import { hardwareNamed } from "../../../sim/cost/hardware.ts";
import { Profiled } from "../../../sim/cost/profile/profiled.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-profile-"));
afterAll(() => rmSync(folder, { recursive: true }));

const options = { model: "random:tiny", maxPrompt: 48, maxBatch: 2, rounds: 1, threads: 1 };
const grid = gridUpTo(48, 2);
const own = join(folder, "deep/own");
let document: ProfileDocument;
let cacheFolder: string | undefined;
beforeAll(async () => {
  cacheFolder = process.env["XDG_CACHE_HOME"];
  process.env["XDG_CACHE_HOME"] = folder;
  document = await calibrateProfile({ ...options, profile: own });
});
afterAll(() => {
  if (cacheFolder === undefined) delete process.env["XDG_CACHE_HOME"];
  else process.env["XDG_CACHE_HOME"] = cacheFolder;
});

const rowsOf = (name: string) =>
  gunzipSync(readFileSync(join(own, "tp1", `${name}.csv.gz`)))
    .toString()
    .trimEnd()
    .split("\n")
    .slice(1)
    .map((line) => line.split(","));

describe("the grid", () => {
  test("has each count up to 16, chunks up to the longest prompt, and batches up to the largest", () => {
    const { tokens, sequences, chunks, cached, contexts } = gridUpTo(100, 6);
    expect(tokens).toEqual([...Array.from({ length: 16 }, (_, i) => i + 1), 24, 32, 48, 64, 96, 100]);
    expect({ sequences, chunks, cached, contexts }).toEqual({
      sequences: [1, 2, 3, 4, 6],
      chunks: [16, 32, 64, 100],
      cached: [0, 64],
      contexts: [32, 64, 100],
    });
  });

  test("no prompt is longer than the longest, and every step fits in the pool", () => {
    const large = gridUpTo(300, 5);
    for (const one of attentionCases(large)) {
      expect(one.chunk + one.cached).toBeLessThanOrEqual(300);
      const { blockTables, contextLens, maxBlocksPerSequence } = attentionStep(512, one);
      contextLens.forEach((context, i) => {
        const blocks = blockTables.subarray(i * maxBlocksPerSequence).slice(0, Math.ceil(context / blockTokens));
        expect(Math.max(...blocks)).toBeLessThan(profileBlocks(large));
      });
    }
  });
});

describe("a measured profile", () => {
  test("has a row for each point of the grid", () => {
    expect(rowsOf("dense").map(([layer, tokens]) => [layer, Number(tokens)])).toEqual(
      grid.tokens.map((tokens) => ["dense_layer", tokens]),
    );
    expect(rowsOf("per_sequence").map(([layer, count]) => [layer, Number(count)])).toEqual(
      grid.sequences.map((count) => ["lm_head", count]),
    );
    const cases = attentionCases(grid).map((one) => Object.values(one));
    expect(rowsOf("attention").map((row) => row.slice(0, 4).map(Number))).toEqual(cases);
    expect(document.rows).toEqual({ dense: 19, attention: cases.length, per_sequence: 2 });
    expect(readdirSync(own).sort()).toEqual(["config.json", "meta.yaml", "tp1"]);
  });

  test("is read back exactly, with device and model", async () => {
    const profile = await profileNamed(own);
    expect(profile).toMatchObject({ gpu: "cpu", model: "random:tiny", tensorParallel: [1], padded: false });
    expect(profile).toMatchObject({ maxTokens: 48, maxSequences: 2, shape: { layers: 2, kvHeads: 2, numberBytes: 4 } });
    expect((await listProfiles(join(folder, "deep"))).map(({ name }) => name)).toEqual(["own"]);
    const read = await readProfile(profile, 1);
    for (const [layer, tokens, us] of rowsOf("dense"))
      expect(read.dense.get(layer)!.at(Number(tokens))).toBe(1e3 * Number(us));
    for (const [layer, count, us] of rowsOf("per_sequence"))
      expect(read.perSequence.get(layer)!.at(Number(count))).toBe(1e3 * Number(us));
    for (const row of rowsOf("attention")) {
      const [chunk, cached, decodes, context, us] = row.map(Number);
      expect(read.attention.at(chunk, cached, decodes, context)).toBe(1e3 * us);
    }
    const { skew_fit: fit, bits } = parse(readFileSync(join(own, "meta.yaml"), "utf8"));
    expect({ skew: read.skew, bits }).toEqual({ skew: fit.per_tp[1].alpha_default, bits: 32 });
  });

  test("simulates a trace on its device and model, which need not be named", async () => {
    const { report } = await simulate("example", { cost: `profile:${own}`, limit: 20, blocks: { blocks: 400 } });
    expect(report.simulation).toMatchObject({ cost: "profile:own/tp1", gpu: "cpu", model: "random:tiny" });
    expect(report.latency!.tpotMs!.mean).toBeGreaterThan(0);
    const named = { cost: `profile:${own}`, model: "random:tiny", gpu: "cpu", limit: 20, blocks: { blocks: 400 } };
    expect((await simulate("example", named)).report.latency).toEqual(report.latency);
    await expect(simulate("example", { ...named, model: "llama-3.1-8b" })).rejects.toThrow(
      "was measured with --model random:tiny, not llama-3.1-8b",
    );
  });
});

test("times are divided so that the sum of the operators is the measured time of each step of the grid", async () => {
  const small: ProfileGrid = {
    ...{ tokens: [1, 2, 3, 40, 80], sequences: [1, 2, 3], chunks: [16, 30], cached: [0, 32], decodes: [1, 2] },
    ...{ contexts: [32, 96], besideDecodes: [2], besideContexts: [32], mostContextTokens: 1000 },
  };
  const stepUs = (tokens: number, sequences: number, pairs: number) => 500 + 10 * tokens + 7 * sequences + pairs;
  const times = new Map<string, number[]>([
    ...small.tokens.map((tokens): [string, number[]] => [`dense ${tokens}`, [1e3 * stepUs(tokens, 0, 0)]]),
    ...small.sequences.flatMap((n): [string, number[]][] => [
      [`logits ${n} false`, [1e3 * stepUs(n, 0, 0)]],
      [`logits ${n} true`, [1e3 * stepUs(n, n, 0)]],
    ]),
    ...attentionCases(small).map((one): [string, number[]] => [`attention ${Object.values(one)}`, [1e3 * usOf(one)]]),
    // Unequal contexts take as long as equal ones of 80 tokens do: half of the way from the mean to the longest.
    ...Object.entries({ halves: 80, mean: 64, most: 96 }).map(([contexts, context]): [string, number[]] => [
      `unequal 2 ${contexts}`,
      [1e3 * stepUs(2, 2, 2 * context)],
    ]),
  ]);
  function usOf({ chunk, cached, decodes, context }: ReturnType<typeof attentionCases>[number]) {
    return stepUs(chunk + decodes, decodes + (chunk > 0 ? 1 : 0), chunk * (cached + chunk / 2) + decodes * context);
  }
  const { tables, skew } = dividedTimes(times, { grid: small, layers: 4 });
  expect(skew).toBe(0.5);
  const written = join(folder, "divided");
  const meta = { hardware: "cpu", model: "llama-7b", profiledAt: "now", others: { cuda_graphs: false } };
  writeProfile(written, meta, small, tables);
  const profile = await readProfile(await profileNamed(written), 1);
  const shape = { ...(await profileNamed(own)).shape!, layers: 4 };
  const cost = new Profiled({ profile, shape, hardware: hardwareNamed("cpu"), blockTokens });
  for (const one of attentionCases(small)) {
    const { chunk, cached, decodes, context } = one;
    const ns = cost.stepNs({
      ...noLoad(),
      ...{
        prefillTokens: chunk,
        prefillPairs: chunk * (cached + (chunk + 1) / 2),
        prefillSequences: chunk > 0 ? 1 : 0,
      },
      ...{ decodeTokens: decodes, decodeContextTokens: decodes * context, longestDecodeTokens: context },
      sequences: decodes + (chunk > 0 ? 1 : 0),
    });
    expect(Math.abs(ns / 1e3 / usOf(one) - 1)).toBeLessThan(1e-5);
  }
});

describe("nothing is written", () => {
  test.each<[string, object, RegExp]>([
    ["to a folder with files", { profile: own }, /own: has files in it; expected a new folder for the profile$/],
    ["below a file", { profile: join(own, "meta.yaml/new") }, /meta\.yaml\/new: cannot be written \(ENOTDIR\)$/],
    [
      "for a sliding window",
      { model: "random:tiny-mistral" },
      /^random:tiny-mistral has a sliding window of 24 tokens/,
    ],
    ["for prompts beyond the model's positions", { model: "random:tiny-gpt2", maxPrompt: 2000 }, /has 1024 positions$/],
    ["for an unknown model", { model: "random:tny" }, /did you mean/],
  ])("%s", async (_, changed, message) => {
    const before = readdirSync(folder);
    await expect(calibrateProfile({ ...options, profile: join(folder, "other"), ...changed })).rejects.toThrow(message);
    expect(readdirSync(folder)).toEqual(before);
  });

  test("if the call is interrupted while it measures", async () => {
    const abort = new AbortController();
    const profile = join(folder, "new/profile");
    const progress = ({ done }: { readonly done: number }) => {
      if (done > 10) abort.abort();
    };
    const interrupted = calibrateProfile({ ...options, profile, progress, signal: abort.signal });
    await expect(interrupted).rejects.toThrow(Interrupted);
    expect(existsSync(join(folder, "new"))).toBe(false);
  });

  test("an empty folder is used", async () => {
    const empty = join(folder, "empty");
    mkdirSync(empty);
    await calibrateProfile({ ...options, maxPrompt: 32, maxBatch: 1, profile: empty });
    expect(readdirSync(empty)).toContain("meta.yaml");
  });
});
