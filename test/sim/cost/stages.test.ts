import { describe, expect, test } from "vitest";
import { noLoad } from "../../../core/serving/step-load.ts";
import { efficiencyOf } from "../../../sim/cost/efficiency.ts";
import { hardwareNamed } from "../../../sim/cost/hardware.ts";
import { weightBytesOf } from "../../../sim/cost/model-shape.ts";
import { modelNamed } from "../../../sim/cost/models.ts";
import { PipelineCost } from "../../../sim/cost/pipeline-cost.ts";
import { Roofline } from "../../../sim/cost/roofline.ts";
import { stagesOf } from "../../../sim/cost/stages.ts";

const named = ["llama-3.1-8b", "mistral-7b-v0.1", "qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v3"] as const;
const tied = { ...modelNamed("qwen3-8b"), name: "a model with tied embeddings", tiedEmbeddings: true };
const shapes = [...named.map((name) => modelNamed(name)), tied].map((shape) => [shape.name, shape] as const);
const hardware = hardwareNamed("h200");

describe.each(shapes)("%s in stages", (_, shape) => {
  test.each([[2], [3], [4], [8]])("%i of them have all layers and all weights once", (count) => {
    const stages = stagesOf(shape, count).map((stage) => stage.shape);
    const sum = (of: (stage: (typeof stages)[number]) => number) => stages.reduce((all, stage) => all + of(stage), 0);
    expect(sum(({ layers }) => layers)).toBe(shape.layers);
    expect(sum(({ denseLayers }) => denseLayers)).toBe(shape.denseLayers);
    expect(sum(({ window }) => window?.layers ?? 0)).toBe(shape.window?.layers ?? 0);
    // Tied embeddings are in the first and in the last stage.
    const twice = shape.tiedEmbeddings ? shape.parameters.embedding * shape.numberBytes : 0;
    expect(Math.abs(sum(weightBytesOf) - weightBytesOf(shape) - twice)).toBeLessThanOrEqual(count);
  });

  test.each([[1], [2]])(
    "with --tp %i, stages take as long together as the model, but for the step's fixed time",
    (tp) => {
      const load = {
        ...{ ...noLoad(), sequences: 9, logits: 9, prefillTokens: 300, prefillSequences: 1, decodeTokens: 8 },
        ...{ prefillContextTokens: 1300, prefillPairs: 345_150, prefillWindowTokens: 427, prefillWindowPairs: 38_400 },
        ...{ decodeContextTokens: 8000, longestDecodeTokens: 3000, decodeWindowTokens: 1024 },
      };
      const timeOf = (part: Pick<ConstructorParameters<typeof Roofline>[0], "shape" | "stage">) =>
        new Roofline({ ...part, hardware, blockTokens: 16, tensorParallel: tp }).stepNs(load);
      const together = stagesOf(shape, 4).reduce((ns, stage) => ns + timeOf({ shape: stage.shape, stage }), 0);
      const fixedNs = 3 * 1e3 * efficiencyOf(hardware).stepUs;
      expect(Math.abs(together - fixedNs - timeOf({ shape }))).toBeLessThanOrEqual(4);
    },
  );
});

test("layers are divided as in vLLM: the last stages but the very last one have one layer more", () => {
  const layersOf = (layers: number, count: number) =>
    stagesOf({ ...modelNamed("llama-3.1-8b"), layers }, count).map(({ shape }) => shape.layers);
  expect(layersOf(32, 4)).toEqual([8, 8, 8, 8]);
  expect(layersOf(32, 3)).toEqual([11, 11, 10]);
  expect(layersOf(30, 4)).toEqual([7, 8, 8, 7]);
  expect(layersOf(61, 4)).toEqual([15, 15, 16, 15]);
});

test("a stage sends hidden states and residuals to the next one", () => {
  const shape = modelNamed("llama-3.1-8b");
  const stages = stagesOf(shape, 2).map(
    (stage) => new Roofline({ shape: stage.shape, stage, hardware, blockTokens: 16 }),
  );
  const cost = new PipelineCost({ stages, shape, hardware, tensorParallel: 1 });
  const load = { ...noLoad(), sequences: 4, logits: 4, decodeTokens: 4, decodeContextTokens: 40 };
  const transferNs = cost.transferNs(load);
  expect(transferNs).toBeGreaterThan(0);
  // 2 · 8,192 tokens · 4,096 numbers · 2 B = 128 MiB.
  const large = cost.transferNs({ ...noLoad(), prefillTokens: 8192 });
  expect(large).toBeGreaterThanOrEqual((2 ** 27 / hardware.linkBytesPerS) * 1e9);
  expect(cost.stepNs(load)).toBe(cost.stageNs(0, load) + transferNs + cost.stageNs(1, load));
});
