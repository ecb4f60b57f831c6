import fc from "fast-check";
import { expect, test } from "vitest";
import { noLoad } from "../../../core/serving/step-load.ts";
import { listProfiles } from "../../../index.ts";
import { readProfile } from "../../../lab/profiles/read-profile.ts";
import type { CostModel } from "../../../sim/cost/cost-model.ts";
import { hardwareNamed } from "../../../sim/cost/hardware.ts";
import { modelNamed } from "../../../sim/cost/models.ts";
import { Profiled } from "../../../sim/cost/profile/profiled.ts";
import { Roofline } from "../../../sim/cost/roofline.ts";

const profiles = (await listProfiles()).flatMap((each) => each.tensorParallel.map((degree) => [each, degree] as const));
const profiled = profiles.map(([profile, tensorParallel]) => {
  const shape = modelNamed(profile.model);
  const hardware = hardwareNamed(profile.gpu);
  const model = async (): Promise<CostModel> =>
    new Profiled({
      ...{ shape, hardware, blockTokens: 16, tensorParallel, expertDevices: tensorParallel },
      profile: await readProfile(profile, tensorParallel),
    });
  return [`profile ${profile.name}/tp${tensorParallel}`, model] as const;
});
const rooflines = (["llama-3.1-8b", "qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v3"] as const).map(
  (name) =>
    [
      `roofline of ${name}`,
      async (): Promise<CostModel> =>
        new Roofline({ shape: modelNamed(name), hardware: hardwareNamed("h200"), blockTokens: 16 }),
    ] as const,
);

test.each([...rooflines, ...profiled])(
  "%s: decode steps take the same time whether they are computed as a run or one by one",
  async (_, model) => {
    const cost = await model();
    const contexts = fc.array(fc.integer({ min: 1, max: 40_000 }), { minLength: 1, maxLength: 300 });
    fc.assert(
      fc.property(contexts, fc.integer({ min: 1, max: 600 }), fc.nat(200), (each, repeats, window) => {
        const startNs = 1e12;
        const growing = each.filter((tokens) => tokens < window).length;
        const decodes = each.length;
        const load = { ...noLoad(), sequences: decodes, logits: decodes, decodeTokens: decodes };
        load.decodeContextTokens = each.reduce((sum, tokens) => sum + tokens);
        load.longestDecodeTokens = Math.max(...each);
        load.decodeWindowTokens = each.reduce((sum, tokens) => sum + Math.min(tokens, window), 0);
        const at = (step: number) => ({
          ...load,
          decodeContextTokens: load.decodeContextTokens + step * decodes,
          longestDecodeTokens: load.longestDecodeTokens + step,
          decodeWindowTokens: load.decodeWindowTokens + step * growing,
        });
        const ends: number[] = [];
        for (let step = 1; step <= repeats; step++) ends.push((ends.at(-1) ?? startNs) + cost.stepNs(at(step)));
        const endsNs = new Float64Array(repeats);
        const run = { load, growing, startNs, most: repeats, endsNs };
        expect(cost.decodeEnds!({ ...run, horizonNs: Number.POSITIVE_INFINITY })).toBe(repeats);
        expect([...endsNs]).toEqual(ends);
        const half = Math.floor(repeats / 2);
        endsNs.fill(0);
        expect(cost.decodeEnds!({ ...run, horizonNs: ends[half] })).toBe(half + 1);
        expect([...endsNs.subarray(0, half + 1)]).toEqual(ends.slice(0, half + 1));
        expect(cost.decodeEnds!({ ...run, horizonNs: ends[half] - 1 })).toBe(half);
      }),
      { numRuns: 20 },
    );
  },
);
