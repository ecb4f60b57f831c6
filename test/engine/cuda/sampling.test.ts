import { describe, expect, test } from "vitest";
import type { DeviceSampling } from "../../../engine/executor.ts";
import { argmax, Sampler } from "../../../engine/sampling.ts";
import { canEmulate, greedy, opened, run, stepOf, tinyConfig, useEmulator } from "./decoders.ts";

useEmulator();

/** Small, because its outputs and not its layers are of interest. */
const config = { ...tinyConfig("llama"), layers: 1, vocabulary: 48, ffn: 32 };
const draws = 600;
const prompt = { tokens: [3, 1, 4, 1, 5], from: 0, to: 5, table: [0, 1] };

/** As many sequences with the same logits. */
const copies = (count: number) =>
  stepOf(Array.from({ length: count }, (_, i) => ({ ...prompt, table: [2 * i, 2 * i + 1] })));

describe.runIf(canEmulate)("sampling on the device", () => {
  const cases: [string, Partial<DeviceSampling>][] = [
    ["temperature 1", {}],
    ["temperature 0.4", { temperature: 0.4 }],
    ["top-k", { topK: 5 }],
    ["top-p", { topP: 0.7 }],
    ["min-p", { minP: 0.2 }],
    ["all filters", { temperature: 1.5, topK: 20, topP: 0.9, minP: 0.02 }],
  ];

  test.each(cases)("%s: tokens have the distribution of the host's sampler", (_name, own) => {
    const model = opened(config, { blockCount: 80 });
    const [logits] = run(model, [prompt]);
    const sampling: DeviceSampling = { ...greedy, temperature: 1, ...own };
    const device = new Map<number, number>();
    const count = (counts: Map<number, number>, token: number) => counts.set(token, (counts.get(token) ?? 0) + 1);
    for (let from = 0; from < draws; from += 40) {
      const rows = Array.from({ length: 40 }, (_, i) => ({
        ...sampling,
        seed: 1 + ((from + i) % 50),
        position: from + i,
      }));
      for (const token of model.decoder.executeStep({ ...copies(40), sampling: rows }).tokens!) count(device, token);
    }
    const host = new Map<number, number>();
    const sampler = new Sampler({ ...sampling, seed: 11 });
    for (let i = 0; i < 5 * draws; i++) count(host, sampler.sample(logits).token);
    for (const token of device.keys()) expect(host.has(token) || device.get(token)! < 4).toBe(true);
    for (const [token, times] of host) {
      const probability = times / (5 * draws);
      // Five standard deviations of the two counts.
      const deviation = Math.sqrt((probability * 6) / (5 * draws)) + 1 / draws;
      expect(Math.abs((device.get(token) ?? 0) / draws - probability)).toBeLessThan(5 * deviation);
    }
  });

  test("equal logits, seed and position sample equal tokens, in every row of every batch", () => {
    const model = opened(config, { blockCount: 80 });
    const row: DeviceSampling = { ...greedy, temperature: 2, seed: 2 ** 40 + 5, position: 7 };
    const sample = (sampling: DeviceSampling[]) => [
      ...model.decoder.executeStep({ ...copies(sampling.length), sampling }).tokens!,
    ];
    const [token] = sample([row]);
    expect(sample([row, { ...row, seed: 5 }, row, greedy])).toMatchObject({
      0: token,
      2: token,
      3: argmax(run(model, [prompt])[0]),
    });
    const others = Array.from({ length: 30 }, (_, i) => ({ ...row, ...(i % 2 ? { seed: i } : { position: 8 + i }) }));
    expect(new Set(sample(others)).size).toBeGreaterThan(10);
    expect(
      sample([
        { ...row, seed: -row.seed },
        { ...row, seed: row.seed + 2 ** 33 },
      ]),
    ).not.toEqual([token, token]);
  });

  test("logits that are not finite are reported", () => {
    const { decoder } = opened(config);
    // The head is the last tensor of the model; infinity in it makes every logit of the model infinite or NaN.
    decoder.writeWeights(0, new Uint16Array(config.vocabulary * config.hidden).fill(0x7f80));
    expect(() => decoder.executeStep({ ...stepOf([prompt]), sampling: [greedy] })).toThrow(
      "the model's largest logit is not finite: activations overflow",
    );
  });
});
