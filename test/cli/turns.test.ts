import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { inTurn, type Turn } from "../../lab/run/turns.ts";

test("the work with the smallest completed share continues, one at a time, and all results are returned", async () => {
  let running = 0;
  const order: string[] = [];
  const work = (name: string, parts: number) => async (turn: Turn) => {
    for (let done = 1; done <= parts; done++) {
      expect(++running).toBe(1);
      order.push(name);
      // Longer than the least duration of a turn.
      await sleep(1010);
      running--;
      await turn(done / parts);
    }
    return name.toUpperCase();
  };
  expect(await inTurn(work("a", 3), work("b", 2))).toEqual(["A", "B"]);
  expect(order).toEqual(["a", "b", "a", "b", "a"]);
});

test("an error of one work stops the others and is thrown", async () => {
  let parts = 0;
  const endless = async (turn: Turn) => {
    for (;;) {
      parts++;
      await sleep(300);
      await turn(0.5);
    }
  };
  const failing = async (turn: Turn) => {
    await turn(0);
    await sleep(10);
    throw new Error("failed");
  };
  await expect(inTurn(endless, failing)).rejects.toThrow("failed");
  expect(parts).toBeGreaterThan(0);
});
