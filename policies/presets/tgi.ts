import { blockList } from "../allocator/block-list.ts";
import { lru } from "../eviction/lru.ts";
import { radixTree } from "../index/radix-tree.ts";
import type { Preset } from "../preset.ts";

/**
 * The router reserves all that a request can need, and keeps its prompt when it ends; answers are not kept. A prompt that is
 * cached to its end computes its last token again.
 */
export const tgi: Preset = {
  name: "tgi",
  about: "radix tree of prompts, tails of leaves by last use; the longest answer is reserved at admission",
  source: "Text Generation Inference v3, RadixAllocator",
  link: "https://github.com/huggingface/text-generation-inference/blob/main/backends/v3/src/radix.rs",
  index: radixTree,
  eviction: lru,
  allocator: blockList,
  scheduler: "tgi-queue",
  blockTokens: 1,
  rules: {
    "full-hit": "rewrite-last",
    publish: "finish",
    reserve: "worst-case",
    "victim-unit": "tail",
  },
};
