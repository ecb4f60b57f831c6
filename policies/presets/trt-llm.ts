import { blockQueue } from "../allocator/block-queue.ts";
import { retention } from "../eviction/retention.ts";
import { blockTrie } from "../index/block-trie.ts";
import type { Preset } from "../preset.ts";

/**
 * A request stores its blocks when it ends, the incomplete last one too, but never its last token. A block that begins as
 * the prompt goes on is taken over if nobody uses or extends it, else copied.
 */
export const trtLlm: Preset = {
  name: "trt-llm",
  about: "block trie, leaves by priority and then by release; parts of blocks are taken over or copied",
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
