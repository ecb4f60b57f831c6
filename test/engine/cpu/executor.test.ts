import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, expect, test } from "vitest";
import type { ExecutorOptions } from "../../../engine/backend.ts";
import { openCpuExecutor } from "../../../engine/cpu/executor.ts";
import { startThread } from "../../../engine/cpu/thread.ts";
import { type Executor, ExecutorError } from "../../../engine/executor.ts";
import type { WeightSource } from "../../../engine/model/decoder.ts";
import { randomWeights } from "../../../engine/model/random.ts";
import { blockTokens, oddConfig, opened, run, stepOf, wholeTable } from "./decoders.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-executor-"));
const config = oddConfig("llama");
let reads = 0;
const random = randomWeights(config, 1);
const weights: WeightSource = {
  fingerprint: random.fingerprint,
  model: (tensor) => random.model(tensor),
  layer(layer, tensor) {
    reads++;
    return random.layer(layer, tensor);
  },
};
beforeEach(() => {
  reads = 0;
});
const executors: Executor[] = [];
afterAll(async () => {
  for (const executor of executors) await executor.close();
  rmSync(folder, { recursive: true });
});

async function executor(options: Partial<ExecutorOptions> = {}): Promise<Executor> {
  const all = { model: { config, weights }, blockCount: 16, blockTokens, threads: 1, folder, ...options };
  const made = await openCpuExecutor(all);
  executors.push(made);
  return made;
}

const tokens = Array.from({ length: 11 }, (_, i) => (5 * i) % config.vocabulary);
const whole = { tokens, from: 0, to: 11, table: wholeTable(3, 4) };

test("the executor in its worker thread has the results of the decoder in this one", async () => {
  const [there, here] = [await executor(), await opened(config, 16)];
  const expected = await run(here, [whole]);
  const { logits, timing } = await there.executeStep(stepOf([whole]));
  expect(logits).toEqual(expected[0]);
  expect(timing.deviceMs).toBeGreaterThan(0);
  expect(timing.hostMs).toBeGreaterThan(0);
  const greedy = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 0, position: 0 };
  expect(there.canSample?.(greedy)).toBe(true);
  expect(there.canSample?.({ ...greedy, temperature: 0.5 })).toBe(false);
  const sampled = await there.executeStep({ ...stepOf([whole]), sampling: [greedy] });
  expect(sampled.logits).toHaveLength(0);
  expect([...sampled.tokens!]).toEqual([logits.indexOf(Math.max(...logits))]);
  expect(await there.readBlocks([5])).toEqual(here.decoder.readBlocks([5]));

  await there.copyBlocks([{ source: 5, target: 9 }]);
  expect(await there.readBlocks([9])).toEqual(here.decoder.readBlocks([5]));
  await there.writeBlocks([1], await there.readBlocks([4]));
  expect(await there.readBlocks([1])).toEqual(here.decoder.readBlocks([4]));
  expect((await there.readBlocks([0]))[0].values).toEqual(new Float32Array(2 * blockTokens * config.headDim));

  const later = { ...whole, from: 7, table: [1, 9, 6] };
  expect((await there.executeStep(stepOf([later]))).logits).toEqual(expected[0]);
  await there.close();
  await expect(there.executeStep(stepOf([whole]))).rejects.toThrow("the executor has been closed");
});

test("a token outside the vocabulary fails with the cause, and the executor continues", async () => {
  const own = await executor();
  const wrong = stepOf([{ ...whole, tokens: tokens.with(3, 4000) }]);
  await expect(own.executeStep(wrong)).rejects.toThrow(/^the executor failed: .*4000/s);
  await expect(own.executeStep(wrong)).rejects.toBeInstanceOf(ExecutorError);
  expect((await own.executeStep(stepOf([whole]))).logits).toHaveLength(config.vocabulary);
});

test.runIf(process.arch === "x64" && process.platform !== "win32")(
  "every executor's thread flushes denormals to zero, not only the first one, and the main thread does not",
  async () => {
    const smallest = "[2e-310, 5e-324].reduce((sum, value) => sum + 2 * value, 0)";
    const code = `import { workerData } from "node:worker_threads"; const { port } = workerData; port.on('message', () => {}); port.postMessage(${smallest});`;
    const file = `data:text/javascript,${encodeURIComponent(code)}`;
    for (let i = 0; i < 3; i++) {
      const thread = startThread({ file }, {});
      thread.keepAlive(true);
      expect(await new Promise((resolve) => thread.listen(resolve, resolve))).toBe(0);
      await thread.terminate();
      // No thread keeps the process running any more.
      await thread.terminate();
    }
    expect([2e-310, 5e-324].reduce((sum, value) => sum + 2 * value, 0)).toBeGreaterThan(0);
  },
);

test("a pool that does not fit into memory is refused with its size", async () => {
  await expect(executor({ blockCount: 1e12 })).rejects.toThrow(
    `random:tiny needs 0.0 GiB for its weights and 715255.7 GiB for 1000000000000 blocks of 4 tokens, of `,
  );
});

test("a folder that cannot be created is named", async () => {
  const file = join(folder, "file");
  writeFileSync(file, "");
  await expect(executor({ folder: file })).rejects.toThrow(`${file}/`);
  rmSync(file);
});

test("a model is written once, completely or not at all", async () => {
  const own = join(folder, "own");
  await executor({ folder: own });
  expect(reads).toBeGreaterThan(0);
  const [name, ...more] = readdirSync(own);
  expect(more).toEqual([]);
  const files = readdirSync(join(own, name)).sort();
  expect(files).toEqual(["contents.json", "model.onnx", "weights.bin"]);
  const before = files.map((file) => readFileSync(join(own, name, file)));

  reads = 0;
  await executor({ folder: own });
  expect(reads).toBe(0);

  const path = (file: string) => join(own, name, file);
  const damages: (() => void)[] = [
    () => truncateSync(path("weights.bin"), statSync(path("weights.bin")).size - 1),
    () => truncateSync(path("model.onnx"), 100),
    () => writeFileSync(path("contents.json"), "{"),
    () => rmSync(path("weights.bin")),
  ];
  for (const damage of damages) {
    damage();
    reads = 0;
    const again = await executor({ folder: own });
    expect(reads).toBeGreaterThan(0);
    expect((await again.executeStep(stepOf([whole]))).logits).toHaveLength(config.vocabulary);
    expect(readdirSync(own)).toEqual([name]);
    expect(files.map((file) => readFileSync(path(file)))).toEqual(before);
  }
});

test("a failing weight source leaves no files", async () => {
  const own = join(folder, "failing");
  const failing = {
    ...weights,
    layer() {
      throw new Error("no such tensor");
    },
  };
  await expect(executor({ folder: own, model: { config, weights: failing } })).rejects.toThrow("no such tensor");
  expect(readdirSync(own)).toEqual([]);
});

test("models with different weights have different folders", async () => {
  const own = join(folder, "two");
  await executor({ folder: own });
  await executor({ folder: own, model: { config, weights: randomWeights(config, 2) } });
  expect(readdirSync(own)).toHaveLength(2);
});
