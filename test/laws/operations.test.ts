import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { IndexPlugin } from "../../core/plugins/index.ts";
import { configs } from "../../laws/configs.ts";
import { type Workload, type WorkloadRequest, workloads } from "../../laws/workloads.ts";
import { type Operated, OperatedCache } from "../support/operated.ts";
import { allPlugins, runs } from "./all-plugins.ts";

// What an operator does, at random among requests that overlap, in every index, with every policy, allocator and rule;
// each operation is checked against a model that knows contents and holders, and nothing of the index.

/** Of each request a beginning of so many tokens or units, marked as a whole; then a prompt that nothing begins. */
function withPrefixes({ unitTokens, requests }: Workload, ends: readonly number[], drained: number): Workload {
  const prefixes = requests.flatMap((request, r): WorkloadRequest[] => {
    const said = unitTokens === 1 ? [...request.prompt, ...request.output] : request.prompt;
    return [
      request.prompt.length,
      unitTokens * (1 + (ends[r % ends.length] % Math.ceil(said.length / unitTokens))),
    ].map((end) => {
      const prompt = said.slice(0, end);
      return { ...request, prompt, output: [0], maxOutputTokens: 1, markedTokens: prompt.length };
    });
  });
  const last: WorkloadRequest = {
    id: 0,
    namespace: 0,
    prompt: new Array<number>(drained).fill(9),
    output: [0],
    maxOutputTokens: 1,
    markedTokens: 0,
  };
  const all = [...requests, ...prefixes, last].map((request, id) => ({ ...request, id }));
  return { unitTokens, requests: all };
}

const operated = (index: IndexPlugin): fc.Arbitrary<Operated> =>
  fc
    .record({
      workload: workloads({ maxRequests: 8 }),
      ends: fc.array(fc.nat(20), { minLength: 1, maxLength: 5 }),
      config: configs({ ...allPlugins, indexes: [index], evictions: online }),
      pinBlocks: fc.constantFrom(0, 1, 3, 100),
      script: fc.array(fc.nat(659), { minLength: 20, maxLength: 250, size: "max" }),
    })
    .map(({ workload, ends, config, pinBlocks, script }) => ({
      workload: withPrefixes(workload, ends, (config.blocks ?? 1) * config.blockUnits * workload.unitTokens),
      requests: workload.requests.length,
      config: { ...config, rules: { ...config.rules, "pin-blocks": pinBlocks } },
      script,
    }));

const online = allPlugins.evictions.filter((policy) => !policy.offline);

/** Indexes whose victims are more than a block. */
const keepsRuns = ["radix-tree", "prompt-table", "prefix-pool"];

/** Plays it to its end, and says all that happened if that fails. */
function played(one: Operated, then: (cache: OperatedCache) => void = () => {}): OperatedCache {
  const cache = new OperatedCache(one);
  try {
    then(cache.run());
    return cache;
  } catch (error) {
    throw new Error([(error as Error).message, ...cache.description()].join("\n"), { cause: error });
  }
}

describe.each(allPlugins.indexes.map((index) => [index.name, index] as const))("%s", (_name, index) => {
  test("operations keep every law, refuse without a trace, and KV events tell all that can be found", () => {
    const property = fc.property(operated(index), (one) => {
      played(one);
    });
    fc.assert(property, { numRuns: runs(150) });
  });

  test("after a reset nothing is found, all is free, and goes out as it would have gone", () => {
    const property = fc.property(operated(index), (one) => {
      const twin = played(one, (cache) => cache.finishAll());
      played(one, (cache) => {
        cache.finishAll().reset();
        if (cache.cache.totalBlocks === undefined) return;
        // A list that gives blocks from its end, in their order, means another order for every length.
        const atOnce = one.config.allocator.name !== "block-list";
        const isBlockwise = !keepsRuns.includes(index.name) && cache.cache.rules.reserve === "grow";
        if (atOnce || isBlockwise) expect(cache.drain(atOnce)).toEqual(twin.drain(atOnce));
      });
    });
    fc.assert(property, { numRuns: runs(80) });
  });
});
