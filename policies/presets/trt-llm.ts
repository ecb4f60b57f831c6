import { blockQueue } from "../allocator/block-queue.ts";
import { retention } from "../eviction/retention.ts";
import { blockTrie } from "../index/block-trie.ts";
import type { Preset } from "../preset.ts";

/**
 * A request publishes its blocks when it finishes, including the partial last one, without the last token. A block that
 * matches in part is taken over if it is an unreferenced leaf, else copied.
 */
export const trtLlm: Preset = {
  name: "trt-llm",
  about:
    "block trie; evicts leaves by priority, then in release order; partially matching blocks are taken over or copied",
  source: "TensorRT-LLM",
  link: "https://github.com/NVIDIA/TensorRT-LLM/blob/main/cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp",
  index: blockTrie,
  eviction: retention,
  allocator: blockQueue,
  scheduler: "fcfs-chunked",
  blockTokens: 32,
  rules: {
    "match-limit": "l-1",
    publish: "finish",
    "cache-generated": "true",
    partial: "steal",
    "store-tail": "true",
  },
};
