import fc from "fast-check";
import type { ReplicaView, RequestView, RouterPlugin } from "../core/plugins/index.ts";
import { createRouter } from "../core/replica/compose.ts";
import { type PartTrial, partTrial } from "./check-part.ts";
import { callsReturn } from "./contract-laws.ts";
import { type Law, require, same } from "./law.ts";

const inRange: Law = { name: "in-range", statement: "route returns one of the replicas" };
const repeats: Law = {
  name: "determinism",
  statement: "the same requests and loads are routed the same way with the same seed",
};
const readsOnly: Law = { name: "reads-only", statement: "routing changes nothing in a replica" };

const load = fc.record({
  waitingCount: fc.nat(40),
  runningCount: fc.nat(40),
  waitingTokens: fc.nat(200),
  referencedBlocks: fc.nat(50),
  cached: fc.nat(20),
});
const request = fc.record({ keys: fc.array(fc.nat(5), { maxLength: 8 }), session: fc.nat(3), namespace: fc.nat(1) });
const cases = fc
  .oneof({ weight: 4, arbitrary: fc.integer({ min: 1, max: 5 }) }, fc.constantFrom(64, 70))
  .chain((count) =>
    fc.record({
      count: fc.constant(count),
      seed: fc.nat(1000),
      requests: fc.array(fc.tuple(request, fc.array(load, { minLength: count, maxLength: count })), { maxLength: 20 }),
    }),
  );
type Case = typeof cases extends fc.Arbitrary<infer T> ? T : never;

const blockTokens = 4;

/** The laws of a router. */
export const routerTrials = (plugin: RouterPlugin): PartTrial[] => [
  partTrial({
    laws: [inRange, repeats, readsOnly, callsReturn],
    cases,
    check: (one) => same(repeats, "the second run's replicas", routed(plugin, one), routed(plugin, one)),
  }),
];

/** @throws LawBroken */
function routed(plugin: RouterPlugin, { count, seed, requests }: Case): number[] {
  const router = createRouter({ router: plugin, replicaCount: count, blockTokens, seed });
  return requests.map(([request, loads], id) => {
    const view = requestView(id, request);
    const replicas = loads.map(
      (each): ReplicaView => readOnly({ ...each, totalBlocks: 1000, cachedTokens: () => each.cached }),
    );
    const to = router.route(view, replicas, id);
    require(inRange, Number.isInteger(to) && to >= 0 && to < count, `replica ${to} of ${count}`);
    if (id % 2 === 1) router.finished?.(view, to, id);
    return to;
  });
}

function requestView(
  id: number,
  { keys, session, namespace }: { keys: number[]; session: number; namespace: number },
): RequestView {
  return {
    ...{ id, session, namespace, arrivalNs: id, category: 0, priority: 0, markedTokens: 0, maxOutputTokens: 1 },
    ...{ inputTokens: keys.length * blockTokens, promptBlocks: keys.length, keyStart: 0, keys: Uint32Array.from(keys) },
  };
}

function readOnly<T extends object>(view: T): T {
  const changed = (_: T, name: string | symbol) =>
    require(readsOnly, false, `${String(name)} of a replica is changed`) as never;
  return new Proxy(view, { set: changed, defineProperty: changed, deleteProperty: changed });
}
