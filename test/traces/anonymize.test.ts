import fc from "fast-check";
import { expect, test } from "vitest";
import { readTrace, type Trace, TraceBuilder, type TraceContent } from "../../core/trace/trace.ts";
import { anonymized } from "../../traces/anonymize.ts";
import { replayed } from "../support/replays.ts";
import { anyTrace, sourceOf } from "./any-trace.ts";
import { failureOf } from "./files.ts";

async function anonymous(trace: Trace, content: TraceContent, blockTokens: number, salt = "salt") {
  const { source, idOf } = anonymized(sourceOf(trace, content), { blockTokens, salt });
  const result = await readTrace(source);
  return { trace: result, ids: Array.from(result.keys, idOf) };
}

/** Token prompts that share prefixes of any length; a multiple of `multiple` tokens long. */
const tokenTrace = (multiple: number) =>
  fc
    .array(fc.record({ like: fc.nat(), shared: fc.nat(12), own: fc.nat(6), token: fc.nat(3) }), {
      minLength: 1,
      maxLength: 12,
    })
    .map((rows) => {
      const builder = new TraceBuilder(1);
      const prompts: number[][] = [];
      rows.forEach(({ like, shared, own, token }, r) => {
        const keys = (prompts[like % (r + 1)] ?? []).slice(0, shared);
        for (let i = 0; i <= own; i++) keys.push(token);
        while (keys.length % multiple !== 0) keys.push(token);
        prompts.push(keys);
        builder.add({ arrivalNs: r, inputTokens: keys.length, outputTokens: 1, keys });
      });
      return builder.take();
    });

test("hits are equal before and after, for prompts of whole blocks, at every cache size", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(2, 4),
      fc.gen(),
      fc.integer({ min: 12, max: 30 }),
      async (blockTokens, gen, blocks) => {
        const trace = gen(() => tokenTrace(blockTokens));
        const after = await anonymous(trace, "tokens", blockTokens);
        for (const size of [undefined, blocks]) {
          const config = { blockTokens, blocks: size };
          expect(replayed(after.trace, config).requests.hitBlocks).toEqual(replayed(trace, config).requests.hitBlocks);
        }
      },
    ),
  );
});

test("hits of whole blocks are equal before and after, for prompts of any length", async () => {
  await fc.assert(
    fc.asyncProperty(tokenTrace(1), fc.integer({ min: 2, max: 5 }), async (trace, blockTokens) => {
      const after = await anonymous(trace, "tokens", blockTokens);
      const hits = replayed(after.trace, { blockTokens }).requests.hitBlocks;
      // The partial last block of a prompt has an id, too, so that an equal prompt has one more hit.
      const whole = hits.map((count, r) => Math.min(count, Math.floor(trace.inputTokens[r] / blockTokens)));
      expect(whole).toEqual(replayed(trace, { blockTokens }).requests.hitBlocks);
    }),
  );
});

test("lengths, times and columns are kept; ids of blocks are equal where prefixes are", async () => {
  await fc.assert(
    fc.asyncProperty(anyTrace("blocks"), fc.integer({ min: 1, max: 3 }), async (trace, units) => {
      const { trace: after } = await anonymous(trace, "blocks", trace.unitTokens * units);
      const { keys: _, keyStart: __, distinctKeys: ___, unitTokens, optional, ...rest } = after;
      expect(unitTokens).toBe(trace.unitTokens * units);
      expect(rest).toEqual({
        requestCount: trace.requestCount,
        arrivalNs: trace.arrivalNs,
        inputTokens: trace.inputTokens,
        outputTokens: trace.outputTokens,
        maxOutputTokens: trace.maxOutputTokens,
      });
      const { namespace: a, session: b, category: c, ...kept } = optional;
      const { namespace: d, session: e, category: f, ...expected } = trace.optional;
      expect(kept).toEqual(expected);
      expect([a, b, c].map((column) => column?.length)).toEqual([d, e, f].map((column) => column?.length));
      if (units === 1) expect(after.keys).toEqual(trace.keys);
    }),
  );
});

test("ids of two salts have nothing in common; ids of one salt are equal in every trace", async () => {
  const builder = new TraceBuilder(1);
  const keys = Array.from({ length: 40 }, (_, i) => i);
  builder.add({ arrivalNs: 0, inputTokens: 40, outputTokens: 1, keys, session: 7 });
  builder.add({ arrivalNs: 1, inputTokens: 20, outputTokens: 1, keys: keys.slice(0, 20), session: 3 });
  const trace = builder.take();
  const first = await anonymous(trace, "tokens", 16, "a");
  expect(first.ids).toHaveLength(5);
  expect(first.ids[3]).toBe(first.ids[0]);
  expect(new Set(first.ids).size).toBe(4);
  for (const id of first.ids) expect(BigInt(id) < 2n ** 63n).toBe(true);
  expect(first.trace.optional.session).toEqual(Uint32Array.of(1, 2));
  const other = await anonymous(trace, "tokens", 16, "b");
  expect(other.ids.filter((id) => first.ids.includes(id))).toEqual([]);
  builder.add({ arrivalNs: 5, inputTokens: 33, outputTokens: 1, keys: [9, ...keys.slice(0, 32)] });
  builder.add({ arrivalNs: 5, inputTokens: 32, outputTokens: 1, keys: keys.slice(0, 32) });
  const later = await anonymous(builder.take(), "tokens", 16, "a");
  expect(later.ids.slice(3)).toEqual(first.ids.slice(0, 2));
  expect(later.ids.slice(0, 3).filter((id) => first.ids.includes(id))).toEqual([]);
});

test("lengths have nothing to anonymize, and a block size must fit the unit", async () => {
  const builder = new TraceBuilder(16);
  builder.add({ arrivalNs: 0, inputTokens: 16, outputTokens: 1, keys: [0] });
  const trace = builder.take();
  expect(await failureOf(() => anonymous(trace, "blocks", 24))).toBe(
    "block size is 24, expected a multiple of the trace's unit, 16",
  );
  expect(await failureOf(() => anonymous(trace, "lengths", 16))).toMatch(/^the trace has lengths only/);
});
