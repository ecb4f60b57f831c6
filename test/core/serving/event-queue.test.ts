import fc from "fast-check";
import { expect, test } from "vitest";
import { EventQueue } from "../../../core/serving/event-queue.ts";

test("events are popped by time, and those at one time in the order of their insertion", () => {
  const operation = fc.option(fc.nat(12), { nil: undefined });
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 400, size: "max" }), (operations) => {
      const queue = new EventQueue();
      const sorted: { timeNs: number; event: number }[] = [];
      operations.forEach((timeNs, event) => {
        if (timeNs !== undefined) {
          queue.push(timeNs, event);
          const at = sorted.findIndex((other) => other.timeNs > timeNs);
          sorted.splice(at < 0 ? sorted.length : at, 0, { timeNs, event });
        } else if (sorted.length > 0) {
          expect(queue.pop()).toBe(sorted.shift()!.event);
        }
        expect(queue.isEmpty).toBe(sorted.length === 0);
        expect(queue.nextNs).toBe(sorted[0]?.timeNs ?? Number.POSITIVE_INFINITY);
      });
      while (!queue.isEmpty) expect(queue.pop()).toBe(sorted.shift()!.event);
      expect(sorted).toEqual([]);
    }),
  );
});

test("a thousand events at two times are popped in order of insertion, also while the queue grows", () => {
  const queue = new EventQueue();
  for (let i = 0; i < 1000; i++) queue.push(i % 2, i);
  const out: number[] = [];
  while (!queue.isEmpty) out.push(queue.pop());
  const even = Array.from({ length: 500 }, (_, i) => 2 * i);
  expect(out).toEqual([...even, ...even.map((i) => i + 1)]);
});
