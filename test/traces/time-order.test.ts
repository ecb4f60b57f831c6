import fc from "fast-check";
import { expect, test } from "vitest";
import { TraceError } from "../../core/errors.ts";
import { Notes } from "../../traces/format.ts";
import { inTimeOrder, mergedByTime } from "../../traces/time-order.ts";
import { failureOf } from "./files.ts";
import "../support/seed.ts";

interface Event {
  readonly time: number;
  readonly size: number;
  readonly name: string;
  readonly record: { error(message: string): TraceError };
}

const record = { error: (message: string) => new TraceError(message) };
const event = (time: number, name = "", size = 1): Event => ({ time, size, name, record });

async function* each<T>(values: readonly T[]): AsyncGenerator<T> {
  yield* values;
}

async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const value of values) found.push(value);
  return found;
}

test("records are sorted by time, equal times stay in order, and the disorder is noted", async () => {
  const property = fc.asyncProperty(fc.array(fc.nat({ max: 20 }), { minLength: 1 }), async (times) => {
    const notes = new Notes();
    const events = times.map((time, i) => event(time, String(i)));
    const sorted = await all(inTimeOrder(each(events), notes));
    expect(sorted).toEqual(events.toSorted((a, b) => a.time - b.time));
    const late = times.filter((time, i) => times.slice(0, i).some((before) => before > time)).length;
    expect(notes.all()).toEqual(
      late === 0 ? [] : [`requests out of order are sorted by time: ${late} of ${times.length}`],
    );
  });
  await fc.assert(property);
});

test("a record that is too late for the window is refused", async () => {
  const times = Array.from({ length: 6000 }, (_, i) => event(i));
  expect(await failureOf(() => all(inTimeOrder(each([...times, event(1000)]), new Notes())))).toMatch(
    /^time 1000 is earlier than 1903, that of a request too far before it to be sorted/,
  );
  const large = [event(1, "", 1 << 25), event(2), event(0)];
  expect(await failureOf(() => all(inTimeOrder(each(large), new Notes())))).toMatch(/^time 0 is earlier than 1/);
});

test("files are merged by time, in the given order at equal times, and closed if reading ends early", async () => {
  const property = fc.asyncProperty(
    fc.array(fc.array(fc.nat({ max: 30 }), { minLength: 1 }), { minLength: 1, maxLength: 5 }),
    fc.nat({ max: 40 }),
    async (files, limit) => {
      const contents = files.map((times, f) => times.toSorted((a, b) => a - b).map((time) => event(time, String(f))));
      let open = 0;
      async function* events(file: string) {
        open++;
        try {
          yield* contents[Number(file)];
        } finally {
          open--;
        }
      }
      const merged: Event[] = [];
      for await (const one of mergedByTime(Object.keys(contents), events)) if (merged.push(one) > limit) break;
      expect(merged).toEqual(
        contents
          .flat()
          .toSorted((a, b) => a.time - b.time)
          .slice(0, limit + 1),
      );
      expect(open).toBe(0);
    },
  );
  await fc.assert(property);
});
