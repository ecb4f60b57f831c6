import { expect, test } from "vitest";
import { readTrace, type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import { BatchStore } from "../../lab/batch-store.ts";

const batches = Array.from({ length: 5 }, (_, batch): Trace => {
  const builder = new TraceBuilder(16);
  for (let row = 0; row <= batch; row++)
    builder.add({ arrivalNs: 2 ** 40 + row, inputTokens: 40, outputTokens: row, keys: [batch, row, 7], session: 3 });
  return builder.take();
});

for (const [where, mostBytes] of [
  ["in memory", 1000],
  ["in a file", 0],
  ["first in memory, then in a file", 350],
] as const)
  test(`batches that are kept ${where} are read any number of times, in order and unchanged`, async () => {
    const store = new BatchStore<Trace>(mostBytes);
    for (const batch of batches) store.add(batch, 100);
    expect([...store.read()]).toEqual(batches);
    const joined = {
      files: [],
      format: "test",
      batches: async function* () {
        yield* store.read();
      },
    };
    const whole = {
      ...joined,
      batches: async function* () {
        yield* batches;
      },
    };
    expect(await readTrace(joined)).toEqual(await readTrace(whole));
    store.close();
  });

test("a view is written to a file without the rest of its buffer", () => {
  const store = new BatchStore<{ readonly keys: Uint32Array }>(0);
  store.add({ keys: Uint32Array.of(1, 2, 3, 4).subarray(1, 3) }, 8);
  const [{ keys }] = store.read();
  expect(keys).toEqual(Uint32Array.of(2, 3));
  store.close();
});
