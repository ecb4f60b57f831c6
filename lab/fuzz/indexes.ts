import { rowOf } from "../../core/log/event-record.ts";
import { CacheReplay, type ReplayConfig } from "../../core/replica/replay.ts";
import { type Difference, type DifferenceSide, Lockstep } from "../compare/lockstep.ts";
import { OperationsPlayer } from "../run/operations-file.ts";
import type { Checked, FuzzCase, FuzzKind, Trouble } from "./kinds.ts";
import { configOf, type FuzzParts, type Setup } from "./setup.ts";

/** What others are compared with. */
const reference = "hash-table";

/** Hash table, block trie and radix tree where they must decide alike: LRU, the deepest block first, one request at a time. */
export const indexes: FuzzKind = {
  name: "indexes",
  says: "with LRU hash table, block trie and radix tree make the same decisions in the same blocks",
  check: async (one, parts) => parted(one, parts),
  command: compareCommand,
};

function parted({ trace, setup, operations }: FuzzCase, parts: FuzzParts): Checked {
  const own = { ...configOf(setup, parts), audit: true };
  const { victims: _, "victim-unit": __, ...rules } = setup.rules;
  const first: ReplayConfig = { ...own, index: parts.indexes.find(({ name }) => name === reference)!, rules };
  const columns = CacheReplay.blockKeys(first, trace);
  const players = [1, 2].map(() => new OperationsPlayer(operations, trace, columns));
  const configs = [first, own].map(
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
  // Victims come back a run at once, or one by one: other allocators care, and so does the next request if an operator evicts.
  const isSame = setup.allocator === "block" && operations.every(({ operation }) => operation !== "evict");
  const otherBlocks = isSame ? noted.get("block-numbers")?.first : undefined;
  return { decisions, trouble: troubleOf(setup, difference, otherBlocks) };
}

function troubleOf(
  setup: Setup,
  difference: Difference | undefined,
  otherBlocks: number | undefined,
): Trouble | undefined {
  if (difference) {
    const [mine, other] = difference.sides.map(textOf);
    const message = `at request ${difference.request}: ${reference} ${mine}, ${setup.index} ${other}`;
    return { sort: "parting", message };
  }
  if (otherBlocks === undefined) return undefined;
  return { sort: "block-numbers", message: `other physical blocks from request ${otherBlocks} on` };
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
  // A tree's own rules are not the hash table's: they are left out where both have to follow them.
  const { victims: _, "victim-unit": __, ...rules } = setup.rules;
  return [
    `kvlab compare ${file} --index ${reference},${setup.index} --eviction lru --first-difference`,
    `--allocator ${setup.allocator} --scheduler ${setup.scheduler}`,
    ...Object.entries(rules).map(([name, value]) => `--rule ${name}=${value}`),
    `--block-size ${setup.blockTokens} --blocks ${setup.blocks}`,
  ].join(" ");
}
