import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import { seededRandom } from "../../core/random.ts";
import { readTrace, type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import { chatSource } from "../../traces/generators/chat.ts";
import { digestOf } from "../support/logs.ts";
import { replayed } from "../support/replays.ts";

interface Run {
  readonly policy: string;
  readonly index?: string;
  readonly blocks: number;
  readonly trace?: "chat" | "tokens";
  readonly rules?: Partial<Record<RuleName, RuleValue>>;
  readonly seed?: number;
}

/** Replays whose event logs are kept as digests: between them every kind of event but preemption. */
const runs: Record<string, Run> = {
  lru: { policy: "lru", blocks: 200 },
  "lru, first block first": { policy: "lru", blocks: 200, rules: { "free-order": "forward" } },
  fifo: { policy: "fifo", blocks: 200 },
  belady: { policy: "belady", blocks: 200 },
  "random, seed 3": { policy: "random", blocks: 200, seed: 3 },
  unbounded: { policy: "unbounded", blocks: 1 },
  "no index": { policy: "lru", index: "none", blocks: 200 },
  "block trie": { policy: "lru", index: "block-trie", blocks: 200 },
  "block trie, any victim, random": {
    ...{ policy: "random", index: "block-trie", blocks: 150, rules: { victims: "any" } },
  },
  "block trie, parts copied": {
    ...{ policy: "lru", index: "block-trie", blocks: 60, trace: "tokens", rules: { partial: "copy" } },
  },
  "block trie, parts stolen": {
    ...{ policy: "lru", index: "block-trie", blocks: 60, trace: "tokens", rules: { partial: "steal" } },
  },
  "radix tree": { policy: "lru", index: "radix-tree", blocks: 200 },
  "radix tree, whole runs": {
    ...{ policy: "fifo", index: "radix-tree", blocks: 150, rules: { "victim-unit": "node" } },
  },
  "radix tree, answers cached": {
    ...{ policy: "random", index: "radix-tree", blocks: 60, trace: "tokens", rules: { "cache-generated": "true" } },
  },
  "duplicates adopted": { policy: "fifo", blocks: 150, rules: { "free-order": "forward" } },
  "duplicates kept": { policy: "fifo", blocks: 150, rules: { duplicates: "keep", "free-order": "forward" } },
  "duplicates swapped": { policy: "fifo", blocks: 150, rules: { duplicates: "swap", "free-order": "forward" } },
  "duplicates replaced": { policy: "fifo", blocks: 150, rules: { duplicates: "replace", "free-order": "forward" } },
  "published at the end": { policy: "lru", blocks: 200, rules: { publish: "finish" } },
  "tokens, answers cached": { policy: "lru", blocks: 60, trace: "tokens", rules: { "cache-generated": "true" } },
  "tokens, at most l-1 hit": { policy: "fifo", blocks: 60, trace: "tokens", rules: { "match-limit": "l-1" } },
};

/** Digests of all event logs, by name. */
export async function logDigests(): Promise<Record<string, string>> {
  const traces = {
    chat: await readTrace(chatSource({ requests: 150, seed: 11, unitTokens: 128, systemPrompts: 8 })),
    tokens: tokenTrace(),
  };
  const digests: Record<string, string> = {};
  for (const [name, { policy, index, blocks, trace = "chat", rules = {}, seed = 1 }] of Object.entries(runs)) {
    const { log } = replayed(traces[trace], { policy, ...(index && { index }), blocks, rules, seed, events: true });
    digests[name] = digestOf(log!);
  }
  return digests;
}

/** Conversations in token ids: each prompt is an earlier one of the same namespace, its output, and new tokens. */
function tokenTrace(): Trace {
  const random = seededRandom(5);
  const words = (count: number) => Array.from({ length: count }, () => random.below(1000));
  const histories = Array.from({ length: 6 }, () => words(40));
  const builder = new TraceBuilder(1);
  for (let r = 0; r < 120; r++) {
    const which = random.below(histories.length);
    const keys = [...histories[which], ...words(random.below(30))].slice(-700);
    const generatedKeys = words(1 + random.below(40));
    histories[which] = keys.length > 300 ? words(40) : [...keys, ...generatedKeys];
    builder.add({
      arrivalNs: r * 1_000_000,
      inputTokens: keys.length,
      outputTokens: generatedKeys.length,
      keys,
      generatedKeys,
      namespace: which % 3,
    });
  }
  return builder.take();
}
