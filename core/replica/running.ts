import { hole } from "../cache/block-table.ts";
import type { KvCache } from "../cache/kv-cache.ts";
import type { Sequence } from "../cache/request.ts";
import type { BlockId } from "../plugins/index.ts";

/** Whether the step that is being planned computes the known content of the block, and not only output tokens behind it. */
export function computesNow(sequence: Sequence, block: BlockId): boolean {
  const { inStep, blocks, computedBlocks } = sequence;
  if (!inStep) return false;
  const at = blocks.blocks.subarray(0, blocks.computingEnd).indexOf(block, computedBlocks);
  // Another sequence computes a shared block, or has computed it.
  return at >= 0 && !blocks.isShared(at);
}

/** Above the length of any output, and a small integer. */
const unlimitedSteps = 2 ** 29;

/** Number of steps in which every sequence generates a token and none finishes, begins a block or fills one. */
export function stepsWithinBlocks(running: readonly Sequence[], cache: KvCache): number {
  let steps = unlimitedSteps;
  for (const { request, computedTokens, generatedTokens, blocks } of running) {
    if (cache.usesCopyOnWrite && blocks.copyAt !== hole) return 0;
    const remaining = request.outputTokens - generatedTokens - 1;
    const filled = computedTokens % cache.blockTokens;
    const freeSlots = filled === 0 ? 0 : cache.blockTokens - 1 - filled;
    if (remaining < steps) steps = remaining;
    if (freeSlots < steps) steps = freeSlots;
    if (steps <= 0) return 0;
  }
  return steps;
}
