import { afterAll, describe, expect, test } from "vitest";
import { cudaBackend } from "../../../engine/cuda/backend.ts";
import { driverVariable } from "../../../engine/cuda/driver.ts";
import { openCudaExecutor } from "../../../engine/cuda/executor.ts";
import { selfCheck } from "../../../engine/cuda/self-check.ts";
import { type Executor, ExecutorError, UnavailableError } from "../../../engine/executor.ts";
import { randomWeights } from "../../../engine/model/random.ts";
import {
  blockTokens,
  canEmulate,
  greedy,
  opened,
  run,
  stepOf,
  tinyConfig,
  useEmulator,
  wholeTable,
} from "./decoders.ts";

useEmulator();

const config = tinyConfig("llama");
const model = { config, weights: randomWeights(config, 1) };
const tokens = Array.from({ length: 11 }, (_, i) => (5 * i) % config.vocabulary);
const whole = { tokens, from: 0, to: 11, table: wholeTable(3, 4) };

const executors: Executor[] = [];
afterAll(async () => {
  for (const executor of executors) await executor.close();
});

async function executor(options: Partial<Parameters<typeof openCudaExecutor>[0]> = {}): Promise<Executor> {
  const made = await openCudaExecutor({ model, blockCount: 16, blockTokens, ...options });
  executors.push(made);
  return made;
}

describe.runIf(canEmulate)("the executor in its worker thread", () => {
  test("has the results of the decoder in this thread", async () => {
    const [there, here] = [await executor(), opened(config, { blockCount: 16 })];
    expect([there.backend, there.poolType, there.blockCount]).toEqual(["cuda-emulated", "bfloat16", 16]);
    const expected = run(here, [whole]);
    const { logits, timing } = await there.executeStep(stepOf([whole]));
    expect(logits).toEqual(expected[0]);
    expect(timing.deviceMs).toBeGreaterThan(0);
    expect(timing.hostMs).toBeGreaterThan(0);
    expect(await there.readBlocks([5])).toEqual(here.decoder.readBlocks([5]));

    await there.copyBlocks([{ source: 5, target: 9 }]);
    expect(await there.readBlocks([9])).toEqual(here.decoder.readBlocks([5]));
    await there.writeBlocks([1], await there.readBlocks([4]));
    const later = { ...whole, from: 7, table: [1, 9, 6] };
    expect((await there.executeStep(stepOf([later]))).logits).toEqual(expected[0]);
    await there.close();
    await expect(there.executeStep(stepOf([whole]))).rejects.toThrow("the executor has been closed");
  });

  test("samples on the device", async () => {
    const own = await executor();
    const { logits } = await own.executeStep(stepOf([whole]));
    expect(own.canSample?.({ ...greedy, temperature: 0.5, topK: 3, topP: 0.9, minP: 0.1 })).toBe(true);
    const sampled = await own.executeStep({ ...stepOf([whole]), sampling: [greedy] });
    expect(sampled.logits).toHaveLength(0);
    expect([...sampled.tokens!]).toEqual([logits.indexOf(Math.max(...logits))]);
  });

  test("reports tokens and positions that the model does not have, and continues", async () => {
    const own = await executor();
    const wrong = stepOf([{ ...whole, tokens: tokens.with(3, 4000) }]);
    await expect(own.executeStep(wrong)).rejects.toEqual(
      new ExecutorError("token 4000 is outside the vocabulary of 512 tokens"),
    );
    expect((await own.executeStep(stepOf([whole]))).logits).toHaveLength(config.vocabulary);
    const learned = tinyConfig("gpt2");
    const other = await executor({ model: { config: learned, weights: randomWeights(learned, 1) } });
    const far = stepOf([whole]);
    await expect(other.executeStep({ ...far, positions: far.positions.map(() => 1024) })).rejects.toThrow(
      "position 1024 is outside the model's 1024 positions",
    );
  });

  test("refuses what does not fit or is not supported, in one line", async () => {
    await expect(executor({ blockCount: 1e9 })).rejects.toThrow(
      /^random:tiny needs 0\.0 GiB for its weights, 953\.7 GiB for 1000000000 blocks of 4 tokens and 0\.0 GiB for activations, cuBLAS and graphs, of \d\.\d GiB of free memory on CPU emulation$/,
    );
    const odd = { ...config, headDim: 22 };
    await expect(executor({ model: { config: odd, weights: randomWeights(odd, 1) } })).rejects.toThrow(
      "random:tiny has heads of 22 dimensions, expected one of 16, 32, 48, 64, 80, 96, 128, 256 on this backend",
    );
    await expect(executor({ bits: 8 })).rejects.toThrow("8-bit weights are not supported");
  });

  test("weights that the device generates are a function of the distribution", async () => {
    const generated = (seed: number) => ({
      ...model.weights,
      distribution: (tensor: string, layer: number) => ({
        ...{ seed: seed + 100 * layer + tensor.length, mean: tensor.endsWith("weight") ? 1 : 0, scale: 0.2 },
      }),
    });
    const logitsOf = async (seed: number) => {
      const own = await executor({ model: { config, weights: generated(seed) } });
      return (await own.executeStep(stepOf([whole]))).logits;
    };
    const [one, same, other] = [await logitsOf(1), await logitsOf(1), await logitsOf(2)];
    expect(one.every(Number.isFinite)).toBe(true);
    expect(same).toEqual(one);
    expect(other).not.toEqual(one);
  });

  test("frees all memory of the device", async () => {
    const before = cudaBackend.memory.availableBytes();
    const own = await executor();
    expect(cudaBackend.memory.availableBytes()).toBeLessThan(before);
    await own.executeStep(stepOf([whole]));
    await own.close();
    expect(cudaBackend.memory.availableBytes()).toBe(before);
  });

  test("passes the self-check, and another model fails it", async () => {
    expect(await selfCheck()).toBeUndefined();
    expect(await selfCheck("random:tiny:2")).toMatch(/^logits are off by \d\.\de[+-]\d of the largest/);
    expect((await cudaBackend.runtime.load()).found).toMatch(/^CPU emulation, \d+ GiB; driver for CUDA 13\.0; cuBLAS$/);
    expect(cudaBackend.reportName).toBe("cuda-emulated");
  });
});

test("a machine without a driver is reported in one line", async () => {
  const before = process.env[driverVariable];
  process.env[driverVariable] = "/no/such/libcuda.so";
  const missing = new UnavailableError("no CUDA driver: /no/such/libcuda.so not found");
  try {
    await expect(executor()).rejects.toEqual(missing);
    await expect(cudaBackend.runtime.load()).rejects.toEqual(missing);
    expect(cudaBackend.reportName).toBe("cuda");
  } finally {
    if (before === undefined) delete process.env[driverVariable];
    else process.env[driverVariable] = before;
  }
});
