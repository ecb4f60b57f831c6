import { rowOf } from "../../core/log/event-record.ts";
import { CacheReplay, type ReplayConfig } from "../../core/replica/replay.ts";
import { type Difference, type DifferenceSide, Lockstep } from "../compare/lockstep.ts";
import { OperationsPlayer } from "../run/operations-file.ts";
import type { Checked, Failure, FuzzCase, FuzzKind } from "./kinds.ts";
import { configOf, type FuzzParts, type Setup } from "./setup.ts";

/** The index that trees are compared with. */
const reference = "hash-table";

/** Compares hash table, block trie and radix tree where they are equivalent: LRU, deepest block first, one request at a time. */
export const indexes: FuzzKind = {
  name: "indexes",
  property: "under LRU, hash table, block trie and radix tree make the same decisions in the same blocks",
  check: async (one, parts) => compared(one, parts),
  command: compareCommand,
};

function compared({ trace, setup, operations }: FuzzCase, parts: FuzzParts): Checked {
  const audited = { ...configOf(setup, parts), audit: true };
  const { victims: _, "victim-unit": __, ...rules } = setup.rules;
  const first: ReplayConfig = { ...audited, index: parts.indexes.find(({ name }) => name === reference)!, rules };
  const columns = CacheReplay.blockKeys(first, trace);
  const players = [1, 2].map(() => new OperationsPlayer(operations, trace, columns));
  const configs = [first, audited].map(
    (config, i): ReplayConfig => ({
      ...config,
      before: (...args) => players[i].before(...args),
    }),
  );
  const lockstep = new Lockstep(trace, configs, [columns, columns]);
  while (!lockstep.done) lockstep.serve();
  const [{ difference, comparison }] = lockstep.compared;
  const { events, hitBlocks, evictedBlocks, refusedRequests, noted } = comparison;
  const others = events - hitBlocks - evictedBlocks - refusedRequests;
  const decisions = { hit: hitBlocks, evict: evictedBlocks, refuse: refusedRequests, other: others };
  // Evicted blocks become free as a run or one by one, which changes block numbers with other allocators, and after
  // operator-initiated evictions.
  const isSame = setup.allocator === "block" && operations.every(({ operation }) => operation !== "evict");
  const otherBlocks = isSame ? noted.get("block-numbers")?.first : undefined;
  return { decisions, failure: failureOf(setup, difference, otherBlocks) };
}

function failureOf(
  setup: Setup,
  difference: Difference | undefined,
  otherBlocks: number | undefined,
): Failure | undefined {
  if (difference) {
    const [referenceText, otherText] = difference.sides.map(textOf);
    const message = `at request ${difference.request}: ${reference} ${referenceText}, ${setup.index} ${otherText}`;
    return { category: "divergence", message };
  }
  if (otherBlocks === undefined) return undefined;
  return { category: "block-numbers", message: `other physical blocks from request ${otherBlocks} on` };
}

function textOf({ logged, hitBlocks, refused }: DifferenceSide): string {
  if (refused) return "refuses it";
  if (!logged) return `has ${hitBlocks} hits and does "nothing more"`;
  const { block, key, value } = rowOf(logged.event);
  const does = `${logged.event.name} block ${block}, content ${key}, ${value}`;
  return `has ${hitBlocks} hits and does "${does}"`;
}

function compareCommand(setup: Setup, file: string, operationsFile?: string): string | undefined {
  if (operationsFile !== undefined) return undefined;
  // The tree's rules are left out, because `compare` applies rules to both indexes.
  const { victims: _, "victim-unit": __, ...rules } = setup.rules;
  return [
    `kvlab compare ${file} --index ${reference},${setup.index} --eviction lru --first-difference`,
    `--allocator ${setup.allocator} --scheduler ${setup.scheduler}`,
    ...Object.entries(rules).map(([name, value]) => `--rule ${name}=${value}`),
    `--block-size ${setup.blockTokens} --blocks ${setup.blocks}`,
  ].join(" ");
}
