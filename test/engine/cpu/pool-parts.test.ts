import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openCpuExecutor } from "../../../engine/cpu/executor.ts";
import type { BlockData, Executor } from "../../../engine/executor.ts";
import { randomWeights } from "../../../engine/model/random.ts";
import { poolParts } from "../../../engine/pool-parts.ts";
import { blockTokens, oddConfig, stepOf, wholeTable } from "./decoders.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-parts-"));
const config = oddConfig("llama");
const model = { config, weights: randomWeights(config, 1) };
let whole: Executor;
let parts: Executor[];
let own: Executor;
beforeAll(async () => {
  whole = await openCpuExecutor({ model, blockCount: 16, blockTokens, threads: 1, folder });
  own = await openCpuExecutor({ model, blockCount: 6, blockTokens, threads: 1, folder });
  parts = poolParts(whole, [6, 6, 4]);
});
afterAll(async () => {
  for (const executor of [whole, own]) await executor.close();
  rmSync(folder, { recursive: true });
});

/** All numbers of a pool. */
async function contents(executor: Executor): Promise<BlockData[]> {
  const blocks: BlockData[] = [];
  for (let block = 0; block < executor.blockCount; block++) blocks.push(...(await executor.readBlocks([block])));
  return blocks;
}

test("each part is bit-identical to a separate executor, and does not affect the others", async () => {
  const untouched = await contents(parts[2]);
  // The first has the same blocks, with other contents.
  for (const [executor, shift] of [
    [parts[0], 1],
    [parts[1], 0],
    [own, 0],
  ] as const) {
    const tokens = Array.from({ length: 11 }, (_, i) => (5 * i + shift) % config.vocabulary);
    await executor.executeStep(stepOf([{ tokens, from: 0, to: 7, table: wholeTable(2, 1) }]));
    await executor.copyBlocks([{ source: 2, target: 5 }]);
    await executor.writeBlocks([0], await executor.readBlocks([1]));
  }
  expect(await contents(parts[1])).toEqual(await contents(own));
  expect(await contents(parts[0])).not.toEqual(await contents(own));
  expect(await contents(parts[2])).toEqual(untouched);

  const tokens = Array.from({ length: 11 }, (_, i) => (5 * i) % config.vocabulary);
  const step = stepOf([{ tokens, from: 7, to: 11, table: [1, 5, 4] }]);
  const { logits } = await parts[1].executeStep(step);
  expect(logits).toEqual((await own.executeStep(step)).logits);
  // Rows without a slot are not stored.
  const before = await contents(whole);
  await parts[1].executeStep({ ...step, slotMapping: step.slotMapping.map(() => -1) });
  expect(await contents(whole)).toEqual(before);
});

test("parts divide the blocks of the executor, and closing one does not close the others", async () => {
  expect(() => poolParts(whole, [10, 7])).toThrow("parts of 17 blocks of a pool of 16");
  expect(parts.map(({ blockCount }) => blockCount)).toEqual([6, 6, 4]);
  expect(parts[0]).toMatchObject({ backend: whole.backend, blockTokens, calls: whole.calls });
  await parts[2].writeBlocks([3], await parts[0].readBlocks([2]));
  const written = await whole.readBlocks([15]);
  expect(written).toEqual(await whole.readBlocks([2]));
  await parts[0].close();
  expect(await parts[2].readBlocks([3])).toEqual(written);
});
