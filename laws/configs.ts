import fc from "fast-check";
import type { IndexPlugin, Plugin } from "../core/plugins/index.ts";
import { type RuleName, type Rules, type RuleValue, ruleNames, ruleTable } from "../core/plugins/rules.ts";
import type { ChainHash } from "../core/trace/content.ts";
import type { PluginSet } from "./plugin-set.ts";
import type { Scenario, ScenarioConfig } from "./scenario.ts";
import { workloads } from "./workloads.ts";

type OwnRules = Partial<Record<RuleName, RuleValue>>;

/** The values of a rule that an index supports; of a numeric rule, three of them. */
export function supportedValues(index: IndexPlugin, name: RuleName): readonly RuleValue[] {
  const supported = index.supports[name] ?? [];
  const all = ruleTable[name].values;
  if (supported !== "any") return supported;
  if (all === "limit") return ["unlimited", 1, 3];
  return all === "number" ? [0, 1, 2] : (all as readonly string[]);
}

/** Random rules: any supported value of each rule, most often the default. */
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

/** A hash of two bits, so that nearly all contents collide. */
export const weakHash: ChainHash = (lanes, tokens, from, count) => {
  let sum = lanes[0];
  for (let i = from; i < from + count; i++) sum = (sum + tokens[i]) & 3;
  lanes.fill(sum);
};

export interface ConfigOptions {
  readonly hash?: ChainHash;
  /** Rules with a fixed value in every configuration. */
  readonly rules?: OwnRules;
  /** Every rule at the index's default. */
  readonly noRules?: boolean;
}

/** Indexes that store single blocks are chosen more often, as they have more states. */
const weightOf = ({ storesNothing, unit }: IndexPlugin): number => (storesNothing || unit !== undefined ? 1 : 4);

/** The plug-ins that a configuration chooses from. */
export type PluginChoices = Pick<PluginSet, "indexes" | "evictions" | "allocators">;

export function configs(parts: PluginChoices, choices: ConfigOptions = {}): fc.Arbitrary<ScenarioConfig> {
  const { indexes, evictions, allocators } = parts;
  const { hash, rules: fixed = {}, noRules = false } = choices;
  return fc
    .constantFrom(...indexes.flatMap((index) => Array<IndexPlugin>(weightOf(index)).fill(named(index))))
    .chain((index) =>
      fc.record({
        index: fc.constant(index),
        eviction: fc.constantFrom(...evictions.map(named)),
        allocator: fc.constantFrom(...allocators.map(named)),
        blockUnits: fc.integer({ min: 1, max: 3 }),
        blocks: fc.oneof({ weight: 5, arbitrary: fc.integer({ min: 1, max: 14 }) }, fc.constant(undefined)),
        rules: (noRules ? fc.constant({}) : anyRules(index)).map((rules) => {
          const all: OwnRules = { ...rules, ...fixed };
          // `collision=trust` is only correct for a hash without collisions.
          return hash && all.collision === "trust" ? { ...all, collision: "compare" } : all;
        }),
        seed: fc.nat(1000),
        ...(hash && { hash: fc.constant(hash) }),
      }),
    )
    .map(supportedConfig);
}

/** Whether rules limit the stored entries, however large the cache is. */
export const isBounded = (rules: Rules): boolean =>
  rules["max-entries"] !== "unlimited" || rules["prefix-blocks"] !== "unlimited";

/**
 * Removes unsupported combinations of rules: `free-queue=single` needs a FIFO allocator; and with `duplicates=newest` the
 * matched block may be uncomputed while an older duplicate is computed, which the reference model does not represent.
 */
export function supportedConfig<Config extends Pick<ScenarioConfig, "rules" | "allocator">>(config: Config): Config {
  const rules = { ...config.rules };
  if (!config.allocator.isFifo) delete rules["free-queue"];
  if (rules.duplicates === "newest") delete rules["same-step"];
  return { ...config, rules };
}

/** `small`: few requests and decisions, and default rules, which gives readable counterexamples. */
export function scenarios(parts: PluginChoices, small = false, choices: ConfigOptions = {}): fc.Arbitrary<Scenario> {
  const few = { noRules: true, ...choices };
  return fc.record({
    workload: small ? workloads({ maxRequests: 4, namespaces: 1 }) : workloads(),
    config: configs(parts, small ? few : choices),
    script: small ? scripts(0, 12) : scripts(10, 300),
  });
}

/** The decisions of a scheduler, as numbers. */
const scripts = (minLength: number, maxLength: number) => fc.array(fc.nat(23), { minLength, maxLength, size: "max" });

/** A workload and a cache for a clock-free replay, which serves requests one after the other. */
export function replays(parts: PluginChoices, small = false, choices: ConfigOptions = {}) {
  return fc.record({
    // Related requests give more hits and more misses of evicted content.
    workload: small
      ? workloads({ maxRequests: 6, namespaces: 1 })
      : fc.oneof(workloads({ maxRequests: 40 }), workloads({ maxRequests: 40, related: true })),
    config: configs(parts, small ? { noRules: true, ...choices } : choices),
  });
}

/** A plug-in that fast-check prints by its name. */
function named<P extends Plugin>(plugin: P): P {
  return Object.defineProperty({ ...plugin }, fc.toStringMethod, { value: () => plugin.name, enumerable: false });
}
