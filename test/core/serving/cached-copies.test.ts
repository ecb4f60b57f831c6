import fc from "fast-check";
import { expect, test } from "vitest";
import { CacheReplay } from "../../../core/replica/replay.ts";
import { CachedCopies } from "../../../core/serving/cached-copies.ts";
import { type MeasuredOutcomes, never } from "../../../core/serving/outcomes.ts";
import { letterTrace } from "../../support/letters.ts";
import { configOf, replayed } from "../../support/replays.ts";

const replicas = [0, 1, 2];
const content = fc.oneof(fc.nat(70), fc.constantFrom(0, 31, 32, 63, 64, 40_000));

/** The contents as bits, one per content id. */
function bitsOf(contents: readonly number[]): Uint32Array {
  const bits = new Uint32Array((Math.max(0, ...contents) >>> 5) + 1);
  for (const each of contents) bits[each >>> 5] |= 1 << (each & 31);
  return bits;
}

test("the ratio of copies is the share of cached contents beyond the first of each, whichever request found them", () => {
  fc.assert(
    fc.property(fc.array(fc.array(content, { maxLength: 30 }), { minLength: 3, maxLength: 3 }), (found) => {
      const copies = new CachedCopies(replicas.map(() => ({ cache: undefined as never })));
      for (const replica of replicas) copies.addContents(replica, bitsOf(found[replica]));
      const sets = found.map((contents) => new Set(contents));
      const cached = sets.reduce((sum, { size }) => sum + size, 0);
      const distinct = new Set(found.flat()).size;
      expect(copies.ratio).toBe(cached === 0 ? 0 : (cached - distinct) / cached);
      for (const replica of replicas) {
        const bits = copies.contents(replica);
        const has = (key: number) => (bits[key >>> 5] & (1 << (key & 31))) !== 0;
        for (const key of [...found.flat(), 1, 33, 65]) expect(has(key)).toBe(sets[replica].has(key));
      }
    }),
  );
});

test("the cached blocks of served prompts are found on the replicas that served them", () => {
  const trace = letterTrace(["abc", "abd", "ab", "xyz"]);
  const { cache } = replayed(trace);
  const copies = new CachedCopies([{ cache }, { cache }]);
  const columns = CacheReplay.blockKeys(configOf(trace), trace);
  // The third request was never routed, the fourth was refused.
  const outcomes = { replica: Int16Array.of(0, 1, never, 1), refused: Uint8Array.of(0, 0, 0, 1) };
  copies.add(columns, outcomes as unknown as MeasuredOutcomes);
  // a b c and a b d: six cached blocks, of which two are copies.
  expect(copies.ratio).toBe(2 / 6);
});
