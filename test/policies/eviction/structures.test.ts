import fc from "fast-check";
import { expect, test } from "vitest";
import { BitSet } from "../../../policies/eviction/bit-set.ts";
import { CalendarQueue, inUnit } from "../../../policies/eviction/calendar-queue.ts";
import { EntryLists } from "../../../policies/eviction/entry-lists.ts";
import { GhostList } from "../../../policies/eviction/ghost-list.ts";
import { ScoreHeap } from "../../../policies/eviction/score-heap.ts";

const entries = 8;
const lists = 3;

const acts = fc.array(
  fc.record({
    act: fc.constantFrom("insert", "move", "add", "addAt", "block", "remove"),
    entry: fc.nat(entries - 1),
    list: fc.nat(lists - 1),
    place: fc.nat(30),
  }),
  { maxLength: 80 },
);

test("the first entry of a list is the evictable member with the smallest place", () => {
  fc.assert(
    fc.property(acts, (all) => {
      const ours = new EntryLists(entries, lists);
      const naive = new Map<number, { list: number; place: number; evictable: boolean }>();
      let most = 0;
      for (const { act, entry, list, place } of all) {
        const one = naive.get(entry);
        // Places are distinct.
        const at = place + entry / entries;
        if (act === "insert") {
          ours.insert(entry, list, at);
          naive.set(entry, { list, place: at, evictable: false });
        } else if (one !== undefined && act === "remove") {
          ours.remove(entry);
          naive.delete(entry);
        } else if (one !== undefined && act === "move") {
          ours.move(entry, list, at);
          Object.assign(one, { list, place: at });
        } else if (one !== undefined && !one.evictable && (act === "add" || act === "addAt")) {
          if (act === "add") ours.add(entry);
          else ours.addAt(entry, at);
          one.evictable = true;
          if (act === "addAt") one.place = at;
        } else if (one?.evictable && act === "block") {
          ours.block(entry);
          one.evictable = false;
        }
        most = Math.max(most, naive.size);
        for (let each = 0; each < lists; each++) {
          const members = [...naive].filter(([, { list }]) => list === each);
          const evictable = members.filter(([, { evictable }]) => evictable);
          const [first] = evictable.sort(([, a], [, b]) => a.place - b.place);
          expect(ours.first(each)).toBe(first?.[0]);
          expect(ours.size(each)).toBe(members.length);
        }
        expect([ours.total, ours.largest]).toEqual([naive.size, most]);
      }
    }),
    { numRuns: 500 },
  );
});

test("an entry that was removed returns to its last list at its place", () => {
  const ours = new EntryLists(2, 2);
  ours.insert(0, 1, 5);
  ours.add(0);
  ours.remove(0);
  expect(ours.first(1)).toBeUndefined();
  ours.add(0);
  expect([ours.first(1), ours.size(1), ours.place[0]]).toEqual([0, 1, 5]);
});

test("a ghost list has the newest contents, with their numbers, up to its limit", () => {
  const steps = fc.array(
    fc.record({ key: fc.nat(20), limit: fc.integer({ min: 1, max: 6 }), act: fc.constantFrom("add", "take", "trim") }),
  );
  fc.assert(
    fc.property(steps, (all) => {
      const ours = new GhostList(4);
      const naive = new Map<number, number>();
      const trim = (limit: number) => {
        while (naive.size > limit) naive.delete(naive.keys().next().value!);
      };
      all.forEach(({ key, limit, act }, step) => {
        // Distant content ids whose homes in the table are often equal.
        const content = key * 0x1000_0001;
        if (act === "add") {
          ours.add(content >>> 0, limit, step);
          naive.delete(content >>> 0);
          trim(Math.min(limit, 4) - 1);
          naive.set(content >>> 0, step);
        } else if (act === "take") {
          expect(ours.take(content >>> 0)).toBe(naive.get(content >>> 0));
          naive.delete(content >>> 0);
        } else {
          ours.trim(limit - 1);
          trim(limit - 1);
        }
        expect(ours.count).toBe(naive.size);
        for (let each = 0; each <= 20; each++)
          expect(ours.has((each * 0x1000_0001) >>> 0)).toBe(naive.has((each * 0x1000_0001) >>> 0));
      });
    }),
    { numRuns: 500 },
  );
});

