import fc from "fast-check";
import type { IndexPlugin, Plugin } from "../core/plugins/index.ts";
import { type RuleName, type Rules, type RuleValue, ruleNames, ruleTable } from "../core/plugins/rules.ts";
import type { ChainHash } from "../core/trace/content.ts";
import type { Parts } from "./parts.ts";
import type { Scenario, ScenarioConfig } from "./scenario.ts";
import { worlds } from "./worlds.ts";

type OwnRules = Partial<Record<RuleName, RuleValue>>;

/** The values of a rule that an index supports; of numbers the first three. */
export function supportedValues(index: IndexPlugin, name: RuleName): readonly RuleValue[] {
  const supported = index.supports[name] ?? [];
  const all = ruleTable[name].values;
  if (supported !== "any") return supported;
  if (all === "limit") return ["unlimited", 1, 3];
  return all === "number" ? [0, 1, 2] : (all as readonly string[]);
}

/** Every value that an index supports of every rule, most often the default. */
export function anyRules(index: IndexPlugin): fc.Arbitrary<OwnRules> {
  const values: Record<string, fc.Arbitrary<RuleValue | undefined>> = {};
  for (const name of ruleNames) {
    const can = supportedValues(index, name);
    if (can.length > 0) values[name] = fc.constantFrom(undefined, ...can);
  }
  return fc.record(values).map((rules) => {
    const set: OwnRules = {};
    for (const name of ruleNames) if (rules[name] !== undefined) set[name] = rules[name];
    return set;
  });
}

/** Keeps two bits of each lane's sum: nearly all contents collide. */
export const weakHash: ChainHash = (lanes, tokens, from, count) => {
  let sum = lanes[0];
  for (let i = from; i < from + count; i++) sum = (sum + tokens[i]) & 3;
  lanes.fill(sum);
};

export interface Choices {
  readonly hash?: ChainHash;
  /** Rules that are as given in every configuration. */
  readonly rules?: OwnRules;
  /** Every rule at the index's default. */
  readonly noRules?: boolean;
}

/** In an index that stores any blocks as they come, more happens. */
const oftenness = ({ none, unit }: IndexPlugin): number => (none || unit !== undefined ? 1 : 4);

/** The parts that a configuration is made of. */
export type Composed = Pick<Parts, "indexes" | "evictions" | "allocators">;

export function configs(parts: Composed, choices: Choices = {}): fc.Arbitrary<ScenarioConfig> {
  const { indexes, evictions, allocators } = parts;
  const { hash, rules: fixed = {}, noRules = false } = choices;
  return fc
    .constantFrom(...indexes.flatMap((index) => Array<IndexPlugin>(oftenness(index)).fill(named(index))))
    .chain((index) =>
      fc.record({
        index: fc.constant(index),
        eviction: fc.constantFrom(...evictions.map(named)),
        allocator: fc.constantFrom(...allocators.map(named)),
        blockUnits: fc.integer({ min: 1, max: 3 }),
        blocks: fc.oneof({ weight: 5, arbitrary: fc.integer({ min: 1, max: 14 }) }, fc.constant(undefined)),
        rules: (noRules ? fc.constant({}) : anyRules(index)).map((rules) => {
          const all: OwnRules = { ...rules, ...fixed };
          // Trusting equal hashes is only right where they do not collide.
          return hash && all.collision === "trust" ? { ...all, collision: "compare" } : all;
        }),
        seed: fc.nat(1000),
        ...(hash && { hash: fc.constant(hash) }),
      }),
    )
    .map(possible);
}

/** Whether rules limit what is stored, however large the cache. */
export const isBounded = (rules: Rules): boolean =>
  rules["max-entries"] !== "unlimited" || rules["prefix-blocks"] !== "unlimited";

/**
 * Free blocks queue only where the allocator lets them. And where the newest of equal blocks is found, it may be still to
 * be computed while an older one is not, of which the naive model knows nothing.
 */
export function possible<Config extends Pick<ScenarioConfig, "rules" | "allocator">>(config: Config): Config {
  const rules = { ...config.rules };
  if (!config.allocator.isFifo) delete rules["free-queue"];
  if (rules.duplicates === "newest") delete rules["same-step"];
  return { ...config, rules };
}

/** `small`: a few requests and decisions, and no rules but those that are given, for faults that are easy to see. */
export function scenarios(parts: Composed, small = false, choices: Choices = {}): fc.Arbitrary<Scenario> {
  const few = { noRules: true, ...choices };
  return fc.record({
    world: small ? worlds({ maxAsks: 4, namespaces: 1 }) : worlds(),
    config: configs(parts, small ? few : choices),
    script: small ? scripts(0, 12) : scripts(10, 300),
  });
}

/** Decisions of a scheduler, each a number. */
const scripts = (minLength: number, maxLength: number) => fc.array(fc.nat(23), { minLength, maxLength, size: "max" });

/** Requests for a replay that serves one after the other, and a cache for them. */
export function replays(parts: Composed, small = false, choices: Choices = {}) {
  return fc.record({
    // Where requests continue others, more is found, and more is evicted that would have been.
    world: small
      ? worlds({ maxAsks: 6, namespaces: 1 })
      : fc.oneof(worlds({ maxAsks: 40 }), worlds({ maxAsks: 40, related: true })),
    config: configs(parts, small ? { noRules: true, ...choices } : choices),
  });
}

/** A plug-in that a failing property prints by its name. */
function named<P extends Plugin>(plugin: P): P {
  return Object.defineProperty({ ...plugin }, fc.toStringMethod, { value: () => plugin.name, enumerable: false });
}
