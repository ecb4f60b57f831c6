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
  "%s: decode steps take the same time whether they are prepared or computed one by one",
  async (_, model) => {
    const cost = await model();
    const contexts = fc.array(fc.integer({ min: 1, max: 40_000 }), { minLength: 1, maxLength: 300 });
    fc.assert(
      fc.property(contexts, fc.integer({ min: 1, max: 600 }), fc.nat(200), (each, repeats, window) => {
        const decodes = each.length;
        const load = { ...noLoad(), sequences: decodes, logits: decodes, decodeTokens: decodes };
        load.decodeContextTokens = each.reduce((sum, tokens) => sum + tokens);
        load.longestDecodeTokens = Math.max(...each);
        load.decodeWindowTokens = each.reduce((sum, tokens) => sum + Math.min(tokens, window), 0);
        const steps = cost.decodeSteps!(load);
        const prepared = Array.from({ length: repeats }, (_, step) =>
          steps.ns(
            load.decodeContextTokens + step * decodes,
            load.longestDecodeTokens + step,
            load.decodeWindowTokens + step,
          ),
        );
        const computed = prepared.map((_, step) =>
          cost.stepNs({
            ...load,
            decodeContextTokens: load.decodeContextTokens + step * decodes,
            longestDecodeTokens: load.longestDecodeTokens + step,
            decodeWindowTokens: load.decodeWindowTokens + step,
          }),
        );
        expect(prepared).toEqual(computed);
      }),
      { numRuns: 20 },
    );
  },
);
