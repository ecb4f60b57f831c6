import fc from "fast-check";
import { expect, test } from "vitest";
import { ClientSessions } from "../../../core/cache/client-sessions.ts";
import { EntryColumns } from "../../../core/plugins/entry-columns.ts";
import type { RequestView } from "../../../core/plugins/index.ts";
import { seededRandom } from "../../../core/random.ts";
import { optionsOf, rulesFor } from "../../../core/replica/compose.ts";
import { evictionRegistry, indexRegistry } from "../../../policies/registry.ts";

const entryCount = 12;

type Operation =
  | { readonly kind: "add" | "remove"; readonly entry: number }
  | { readonly kind: "queue"; readonly prompts: readonly (readonly number[])[] };

const operations = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constantFrom("add" as const, "remove" as const), entry: fc.nat(entryCount - 1) }),
    fc.record({
      kind: fc.constant("queue" as const),
      prompts: fc.array(fc.array(fc.nat(8), { maxLength: 4 }), { maxLength: 4 }),
    }),
  ),
  { maxLength: 60 },
);

test("queue-lru evicts the first entry in LRU order that the first waiting requests do not need, then the first of all", () => {
  fc.assert(
    fc.property(operations, fc.integer({ min: 1, max: 3 }), (script: Operation[], most) => {
      const plugin = evictionRegistry.get("queue-lru");
      let queue: readonly (readonly number[])[] = [];
      let version = 0;
      const views = function* () {
        for (const keys of queue)
          yield {
            keys: Uint32Array.from([99, ...keys]),
            keyStart: 1,
            promptBlocks: keys.length,
          } as unknown as RequestView;
      };
      const rules = rulesFor(indexRegistry.get("hash-table"), {});
      const columns = new EntryColumns(entryCount, "reverse", ["lastAccess"]);
      // Two entries each have the same content, and ticks tie.
      for (let entry = 0; entry < entryCount; entry++) columns.key[entry] = entry % 9;
      const policy = plugin.create({
        ...{ columns, rules, random: seededRandom(1), clock: { now: 0 }, capacityBlocks: entryCount },
        options: { ...optionsOf("eviction policy", plugin), requests: most },
        sessions: new ClientSessions(undefined),
        blockTokens: 16,
        requests: {
          get queueVersion() {
            return version;
          },
          get waitingCount() {
            return queue.length;
          },
          waiting: views,
          running: () => [],
        },
      });
      // The naive model: evictable entries in the order of their release.
      let released: number[] = [];
      let tick = 0;
      for (const one of script) {
        if (one.kind === "queue") {
          queue = one.prompts;
          version++;
        } else if (one.kind === "remove") {
          if (!released.includes(one.entry)) continue;
          released = released.filter((entry) => entry !== one.entry);
          policy.remove(one.entry, "referenced");
        } else if (!released.includes(one.entry)) {
          columns.touched(one.entry, Math.floor(++tick / 2));
          released.push(one.entry);
          policy.add(one.entry);
        }
        const needed = new Set(queue.slice(0, most).flat());
        const expected = released.find((entry) => !needed.has(entry % 9)) ?? released[0];
        expect(policy.victim(0)).toBe(expected);
        expect(policy.victim(0)).toBe(expected);
      }
    }),
  );
});