test("the first entry of a score heap is the evictable one with the smallest score, then with the smallest tie-breaker", () => {
  const steps = fc.array(
    fc.record({
      entry: fc.nat(11),
      score: fc.nat(5),
      tie: fc.nat(50),
      act: fc.constantFrom("add", "add", "remove"),
    }),
    { maxLength: 100 },
  );
  fc.assert(
    fc.property(steps, (all) => {
      const ours = new ScoreHeap(12);
      const naive = new Map<number, [score: number, tie: number]>();
      for (const { entry, score, tie: part, act } of all) {
        const tie = part + entry / 12;
        if (act === "add") {
          ours.add(entry, score, tie);
          naive.set(entry, [score, tie]);
        } else {
          ours.remove(entry);
          naive.delete(entry);
        }
        const [first] = [...naive].sort(([, a], [, b]) => a[0] - b[0] || a[1] - b[1]);
        expect(ours.first()).toBe(first?.[0]);
      }
    }),
    { numRuns: 500 },
  );
});

test("the first entry of a calendar queue is the evictable one with the smallest score, in any two successive units", () => {
  const steps = fc.array(
    fc.record({
      entry: fc.nat(11),
      part: fc.oneof(
        fc.nat(2 ** 31 - 1).map((n) => n / 2 ** 30),
        fc.constantFrom(0, 0.5, 1, 1.5),
      ),
      act: fc.constantFrom("add", "add", "remove", "evict"),
    }),
    { maxLength: 100 },
  );
  fc.assert(
    fc.property(steps, fc.integer({ min: -3, max: 2 ** 20 }), (all, start) => {
      const ours = new CalendarQueue(12);
      const naive = new Map<number, [score: number, tie: number]>();
      const first = () => [...naive].sort(([, a], [, b]) => a[0] - b[0] || a[1] - b[1])[0]?.[0];
      let unit = start;
      for (const [at, { entry, part, act }] of all.entries()) {
        const removed = act === "evict" ? first() : entry;
        if (act === "add") {
          ours.add(entry, unit + part, at);
          naive.set(entry, [unit + part, at]);
        } else if (removed !== undefined) {
          ours.remove(removed);
          naive.delete(removed);
        }
        expect(ours.first()).toBe(first());
        expect(ours.isEvictable(entry)).toBe(naive.has(entry));
        // A new unit begins when no entry of the oldest one is left.
        if (![...naive.values()].some(([score]) => score < unit + 1)) unit++;
      }
    }),
    { numRuns: 500 },
  );
});

test("a calendar queue refuses a score outside two successive units", () => {
  const queue = new CalendarQueue(2);
  queue.add(0, 3.5, 0);
  expect(() => queue.add(1, 5, 1)).toThrow("not within two units from 3");
});

test("a bit set finds the smallest member that is at least a number", () => {
  const size = fc.constantFrom(1, 2, 31, 32, 33, 1024, 1025, 40_000);
  const changes = fc.array(fc.tuple(fc.nat(), fc.boolean()), { maxLength: 60 });
  fc.assert(
    fc.property(size, changes, (count, all) => {
      const ours = new BitSet(count);
      const naive = new Set<number>();
      for (const [number, isAdded] of all) {
        const member = number % count;
        if (isAdded) {
          ours.add(member);
          naive.add(member);
        } else {
          ours.remove(member);
          naive.delete(member);
        }
        for (const from of [0, member, member + 1, count - 1]) {
          const atLeast = [...naive].filter((one) => one >= from);
          expect(ours.next(from)).toBe(atLeast.length === 0 ? undefined : Math.min(...atLeast));
        }
      }
    }),
    { numRuns: 500 },
  );
});

test("a score stays in its unit, also where the sum would be rounded up to the next", () => {
  const fraction = 1 - 2 ** -32;
  fc.assert(
    fc.property(fc.integer({ min: -1, max: 2 ** 50 }), fc.nat({ max: 2 ** 32 - 1 }), (unit, numerator) => {
      for (const each of [fraction, numerator / 2 ** 32]) {
        const score = inUnit(unit, each);
        expect(Math.floor(score)).toBe(unit);
        expect(Math.abs(score - (unit + each))).toBeLessThanOrEqual(Math.max(1, unit) * Number.EPSILON);
      }
    }),
  );
  const queue = new CalendarQueue(2);
  queue.add(0, inUnit(2 ** 40, 0.5), 0);
  queue.add(1, inUnit(2 ** 40 + 1, fraction), 1);
  expect(queue.first()).toBe(0);
});
