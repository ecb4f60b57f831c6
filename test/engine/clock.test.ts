import { expect, test } from "vitest";
import { BusyClock, type Clock, WallClock } from "../../engine/clock.ts";

const clocks: [string, () => Clock][] = [
  ["WallClock", () => new WallClock()],
  ["BusyClock", () => new BusyClock()],
];

test.each(clocks)("%s counts whole nanoseconds and never decreases", async (_, create) => {
  const clock = create();
  let last = 0;
  for (let i = 0; i < 20_000; i++) {
    if (i % 4000 === 0) await clock.waitUntil(last + 1000);
    const now = clock.now();
    expect(Number.isSafeInteger(now) && now >= last).toBe(true);
    last = now;
  }
});

test.each(clocks)("%s waits until a given time, and not at all if it has passed", async (_, create) => {
  const clock = create();
  for (const aheadNs of [3e6, 1, 0, -1e9]) {
    const untilNs = clock.now() + aheadNs;
    await clock.waitUntil(untilNs);
    expect(clock.now()).toBeGreaterThanOrEqual(untilNs);
  }
});

test("a busy clock skips the waiting time and continues after it", async () => {
  const clock = new BusyClock();
  const wall = new WallClock();
  const year = 365 * 24 * 3600e9;
  await clock.waitUntil(year);
  expect(clock.now()).toBeGreaterThanOrEqual(year);
  // Only the time of the calls has passed in addition, in real time and on this clock.
  expect(clock.now() - year).toBeLessThanOrEqual(wall.now() + 1e9);
  const again = clock.now();
  await clock.waitUntil(again - 5);
  await clock.waitUntil(again + 7e9);
  expect(clock.now()).toBeGreaterThanOrEqual(again + 7e9);
});

test("a wall clock stops waiting when the signal aborts, also for times beyond the range of timers", async () => {
  const clock = new WallClock();
  const controller = new AbortController();
  const waiting = clock.waitUntil(Number.MAX_SAFE_INTEGER, controller.signal);
  setImmediate(() => controller.abort());
  await waiting;
  await clock.waitUntil(Number.MAX_SAFE_INTEGER, controller.signal);
  expect(clock.now()).toBeLessThan(Number.MAX_SAFE_INTEGER);
});

test("a busy clock does not advance during `during`, also if that fails", async () => {
  const clock = new BusyClock();
  const wall = new WallClock();
  const pauses = [
    async () => {
      await new Promise((done) => setTimeout(done, 300));
    },
    async () => {
      await new Promise((done) => setTimeout(done, 300));
      throw new Error("lightning");
    },
  ];
  for (const pause of pauses) {
    const [before, sinceNs] = [clock.now(), wall.now()];
    await clock.excluded(pause).catch(() => {});
    const after = clock.now();
    expect(after).toBeGreaterThanOrEqual(before);
    expect(wall.now() - sinceNs - (after - before)).toBeGreaterThan(290e6);
  }
});
