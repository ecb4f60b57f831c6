import fc from "fast-check";
import { expect, test } from "vitest";
import { bestTimeToLive, ToolDurations } from "../../../policies/eviction/tool-durations.ts";

const most = 512;
const inOrder = (durations: readonly number[]) => durations.slice(-most).sort((a, b) => a - b);

test("the durations of a tool are its last 512, sorted; with too few of them, those of all tools; else none", () => {
  const calls = fc.array(fc.record({ tool: fc.nat(2), duration: fc.nat(30) }), { maxLength: 9 });
  fc.assert(
    fc.property(calls, fc.constantFrom(1, 150), fc.integer({ min: 1, max: 600 }), (some, times, least) => {
      const all = Array.from({ length: times }, () => some).flat();
      const durations = new ToolDurations();
      for (const { tool, duration } of all) durations.add(tool, duration);
      for (const tool of [0, 1, 2, 3]) {
        const own = inOrder(all.filter((call) => call.tool === tool).map(({ duration }) => duration));
        const ofAll = inOrder(all.map(({ duration }) => duration));
        const expected = [own, ofAll].find(({ length }) => length > 0 && length >= least);
        expect(durations.of(tool, least)).toEqual(expected);
      }
    }),
    { numRuns: 60 },
  );
});

test("the best time to live has the largest saving of expected hits minus the time; 0 if none has any", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(40), { maxLength: 12 }), fc.nat(60), (durations, saved) => {
      const sorted = inOrder(durations);
      const gain = (time: number) =>
        (sorted.filter((duration) => duration <= time).length / sorted.length) * saved - time;
      const best = bestTimeToLive(sorted, saved);
      expect(best === 0 || sorted.includes(best)).toBe(true);
      for (const time of sorted) expect(gain(time)).toBeLessThanOrEqual(Math.max(0, gain(best)) + 1e-9);
      if (best > 0) expect(gain(best)).toBeGreaterThan(0);
    }),
  );
});
