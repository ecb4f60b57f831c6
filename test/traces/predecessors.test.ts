import fc from "fast-check";
import { expect, test } from "vitest";
import { noPredecessor, Predecessors } from "../../traces/predecessors.ts";

test("every id has the predecessor that it was added with", () => {
  const predecessor = (id: number) => fc.oneof(fc.constant(id - 1), fc.constant(noPredecessor), fc.nat({ max: id }));
  const all = fc
    .integer({ min: 1, max: 300 })
    .chain((count) => fc.tuple(...Array.from({ length: count }, (_, id) => predecessor(id))));
  fc.assert(
    fc.property(all, (given) => {
      const known = given.map((id) => (id < 0 ? noPredecessor : id));
      const predecessors = new Predecessors();
      for (const id of known) predecessors.add(id);
      expect(known.map((_, id) => predecessors.of(id))).toEqual(known);
    }),
  );
});

test("a million ids, of which every seventh follows another one, keep their predecessors", () => {
  const predecessors = new Predecessors();
  const given = (id: number) => (id % 7 === 0 ? Math.floor(id / 2) : id - 1);
  for (let id = 0; id < 1_000_000; id++) predecessors.add(given(id));
  for (let id = 0; id < 1_000_000; id++) if (predecessors.of(id) !== given(id)) expect(id).toBe(-1);
});
