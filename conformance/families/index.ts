import type { Family } from "../family.ts";
import { admissionEstimate } from "./admission-estimate.ts";
import { blockPool } from "./block-pool.ts";
import { blockReusePartial } from "./block-reuse-partial.ts";
import { blockTrieFamily } from "./block-trie.ts";
import { blockTrieDemo, blockTrieDemoFixed } from "./block-trie-demo.ts";
import { evictionOrder } from "./eviction-order.ts";
import { explicitPrefixPool } from "./explicit-prefix-pool.ts";
import { hashAllocatorV0 } from "./hash-allocator-v0.ts";
import { kvEvents } from "./kv-events.ts";
import { partialBlockIndex } from "./partial-block-index.ts";
import { partialMatch } from "./partial-match.ts";
import { priorityEviction } from "./priority-eviction.ts";
import { promptBoundary } from "./prompt-boundary.ts";
import { property } from "./property.ts";
import { radixBlockAllocator } from "./radix-block-allocator.ts";
import { radixTreeLocks } from "./radix-tree-locks.ts";
import { radixTrie } from "./radix-trie.ts";
import { retentionRanges } from "./retention-ranges.ts";
import { schedulerOrder } from "./scheduler-order.ts";
import { wholePromptLru } from "./whole-prompt-lru.ts";

/** All families. */
export const families: readonly Family[] = [
  admissionEstimate,
  blockPool,
  blockReusePartial,
  blockTrieDemo,
  blockTrieDemoFixed,
  blockTrieFamily,
  evictionOrder,
  explicitPrefixPool,
  hashAllocatorV0,
  kvEvents,
  partialBlockIndex,
  partialMatch,
  priorityEviction,
  promptBoundary,
  property,
  radixBlockAllocator,
  radixTreeLocks,
  radixTrie,
  retentionRanges,
  schedulerOrder,
  wholePromptLru,
];
