import type { Family } from "../family.ts";
import { integer } from "../values.ts";

/**
 * TurboMind 2026: where a prompt's reusable prefix ends, `skip` tokens before the prompt's end, and whether a node of its
 * own must be published for it. Pure geometry; source: src/turbomind/engine/prompt_boundary.h.
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

const nowhere = { valid: false, partial: false, pos: 0, block: 0, node_size: 0 };

function plan(end: number, blockTokens: number, firstMissBlock: number) {
  if (end < 1) return nowhere;
  const block = Math.floor((end - 1) / blockTokens);
  const inside = end - block * blockTokens;
  const partial = inside < blockTokens;
  // A partial node hangs below the block before it, which must be there already; whole blocks reach the end themselves.
  const valid = partial ? firstMissBlock < block : firstMissBlock <= block;
  return valid ? { valid, partial, pos: end, block, node_size: partial ? inside : 0 } : nowhere;
}
