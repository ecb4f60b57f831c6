import { expect, test } from "vitest";
import { TraceBuilder } from "../../core/trace/trace.ts";
import { partsNamed, schedulerOptionsOn } from "../../lab/run/configuration.ts";
import { capacityFrom, simulatedFrom } from "../../lab/run/simulation.ts";
import { hardwareNamed } from "../../sim/cost/hardware.ts";

const optionsOn = async (preset: string, gpu: string, scheduler?: string) =>
  schedulerOptionsOn(await partsNamed({ preset, scheduler }, {}, "sim"), hardwareNamed(gpu));

test("vLLM's limits of a step depend on the GPU: 70 GiB or more, but not an A100", async () => {
  const always = { "reserve-full-isl": 1, "async-scheduling": 1 };
  const large = { ...always, "max-num-batched-tokens": 8192, "max-num-seqs": 1024 };
  const small = { ...always, "max-num-batched-tokens": 2048, "max-num-seqs": 256 };
  for (const preset of ["vllm", "vllm@0.19"]) {
    for (const gpu of ["h200", "rtx-pro-6000"]) expect(await optionsOn(preset, gpu)).toEqual(large);
    for (const gpu of ["rtx-4090", "a100-80gb"]) expect(await optionsOn(preset, gpu)).toEqual(small);
  }
});

test("SGLang's chunks depend on the GPU's memory", async () => {
  const chunks = async (preset: string) =>
    await Promise.all(
      ["rtx-4090", "h200", "b200"].map(async (gpu) => (await optionsOn(preset, gpu))["chunked-prefill-size"]),
    );
  expect(await chunks("sglang")).toEqual([2048, 8192, 16384]);
  expect(await chunks("sglang@2501")).toEqual([2048, 8192, 8192]);
});

test("another scheduler than the preset's has its own defaults", async () => {
  expect(await optionsOn("vllm", "h200", "fcfs")).toEqual({});
});

test("vLLM's null block is not part of a capacity that follows from the GPU's memory", async () => {
  const builder = new TraceBuilder(1);
  for (const arrivalNs of [0, 1e9]) builder.add({ arrivalNs, inputTokens: 1, outputTokens: 1, keys: [1] });
  const simulated = await simulatedFrom({}, builder.take());
  const blocksOf = async (preset: string, blocks?: number) => {
    const parts = await partsNamed({ preset }, {}, "sim");
    return await capacityFrom(blocks === undefined ? {} : { blocks: { blocks } }, simulated, {
      ...parts,
      blockTokens: 16,
    });
  };
  const whole = (await blocksOf("tgi")) as { blocks: number };
  expect(await blocksOf("vllm")).toEqual({ blocks: whole.blocks - 1 });
  expect(await blocksOf("vllm", 100)).toEqual({ blocks: 100 });
});
