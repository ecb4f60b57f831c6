import { expect, test } from "vitest";
import { type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import { ExperimentRunner } from "../../lab/experiments/runner.ts";
import { serveTrace } from "../../lab/library.ts";
import { deviceOf, partsNamed, schedulerOptionsOn } from "../../lab/run/configuration.ts";
import { engineFrom, type RealEngine } from "../../lab/run/real-engine.ts";
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

test("an engine has the preset's options for its device; the processor has those of --gpu cpu on every machine", async () => {
  const parts = await partsNamed({ preset: "vllm" }, {}, "cpu");
  const trace = requests(1, 1);
  const engine = engineFrom({}, trace);
  const gpuNamed = (name: string, gib: number): RealEngine => ({
    ...engine,
    backend: {
      ...engine.backend,
      deviceName: () => name,
      memory: { ...engine.backend.memory, totalBytes: () => gib * 2 ** 30 },
    },
  });
  const limit = (one: RealEngine) => schedulerOptionsOn(parts, deviceOf(undefined, one))["max-num-seqs"];
  expect(deviceOf(undefined, engine)).toBe(hardwareNamed("cpu"));
  expect(limit(engine)).toBe(256);
  expect(limit(gpuNamed("NVIDIA H200", 140))).toBe(1024);
  expect(limit(gpuNamed("NVIDIA A100-SXM4-80GB", 80))).toBe(256);
  expect(limit(gpuNamed("NVIDIA A10", 80))).toBe(1024);

  const input = { name: "one", files: [], format: "generated", trace, inputTokens: 1, outputTokens: 1 };
  const { report } = await serveTrace(input, {
    preset: "vllm",
    model: "random:tiny",
    blocks: { blocks: 10 },
    fold: true,
  });
  expect(report.policy.schedulerOptions).toMatchObject({ "max-num-seqs": 256, "async-scheduling": 1 });
});

test("an experiment runs a preset with the scheduler options that the preset has on the device", async () => {
  const steps = async (preset: string, gpu: string, schedulerOptions?: Record<string, number>) => {
    const machine = { model: "llama-3.1-8b", gpu };
    const setup = { preset, machine, ...(schedulerOptions && { schedulerOptions }) };
    return (await new ExperimentRunner({ seed: 1 }).run(requests(4, 1500), setup)).sums.count;
  };
  // 6,000 tokens of prompts, 8,192 or 2,048 of them in a step; then no further step for an output of one token.
  expect(await steps("vllm", "h200")).toBe(1);
  expect(await steps("vllm", "rtx-4090")).toBe(3);
  expect(await steps("vllm", "h200", { "max-num-batched-tokens": 1000 })).toBe(6);
  expect(await steps("roseinfer", "h200")).toBe(4);
});

/** Requests at time 0 with different prompts of `inputTokens` and an output of one token. */
function requests(count: number, inputTokens: number): Trace {
  const builder = new TraceBuilder(1);
  for (let i = 0; i < count; i++)
    builder.add({
      arrivalNs: 0,
      inputTokens,
      outputTokens: 1,
      keys: Array.from({ length: inputTokens }, (_, at) => i * inputTokens + at + 1),
    });
  return builder.take();
}
