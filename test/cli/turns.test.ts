import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { inTurn, type Turn } from "../../lab/run/turns.ts";

test("who is least far goes on, one at a time, and each gets what it came to", async () => {
  let running = 0;
  const order: string[] = [];
  const work = (name: string, parts: number) => async (turn: Turn) => {
    for (let done = 1; done <= parts; done++) {
      expect(++running).toBe(1);
      order.push(name);
      // Longer than a turn is at least.
      await sleep(1010);
      running--;
      await turn(done / parts);
    }
    return name.toUpperCase();
  };
  expect(await inTurn(work("a", 3), work("b", 2))).toEqual(["A", "B"]);
  expect(order).toEqual(["a", "b", "a", "b", "a"]);
});

test("where one fails, the others end in the middle of their work, and its error is what is thrown", async () => {
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
    throw new Error("lightning");
  };
  await expect(inTurn(endless, failing)).rejects.toThrow("lightning");
  expect(parts).toBeGreaterThan(0);
});
