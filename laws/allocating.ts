import fc from "fast-check";
import type { AllocatorPlugin } from "../core/plugins/index.ts";
import { type PartTrial, partTrial } from "./check-part.ts";
import { callsReturn } from "./contract-laws.ts";
import { type Law, require, same } from "./law.ts";

const allocatesFree: Law = {
  name: "allocates-free",
  statement: "an allocated block is free, exists, and is allocated once",
};
const writesInside: Law = { name: "writes-inside", statement: "allocate writes table[from .. to) and nothing else" };
const freeList: Law = { name: "free-list", statement: "free() and freeBlocks are the blocks that are not allocated" };
const grows: Law = {
  name: "grows",
  statement: "a grown pool has the new blocks free, and reset frees the blocks it lists",
};
const repeats: Law = { name: "determinism", statement: "the same calls allocate the same blocks" };

const operation = fc.record({ what: fc.nat(9), share: fc.double({ min: 0, max: 1, noNaN: true }) });
const cases = fc.record({
  blockCount: fc.integer({ min: 1, max: 80 }),
  operations: fc.array(operation, { maxLength: 60, size: "max" }),
});
type Case = typeof cases extends fc.Arbitrary<infer T> ? T : never;

/** The laws of an allocator. */
export const allocatorTrials = (plugin: AllocatorPlugin): PartTrial[] => [
  partTrial({
    laws: [allocatesFree, writesInside, freeList, grows, repeats, callsReturn],
    cases,
    check(one) {
      same(repeats, "allocated a second time", allocatedIn(plugin, one), allocatedIn(plugin, one));
    },
  }),
];

const upTo = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);

/** Executes the operations and returns the allocated lists. @throws LawBroken */
function allocatedIn(plugin: AllocatorPlugin, { blockCount, operations }: Case): number[][] {
  const allocator = plugin.create(blockCount);
  let total = blockCount;
  let free = new Set(upTo(0, total));
  let lists: number[][] = [];
  const all: number[][] = [];
  for (const { what, share } of operations) {
    if (what < 5) {
      const count = Math.ceil(share * free.size);
      const table = new Int32Array(count + 2).fill(-7);
      allocator.allocate(table, 1, count + 1);
      require(writesInside, table[0] === -7 &&
        table[count + 1] === -7, `allocate(table, 1, ${count + 1}) wrote outside`);
      const list = [...table.subarray(1, count + 1)];
      for (const block of list)
        require(allocatesFree, free.delete(block), `allocated block ${block}, which is not free`);
      if (count > 0) lists.push(list);
      all.push(list);
    } else if (what < 8 && lists.length > 0) {
      const list = lists[Math.floor(share * (lists.length - 1))];
      const kept = Math.floor(share * list.length);
      const gone = list.splice(kept).reverse();
      lists = lists.filter(({ length }) => length > 0);
      allocator.release(Int32Array.from(gone), 0, gone.length);
      for (const block of gone) free.add(block);
    } else if (what === 8 && total < 400) {
      const before = total;
      total += 1 + Math.floor(share * 40);
      allocator.grow(total);
      for (const block of upTo(before, total)) free.add(block);
    } else if (what === 9) {
      const order = upTo(0, total).reverse();
      allocator.reset(Int32Array.from(order));
      free = new Set(order);
      lists = [];
    }
    const law = what >= 8 ? grows : freeList;
    same(law, "freeBlocks", allocator.freeBlocks, free.size);
    const listed = [...allocator.free()];
    same(
      law,
      "free() in order of number",
      listed.toSorted((a, b) => a - b),
      [...free].sort((a, b) => a - b),
    );
    if (allocator.peek && free.size > 0) same(freeList, "peek()", allocator.peek(), listed[0]);
  }
  return all;
}
