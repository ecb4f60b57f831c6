import { expect, test } from "vitest";
import { BlockPool, BlockState } from "../../../core/cache/pool.ts";

const { free, reserved, computing, published, idle } = BlockState;

test("a block changes its state and counts its references", () => {
  const pool = new BlockPool(3);
  pool.move(1, free, reserved);
  pool.addRefs(1, 1);
  pool.move(1, reserved, computing);
  pool.move(1, computing, published);
  pool.addRefs(1, 1);
  expect([pool.stateOf(1), pool.refCountOf(1)]).toEqual([published, 2]);
  pool.addRefs(1, -1);
  expect([pool.stateOf(1), pool.refCountOf(1)]).toEqual([published, 1]);
  expect([pool.stateOf(0), pool.stateOf(2)]).toEqual([free, free]);
});

test("a change from a state that the block does not have is refused with the block and both states", () => {
  const pool = new BlockPool(8);
  expect(() => pool.move(7, idle, free)).toThrow("block 7 is free, not idle, and cannot become free");
  pool.move(7, free, reserved);
  expect(() => pool.move(7, free, reserved)).toThrow("block 7 is reserved, not free, and cannot become reserved");
  expect(() => pool.move(7, published, idle)).toThrow("block 7 is reserved, not published, and cannot become idle");
  expect(pool.stateOf(7)).toBe(reserved);
});

test("a grown pool keeps the state of its blocks; new ones are free", () => {
  const pool = new BlockPool(1);
  pool.move(0, free, reserved);
  pool.addRefs(0, 1);
  pool.grow(3);
  expect(pool.blockCount).toBe(3);
  expect([0, 1, 2].map((block) => pool.stateOf(block))).toEqual([reserved, free, free]);
  expect(pool.refCountOf(0)).toBe(1);
});
