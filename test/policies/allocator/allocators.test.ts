import { describe, expect, test } from "vitest";
import { InvariantError } from "../../../core/errors.ts";
import type { Allocator } from "../../../core/plugins/index.ts";
import { allocatorRegistry } from "../../../policies/registry.ts";

/** An allocator in use: `take` returns the allocated blocks; `give` releases a list of blocks, deepest first. */
function allocatorOf(name: string, blockCount: number) {
  const allocator: Allocator = allocatorRegistry.get(name).create(blockCount);
  return {
    allocator,
    take(count: number): number[] {
      const table = new Int32Array(count);
      allocator.allocate(table, 0, count);
      return [...table];
    },
    give: (...blocks: number[]) => allocator.release(Int32Array.from(blocks), 0, blocks.length),
    reset: (...order: number[]) => allocator.reset(Int32Array.from(order)),
    free: () => [...allocator.free()],
  };
}

const upTo = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);

describe("block-list", () => {
  /** Blocks 1 to `last`; block 0 is never free, as in TGI. */
  function listOf(last: number) {
    const list = allocatorOf("block-list", last + 1);
    list.reset(...upTo(1, last + 1).reverse());
    return list;
  }

  test("allocates the end of its list, in list order", () => {
    const { take, free } = listOf(11);
    expect(take(4)).toEqual([8, 9, 10, 11]);
    expect(take(2)).toEqual([6, 7]);
    expect(free()).toEqual([5, 4, 3, 2, 1]);
  });

  test("released blocks are appended in prompt order, and allocated first and in this order", () => {
    const { take, give } = listOf(6);
    expect(take(4)).toEqual([3, 4, 5, 6]);
    expect(take(2)).toEqual([1, 2]);
    give(6, 5, 4, 3);
    expect(take(4)).toEqual([3, 4, 5, 6]);
  });

  test("blocks of several releases are appended in the order of the releases", () => {
    const { take, give } = listOf(19);
    expect(take(4)).toEqual([16, 17, 18, 19]);
    give(19, 18);
    expect(take(6)).toEqual([12, 13, 14, 15, 18, 19]);
    expect(take(6)).toEqual([6, 7, 8, 9, 10, 11]);
    give(11, 10);
    give(13, 12);
    give(19, 18);
    expect(take(5)).toEqual([11, 12, 13, 18, 19]);
  });
});

describe("token", () => {
  test("allocates the lowest free slots, contiguous or not, in ascending order", () => {
    const { take, give, free } = allocatorOf("token", 8);
    expect(take(6)).toEqual([0, 1, 2, 3, 4, 5]);
    give(4, 1);
    expect(free()).toEqual([1, 4, 6, 7]);
    expect(take(3)).toEqual([1, 4, 6]);
  });

  test("fails without allocating if there are too few free slots; the original silently returned fewer", () => {
    const { take, give, allocator, free } = allocatorOf("token", 4);
    expect(take(3)).toEqual([0, 1, 2]);
    give(1);
    expect(() => take(3)).toThrow(new InvariantError("cannot allocate 3 blocks, 2 are free"));
    expect(allocator.freeBlocks).toBe(2);
    expect(free()).toEqual([1, 3]);
  });

  test("releasing a slot twice is an error", () => {
    const { take, give } = allocatorOf("token", 4);
    take(2);
    give(1);
    expect(() => give(1)).toThrow(new InvariantError("slot 1 was released, but is free already"));
  });
});

describe("token-contiguous", () => {
  test("allocates the first run that is long enough, and skips shorter ones", () => {
    const { take, give } = allocatorOf("token-contiguous", 12);
    take(12);
    give(1, 0);
    give(6, 5, 4);
    give(11, 10, 9, 8);
    expect(take(3)).toEqual([4, 5, 6]);
    expect(take(3)).toEqual([8, 9, 10]);
    expect(take(1)).toEqual([0]);
  });

  test("allocates the lowest slots if no run is long enough", () => {
    const { take, give } = allocatorOf("token-contiguous", 12);
    take(12);
    give(1, 0);
    give(6, 5, 4);
    expect(take(4)).toEqual([0, 1, 4, 5]);
  });

  test("a run may lie across words of the bitmap", () => {
    const { take, give } = allocatorOf("token-contiguous", 200);
    take(200);
    give(...upTo(3, 33).reverse());
    give(...upTo(60, 130).reverse());
    expect(take(31)).toEqual(upTo(60, 91));
    expect(take(30)).toEqual(upTo(3, 33));
  });
});

describe.each(["token", "token-contiguous"])("%s with a million slots", (name) => {
  const million = 1 << 20;

  test("finds the only free slot, wherever it is", () => {
    const { take, give } = allocatorOf(name, million);
    expect(take(million)).toHaveLength(million);
    for (const slot of [0, 31, 32, 1023, 1024, 32_767, 32_768, 524_288, million - 1]) {
      give(slot);
      expect(take(1)).toEqual([slot]);
    }
  });

  test("continues after full words", () => {
    const { take, give } = allocatorOf(name, million);
    take(524_288 + 33);
    expect(take(2)).toEqual([524_321, 524_322]);
    give(40_000);
    expect(take(1)).toEqual([40_000]);
    expect(take(1)).toEqual([524_323]);
  });
});

describe("fragmentation", () => {
  test("counts the runs of allocations, and the longest free run", () => {
    const { take, give, allocator } = allocatorOf("token", 10);
    take(6);
    give(4, 1);
    expect(take(3)).toEqual([1, 4, 6]);
    give(0);
    expect(allocator.fragmentation?.()).toEqual({ allocations: 2, blocks: 9, runs: 1 + 3, largestFreeRun: 3 });
  });

  test("a run is ascending: descending blocks of an allocation are separate runs", () => {
    const { take, give, allocator } = allocatorOf("block-list", 4);
    expect(take(2)).toEqual([2, 3]);
    give(2);
    give(3);
    expect(take(2)).toEqual([2, 3]);
    give(3);
    give(2);
    expect(take(2)).toEqual([3, 2]);
    expect(allocator.fragmentation?.()).toEqual({ allocations: 3, blocks: 6, runs: 1 + 1 + 2, largestFreeRun: 2 });
  });

  test("an allocation of no blocks is not counted", () => {
    const { take, allocator } = allocatorOf("token-contiguous", 3);
    expect(take(0)).toEqual([]);
    expect(allocator.fragmentation?.()).toEqual({ allocations: 0, blocks: 0, runs: 0, largestFreeRun: 3 });
  });

  test("allocating the first long run gives fewer runs than allocating the lowest slots", () => {
    const runsOf = (name: string) => {
      const { take, give, allocator } = allocatorOf(name, 64);
      take(64);
      // Single slots below, a long run above.
      for (let slot = 0; slot < 16; slot += 2) give(slot);
      give(...upTo(32, 64).reverse());
      for (let n = 0; n < 8; n++) take(4);
      return allocator.fragmentation?.().runs;
    };
    expect(runsOf("token")).toBe(1 + 4 + 4 + 6);
    expect(runsOf("token-contiguous")).toBe(1 + 8);
  });
});
