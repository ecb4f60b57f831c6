import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ReplicaView } from "../../../core/plugins/index.ts";
import { routerRegistry } from "../../../policies/registry.ts";
import { type Load, Prompts, replicaOf, routerOf } from "./replicas.ts";

const load: fc.Arbitrary<Load> = fc.record({
  waiting: fc.nat(40),
  running: fc.nat(40),
  waitingTokens: fc.nat(200),
  heldBlocks: fc.nat(50),
  cachedTokens: fc.nat(20),
});
const request = fc.record({
  letters: fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 8 }),
  given: fc.record({ session: fc.nat(3), namespace: fc.nat(1), more: fc.nat(3) }),
});
/** Requests, each with the loads at its arrival; up to 70 replicas, more than the bits of a 64-bit set. */
const traffic = fc
  .oneof({ weight: 4, arbitrary: fc.integer({ min: 1, max: 5 }) }, fc.constantFrom(64, 70))
  .chain((count) =>
    fc.record({
      count: fc.constant(count),
      requests: fc.array(fc.tuple(request, fc.array(load, { minLength: count, maxLength: count })), { maxLength: 20 }),
    }),
  );
type Traffic = typeof traffic extends fc.Arbitrary<infer T> ? T : never;

function placesOf(name: string, { count, requests }: Traffic, seed: number, view = (replica: ReplicaView) => replica) {
  const prompts = new Prompts();
  const router = routerOf(name, count, { seed });
  return requests.map(([{ letters, given }, loads], i) => {
    const asView = prompts.request(letters, given);
    const to = router.route(
      asView,
      loads.map((each) => view(replicaOf(each))),
      i,
    );
    if (i % 2 === 1) router.finished?.(asView, to, i);
    return to;
  });
}

/** Throws on writes. */
const readOnly = <T extends object>(what: T): T =>
  new Proxy(what, {
    set: (_, name) => expect.unreachable(`${String(name)} is set`),
    defineProperty: (_, name) => expect.unreachable(`${String(name)} is defined`),
    deleteProperty: (_, name) => expect.unreachable(`${String(name)} is deleted`),
  });

describe.each(routerRegistry.all.map(({ name }) => name))("%s", (name) => {
  test("returns one of the replicas", () => {
    fc.assert(
      fc.property(traffic, fc.integer(), (some, seed) => {
        for (const to of placesOf(name, some, seed)) {
          expect(Number.isInteger(to) && to >= 0 && to < some.count, `replica ${to} of ${some.count}`).toBe(true);
        }
      }),
    );
  });

  test("decides the same with the same seed", () => {
    fc.assert(
      fc.property(traffic, fc.integer(), (some, seed) => {
        expect(placesOf(name, some, seed)).toEqual(placesOf(name, some, seed));
      }),
    );
  });

  test("returns the only replica", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(request, fc.tuple(load))), fc.integer(), (requests, seed) => {
        expect(new Set(placesOf(name, { count: 1, requests }, seed)).size).toBeLessThan(2);
        expect(placesOf(name, { count: 1, requests }, seed)[0] ?? 0).toBe(0);
      }),
    );
  });

  test("has no side effects on a replica", () => {
    fc.assert(
      fc.property(traffic, fc.integer(), (some, seed) => {
        expect(placesOf(name, some, seed, readOnly)).toEqual(placesOf(name, some, seed));
      }),
    );
  });
});

test("only dynamo-kv reads the replicas' caches", () => {
  const looks = new Set<string>();
  for (const { name } of routerRegistry.all) {
    const router = routerOf(name, 2);
    const prompts = new Prompts();
    const replicas = [0, 0].map((each) => ({
      ...replicaOf(each),
      cachedTokens: () => {
        looks.add(name);
        return 0;
      },
    }));
    for (const letters of ["abc", "abd", "", "abc"]) {
      router.route(prompts.request(letters, { session: 1 }), replicas, 0);
    }
  }
  expect([...looks]).toEqual(["dynamo-kv"]);
});

test("a session stays with its replica, regardless of load", () => {
  fc.assert(
    fc.property(traffic, (some) => {
      const places = placesOf("session-affinity", some, 1);
      const replicaOfSession = new Map<string, number>();
      some.requests.forEach(([{ given }], i) => {
        if (given.session === 0) return;
        const session = `${given.namespace}/${given.session}`;
        expect(places[i]).toBe(replicaOfSession.get(session) ?? places[i]);
        replicaOfSession.set(session, places[i]);
      });
    }),
  );
});
