import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { IndexPlugin } from "../../core/plugins/index.ts";
import { configs } from "../../laws/configs.ts";
import { type Workload, type WorkloadRequest, workloads } from "../../laws/workloads.ts";
import { type Operated, OperatedCache } from "../support/operated.ts";
import { allPlugins, runs } from "./all-plugins.ts";

// Random operator-initiated operations among overlapping requests, with every index, policy, allocator and rule; each operation
// is compared with a model of contents and references, which is independent of the index.

/** A prefix of each request, of so many tokens or units, marked as a whole; then a prompt without a common prefix. */
function withPrefixes({ unitTokens, requests }: Workload, ends: readonly number[], drained: number): Workload {
  const prefixes = requests.flatMap((request, r): WorkloadRequest[] => {
    const text = unitTokens === 1 ? [...request.prompt, ...request.output] : request.prompt;
    return [
      request.prompt.length,
      unitTokens * (1 + (ends[r % ends.length] % Math.ceil(text.length / unitTokens))),
    ].map((end) => {
      const prompt = text.slice(0, end);
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

/** Runs the case to its end; an error includes all operations. */
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
  test("operations satisfy every law, refusals have no side effects, and KV events list all cached contents", () => {
    const property = fc.property(operated(index), (one) => {
      played(one);
    });
    fc.assert(property, { numRuns: runs(150) });
  });

  test("after a reset nothing matches, all blocks are free, and are allocated in the order before", () => {
    const property = fc.property(operated(index), (one) => {
      const twin = played(one, (cache) => cache.finishAll());
      played(one, (cache) => {
        cache.finishAll().reset();
        if (cache.cache.totalBlocks === undefined) return;
        // The order of a list that allocates from its end depends on the number of allocated blocks.
        const atOnce = one.config.allocator.name !== "block-list";
        const isBlockwise = !keepsRuns.includes(index.name) && cache.cache.rules.reserve === "grow";
        if (atOnce || isBlockwise) expect(cache.drain(atOnce)).toEqual(twin.drain(atOnce));
      });
    });
    fc.assert(property, { numRuns: runs(80) });
  });
});
