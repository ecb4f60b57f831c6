import { blockList } from "../allocator/block-list.ts";
import { lru } from "../eviction/lru.ts";
import { noIndex } from "../index/none.ts";
import type { Preset } from "../preset.ts";

/**
 * TGI without prefix caching: the baseline for `tgi`.
 */
export const tgiSimple: Preset = {
  name: "tgi-simple",
  about: "no prefix caching; blocks for maxOutputTokens are reserved at admission",
  source: "Text Generation Inference v3, SimpleAllocator",
  link: "https://github.com/huggingface/text-generation-inference/blob/main/backends/v3/src/block_allocator.rs",
  index: noIndex,
  eviction: lru,
  allocator: blockList,
  scheduler: "tgi-queue",
  blockTokens: 16,
  rules: {
    reserve: "worst-case",
  },
};
