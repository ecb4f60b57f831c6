import fc from "fast-check";
import { expect, test } from "vitest";
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
