import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { IndexPlugin } from "../../core/plugins/index.ts";
import { configs } from "../../laws/configs.ts";
import { type World, type WorldRequest, worlds } from "../../laws/worlds.ts";
import { type Operated, OperatedCache } from "../support/operated.ts";
import { everyPart, runs } from "./parts.ts";

// What an operator does, at random among requests that overlap, in every index, with every policy, allocator and rule;
// each operation is checked against a model that knows contents and holders, and nothing of the index.

/** Of each request a beginning of so many tokens or units, marked as a whole; then a prompt that nothing begins. */
function withPrefixes({ unitTokens, asks }: World, ends: readonly number[], drained: number): World {
  const prefixes = asks.flatMap((ask, r): WorldRequest[] => {
    const said = unitTokens === 1 ? [...ask.prompt, ...ask.answer] : ask.prompt;
    return [ask.prompt.length, unitTokens * (1 + (ends[r % ends.length] % Math.ceil(said.length / unitTokens)))].map(
      (end) => {
        const prompt = said.slice(0, end);
        return { ...ask, prompt, answer: [0], maxOutputTokens: 1, markedTokens: prompt.length };
      },
    );
  });
  const last: WorldRequest = {
    id: 0,
    namespace: 0,
    prompt: new Array<number>(drained).fill(9),
    answer: [0],
    maxOutputTokens: 1,
    markedTokens: 0,
  };
  const all = [...asks, ...prefixes, last].map((ask, id) => ({ ...ask, id }));
  return { unitTokens, asks: all };
}

const operated = (index: IndexPlugin): fc.Arbitrary<Operated> =>
  fc
    .record({
      world: worlds({ maxAsks: 8 }),
      ends: fc.array(fc.nat(20), { minLength: 1, maxLength: 5 }),
      config: configs({ ...everyPart, indexes: [index], evictions: online }),
      pinBlocks: fc.constantFrom(0, 1, 3, 100),
      script: fc.array(fc.nat(659), { minLength: 20, maxLength: 250, size: "max" }),
    })
    .map(({ world, ends, config, pinBlocks, script }) => ({
      world: withPrefixes(world, ends, (config.blocks ?? 1) * config.blockUnits * world.unitTokens),
      requests: world.asks.length,
      config: { ...config, rules: { ...config.rules, "pin-blocks": pinBlocks } },
      script,
    }));

const online = everyPart.evictions.filter((policy) => !policy.offline);

/** Indexes whose victims are more than a block. */
const keepsRuns = ["radix-tree", "prompt-table", "prefix-pool"];

/** Plays it to its end, and says all that happened if that fails. */
function played(one: Operated, then: (cache: OperatedCache) => void = () => {}): OperatedCache {
  const cache = new OperatedCache(one);
  try {
    then(cache.run());
    return cache;
  } catch (error) {
    throw new Error([(error as Error).message, ...cache.story()].join("\n"), { cause: error });
  }
}

describe.each(everyPart.indexes.map((index) => [index.name, index] as const))("%s", (_name, index) => {
  test("operations keep every law, refuse without a trace, and KV events tell all that can be found", () => {
    const property = fc.property(operated(index), (one) => {
      played(one);
    });
    fc.assert(property, { numRuns: runs(150) });
  });

  test("after a reset nothing is found, all is free, and goes out as it would have gone", () => {
    const property = fc.property(operated(index), (one) => {
      const twin = played(one, (cache) => cache.settle());
      played(one, (cache) => {
        cache.settle().reset();
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
