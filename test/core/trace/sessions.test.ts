import fc from "fast-check";
import { expect, test } from "vitest";
import { type Trace, TraceBuilder } from "../../../core/trace/trace.ts";
import { replayed } from "../../support/replays.ts";

interface RequestSpec {
  readonly prompt: readonly number[];
  readonly namespace: number;
  readonly session: number;
}

const requests = fc.array(
  fc.record({
    prompt: fc.array(fc.nat(1), { minLength: 1, maxLength: 8 }),
    namespace: fc.nat(1),
    session: fc.nat(3),
  }),
  { minLength: 1, maxLength: 40 },
);

function traceOf(all: readonly RequestSpec[], column: (request: RequestSpec, row: number) => object): Trace {
  const builder = new TraceBuilder(1);
  for (const [row, request] of all.entries()) {
    const keys = [...request.prompt];
    builder.add({
      arrivalNs: row,
      inputTokens: keys.length,
      outputTokens: 1,
      keys,
      generatedKeys: [0],
      ...column(request, row),
    });
  }
  return builder.take();
}

test("with share=session a session matches only its own blocks, and a request without one has no hits", () => {
  fc.assert(
    fc.property(
      requests,
      fc.constantFrom("hash-table", "block-trie", "radix-tree"),
      fc.integer({ min: 8, max: 30 }),
      (all, index, blocks) => {
        const own = { index, policy: "lru", blockTokens: 1, blocks };
        const bySession = traceOf(all, ({ namespace, session }) => ({ namespace, session }));
        const byNamespace = traceOf(all, ({ namespace, session }, row) => ({
          namespace: session === 0 ? 100 + row : 1 + 4 * namespace + session,
        }));
        const hits = replayed(bySession, { ...own, rules: { share: "session" }, audit: true }).requests.hitTokens;
        expect([...hits]).toEqual([...replayed(byNamespace, own).requests.hitTokens]);
        expect(all.filter(({ session }, row) => session === 0 && hits[row] > 0)).toEqual([]);
      },
    ),
  );
});
