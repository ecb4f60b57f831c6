import { blockList } from "../allocator/block-list.ts";
import { lru } from "../eviction/lru.ts";
import { radixTree } from "../index/radix-tree.ts";
import type { Preset } from "../preset.ts";

/**
 * All blocks that a request can need are reserved at admission. Its prompt is published when it finishes; output tokens are
 * not cached. A prompt that is cached to its end recomputes its last token, which is no hit.
 *
 * A node is protected as a whole by a request that matches its beginning, and an admission that fails has evicted all other
 * nodes. If the matched node leaves too little space, TGI never admits the request; here it is refused. With
 * `--rule node-match=renew` it is admitted.
 */
export const tgi: Preset = {
  name: "tgi",
  about: "radix tree of prompts, LRU by tails of leaves; blocks for maxOutputTokens are reserved at admission",
  source: "Text Generation Inference v3, RadixAllocator",
  link: "https://github.com/huggingface/text-generation-inference/blob/main/backends/v3/src/radix.rs",
  index: radixTree,
  eviction: lru,
  allocator: blockList,
  scheduler: "tgi-queue",
  blockTokens: 1,
  rules: {
    "full-hit": "rewrite-miss",
    publish: "finish",
    reserve: "worst-case",
    "victim-unit": "tail",
    "node-match": "whole",
    "failed-admission": "evicts",
  },
};
