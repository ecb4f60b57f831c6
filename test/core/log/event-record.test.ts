import { expect, test } from "vitest";
import { problemInRow, rowOf } from "../../../core/log/event-record.ts";
import { eventNames } from "../../../core/log/events.ts";
import { everyKind } from "./every-kind.ts";

test("every kind of event is encoded and decoded to the same fields", () => {
  const log = everyKind();
  const { request, block, key, value } = log.columns();
  let at = 0;
  for (const event of log.events()) {
    expect([event.at, event.name]).toEqual([at, eventNames[at]]);
    expect({ request: event.request, ...rowOf(event) }).toEqual({
      request: request[at],
      block: block[at],
      key: key[at],
      value: value[at],
    });
    at++;
  }
  expect(at).toBe(eventNames.length);
});

test("the column `block` is −1 in events without a block, and unused columns are −1", () => {
  const { block, key, value } = everyKind().columns();
  const at = (test: (row: number) => boolean) => eventNames.filter((_, row) => test(row)).join(" ");
  expect(at((row) => block[row] < 0)).toBe(
    "admit miss step finish refuse preempt clear unpin swapOut swapIn send receive trim signal",
  );
  expect(at((row) => key[row] < 0)).toBe("allocate release refuse preempt unpin");
  expect(at((row) => value[row] < 0)).toBe("finish refuse preempt clear unpin");
  expect([...block, ...key, ...value].filter((one) => one < -1)).toEqual([]);
});

test("the columns `key` and `value` are decoded to fields named by their meaning", () => {
  const log = everyKind();
  expect(log.eventAt(0)).toMatchObject({ name: "admit", timeNs: 1, request: 2, hitTokens: 3, hitBlocks: 4 });
  expect(log.eventAt(3)).toMatchObject({ name: "miss", content: 17, missReason: "past-hole" });
  expect(log.eventAt(6)).toMatchObject({ name: "copy", block: 29, sourceBlock: 30, place: 31 });
  expect(log.eventAt(9)).toMatchObject({ name: "duplicate", block: 42, keptBlock: 43, place: 44 });
  expect(log.eventAt(10)).toMatchObject({ name: "release", block: 47, keptCached: true });
  expect(log.eventAt(14)).toMatchObject({ name: "drop", content: 58, endToken: 59 });
  expect(log.eventAt(23)).toMatchObject({ name: "signal", request: 90, session: 91, signal: "expect" });
});

test("events of a part of a log are read into one record", () => {
  const log = everyKind();
  const records = new Set<unknown>();
  const names: string[] = [];
  for (const event of log.events(4, 7)) {
    records.add(event);
    names.push(event.name);
  }
  expect(names).toEqual(["evict", "allocate", "copy"]);
  expect(records.size).toBe(1);
  expect([...log.events(24)]).toEqual([]);
});

test.each([
  [24, 0, 0, "its kind is 24, expected 0 to 23"],
  [23, 0, 6, "its signal is 6, expected 0 to 5"],
  [3, 0, 7, "its reason is 7, expected 0 to 6"],
  [8, 0.5, 0, "content is 0.5, expected a whole number"],
])("a row of kind %i, key %f and value %i cannot be decoded", (kind, key, value, problem) => {
  expect(problemInRow(kind, key, value)).toBe(problem);
});
