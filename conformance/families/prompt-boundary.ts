import type { Family } from "../family.ts";
import { integer } from "../values.ts";

/**
 * TurboMind 2026: the end of a prompt's reusable prefix, `skip` tokens before the prompt's end, and whether a separate node
 * must be published for it. Pure arithmetic; source: src/turbomind/engine/prompt_boundary.h.
 */
export const promptBoundary: Family = {
  name: "prompt-boundary",
  configKeys: [],
  ops: {
    plan: {
      inputs: ["block_size", "first_miss_block", "prompt_len", "skip"],
      expects: { valid: "plain", partial: "plain", pos: "plain", block: "plain", node_size: "plain" },
    },
  },
  start: () => ({
    run(_, { block_size, first_miss_block, prompt_len, skip }) {
      const blockTokens = integer(block_size, "block_size", 1);
      const miss = integer(first_miss_block, "first_miss_block");
      const end = integer(prompt_len, "prompt_len") - Math.max(1, integer(skip, "skip"));
      const { pos, block, node_size, partial, valid } = plan(end, blockTokens, miss);
      return { valid, partial, pos, block, node_size };
    },
  }),
};

const noBoundary = { valid: false, partial: false, pos: 0, block: 0, node_size: 0 };

function plan(end: number, blockTokens: number, firstMissBlock: number) {
  if (end < 1) return noBoundary;
  const block = Math.floor((end - 1) / blockTokens);
  const inside = end - block * blockTokens;
  const partial = inside < blockTokens;
  // The parent of a partial node is the block before it, which must be cached; whole blocks end at the boundary themselves.
  const valid = partial ? firstMissBlock < block : firstMissBlock <= block;
  return valid ? { valid, partial, pos: end, block, node_size: partial ? inside : 0 } : noBoundary;
}
