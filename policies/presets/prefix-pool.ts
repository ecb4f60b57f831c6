import { block } from "../allocator/block.ts";
import { fifo } from "../eviction/fifo.ts";
import { prefixPool } from "../index/prefix-pool.ts";
import type { Preset } from "../preset.ts";

/**
 * A marked prefix is computed by the first request that has it (which the original calls warm-up) and is a hit from the
 * next step on. `--rule prefix-blocks=N` limits the blocks of all prefixes together.
 */
export const prefixPoolPreset: Preset = {
  name: "prefix-pool",
  about: "marked prefixes, FIFO, without sharing of blocks",
  source: "vLLM PrefixPool (PR 1669)",
  link: "https://github.com/vllm-project/vllm/pull/1669",
  index: prefixPool,
  eviction: fifo,
  allocator: block,
  scheduler: "fcfs",
  blockTokens: 16,
  rules: {
    "full-hit": "rewrite-last",
    publish: "step",
  },
};
