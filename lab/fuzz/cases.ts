import fc from "fast-check";
import type { IndexPlugin, Plugin, PluginOption, SchedulerPlugin } from "../../core/plugins/index.ts";
import { type RuleName, type RuleValue, ruleNames } from "../../core/plugins/rules.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { supportedConfig, supportedValues } from "../../laws/configs.ts";
import type { Preset } from "../../policies/preset.ts";
import type { Operation } from "../run/operations-file.ts";
import type { FuzzCase, KindName } from "./kinds.ts";
import { anyOperations, operationNames } from "./operations.ts";
import { fuzzTraces } from "./requests.ts";
import { type FuzzParts, mostBlocks, mostCapacity, named, type RuleChoices, type Setup } from "./setup.ts";

/** One of the values, or undefined, which is the shrunk value. */
const maybe = <T>(values: readonly T[], freq = 2) => fc.option(fc.constantFrom(...values), { nil: undefined, freq });

/** Trace units per block: mostly a few, sometimes more than any request has. */
const blockUnits = fc.oneof(
  { withCrossShrink: true },
  { arbitrary: fc.constantFrom(1, 2, 4), weight: 6 },
  { arbitrary: fc.constantFrom(3, 16, 64), weight: 1 },
);

/** Cache size in tokens: from hardly any to enough for a whole case, or exactly what its largest request needs. */
const capacities = fc.oneof(
  { withCrossShrink: true },
  fc.noBias(fc.integer({ min: 2, max: mostCapacity })),
  fc.noBias(fc.integer({ min: 16, max: 48 })),
  fc.constant("largest request" as const),
);

function blocksOf(capacity: number | "largest request", trace: Trace, blockTokens: number): number {
  if (capacity !== "largest request") return Math.max(1, Math.floor(capacity / blockTokens));
  // The KV of the last output token is never computed.
  const tokens = trace.inputTokens.map((count, row) => count + Math.max(0, trace.outputTokens[row] - 1));
  return Math.min(mostBlocks(blockTokens), Math.ceil(Math.max(...tokens) / blockTokens));
}

/** The rule without which pins are refused. */
const pinBudget = (operations: readonly Operation[], blocks: number): RuleChoices =>
  operations.some(({ operation }) => operation === "pin") ? { "pin-blocks": blocks } : {};

/** Setups of any preset, plug-ins, rules and options. A shrunk setup has the defaults where they suffice. */
function anySetups(parts: FuzzParts): fc.Arbitrary<(trace: Trace, operations: readonly Operation[]) => Setup> {
  const evictions = parts.evictions.filter(({ unlimited }) => !unlimited);
  const names = (plugins: readonly Plugin[]) => maybe(plugins.map(({ name }) => name));
  const swapping = parts.schedulers.filter(({ options }) => options?.["swap"]);
  return fc
    .record({
      preset: maybe(parts.presets, 4),
      // 0: the preset's rule is dropped.
      ruleDraws: fc.noBias(fc.tuple(...ruleNames.map(() => fc.nat(19)))),
      index: names(parts.indexes),
      eviction: names(evictions),
      allocator: names(parts.allocators),
      scheduler: fc.oneof(
        { withCrossShrink: true },
        { arbitrary: names(parts.schedulers), weight: 3 },
        { arbitrary: fc.constantFrom(...swapping.map(({ name }) => name)), weight: 1 },
      ),
      rules: fc.array(fc.tuple(fc.constantFrom(...ruleNames), fc.nat(5)), { maxLength: 3 }),
      options: fc.array(fc.tuple(fc.nat(30), fc.nat(7)), { maxLength: 3 }),
      units: blockUnits,
      capacity: capacities,
      hostBlocks: fc.nat(24),
      swap: fc.constantFrom(true, true, false),
      pinBlocks: fc.constantFrom(100, 3, 1),
      seed: fc.nat(999),
      loop: fc.constantFrom("open" as const, "closed" as const),
      clock: fc.oneof({ withCrossShrink: true }, fc.constant(0), fc.nat(999), fc.nat(999)),
      answers: fc.constantFrom("trace" as const, "trace" as const, "free" as const),
    })
    .map((drawn) => (trace, operations) => {
      const { preset, hostBlocks, seed, loop, clock, answers } = drawn;
      const blockTokens = trace.unitTokens * drawn.units;
      const index = named(parts.indexes, drawn.index ?? preset?.index.name ?? "hash-table");
      const allocator = named(parts.allocators, drawn.allocator ?? preset?.allocator.name ?? "block");
      const scheduler = named(parts.schedulers, drawn.scheduler ?? preset?.scheduler ?? "fcfs-chunked");
      const presetOptions = scheduler.name === preset?.scheduler ? preset.schedulerOptions : {};
      const of = preset ? presetRules(preset, index, drawn.ruleDraws) : {};
      const rules = { ...of, ...picked(index, drawn.rules), ...pinBudget(operations, drawn.pinBlocks) };
      const swaps: Readonly<Record<string, number>> = drawn.swap && scheduler.options?.["swap"] ? { swap: 1 } : {};
      return {
        index: index.name,
        eviction: drawn.eviction ?? preset?.eviction.name ?? "lru",
        allocator: allocator.name,
        scheduler: scheduler.name,
        schedulerOptions: { ...presetOptions, ...swaps, ...chosen(scheduler, drawn.options) },
        rules: supportedConfig({ rules, allocator }).rules,
        blockTokens,
        blocks: blocksOf(drawn.capacity, trace, blockTokens),
        hostBlocks,
        seed,
        loop,
        clock,
        answers,
      };
    });
}

/** The preset's rules that the index supports. */
function presetRules(preset: Preset, index: IndexPlugin, ruleDraws: readonly number[]): RuleChoices {
  const all: RuleChoices = { ...preset.index.defaults, ...preset.rules };
  return Object.fromEntries(
    ruleNames.flatMap((name, i) => {
      const value = all[name];
      const isKept = value !== undefined && ruleDraws[i] > 0 && valuesWith(index, name).includes(value);
      return isKept ? [[name, value]] : [];
    }),
  );
}

function valuesWith(index: IndexPlugin, name: RuleName): readonly RuleValue[] {
  return name === "share" ? ["all", "session"] : supportedValues(index, name);
}

/** The drawn rules that the index supports, each with one of its values. */
function picked(index: IndexPlugin, picks: readonly (readonly [RuleName, number])[]): RuleChoices {
  return Object.fromEntries(
    picks.flatMap(([name, pick]) => {
      const values = valuesWith(index, name);
      return values.length === 0 ? [] : [[name, values[pick % values.length]]];
    }),
  );
}

/** Scheduler options with small values, so that steps are full and queues are long. */
function chosen({ options = {} }: SchedulerPlugin, picks: readonly (readonly [number, number])[]) {
  const names = Object.keys(options);
  return Object.fromEntries(
    picks.flatMap(([at, pick]) => {
      if (names.length === 0) return [];
      const name = names[at % names.length];
      const values = smallValues(options[name]);
      return [[name, values[pick % values.length]]];
    }),
  );
}

function smallValues({ min: least = 0, max: most = Number.POSITIVE_INFINITY, fraction }: PluginOption): number[] {
  const all = fraction ? [least, 0.1, 0.5, Math.min(1, most)] : [0, 1, 2, 3, 5, 8, 16].map((more) => least + more);
  return all.filter((value) => value >= least && value <= most);
}

/** Rules that have the same effect in a hash table and in trees, and rules that equal decisions require. */
const neutralRules: readonly RuleName[] = ["match-limit", "full-hit", "drop-blocks", "publish", "reserve", "share"];
const requiredRules: Readonly<Partial<Record<RuleName, RuleValue>>> = { duplicates: "swap" };
/** Trees and rules of trees that are equivalent to a hash table under LRU. */
const equivalentTrees: readonly Readonly<{ index: string; rule?: readonly [RuleName, RuleValue] }>[] = [
  { index: "block-trie" },
  { index: "radix-tree" },
  { index: "block-trie", rule: ["victims", "any"] },
  { index: "radix-tree", rule: ["victim-unit", "block"] },
];

/** Cases in which a tree must make the decisions of a hash table. */
function anyTreeCases(parts: FuzzParts): fc.Arbitrary<FuzzCase> {
  const allocators = parts.allocators.map(({ name }) => name);
  return fc
    .record({
      trace: fuzzTraces({ maxRequests: 24 }),
      // No deletes: a tree also deletes the extensions of a prefix, which a hash table cannot find.
      operations: anyOperations(["evict", "reset", "pin", "unpin"]),
      own: fc.constantFrom(...equivalentTrees),
      rules: fc.array(fc.tuple(fc.constantFrom(...neutralRules), fc.nat(5)), { maxLength: 3 }),
      allocator: fc.option(fc.constantFrom(...allocators), { nil: "block" }),
      chunk: fc.option(fc.integer({ min: 1, max: 12 }), { nil: undefined }),
      units: blockUnits,
      blocks: fc.noBias(fc.integer({ min: 1, max: 24 })),
    })
    .map(({ trace, operations: operationsOf, own, rules, allocator, chunk, units, blocks }) => {
      const operations = operationsOf(trace);
      const index = parts.indexes.find(({ name }) => name === own.index)!;
      const setup: Setup = {
        index: own.index,
        eviction: "lru",
        allocator,
        scheduler: chunk === undefined ? "naive" : "fcfs-chunked",
        schedulerOptions: chunk === undefined ? {} : { "max-num-batched-tokens": chunk },
        rules: {
          ...picked(index, rules),
          ...requiredRules,
          ...(own.rule && { [own.rule[0]]: own.rule[1] }),
          ...pinBudget(operations, 100),
        },
        blockTokens: trace.unitTokens * units,
        blocks,
        hostBlocks: 0,
        seed: 1,
        loop: "open",
        clock: 0,
        answers: "trace",
      };
      return { trace, operations, setup };
    });
}

/** Any trace with any setup and any operations. */
const anyServedCases =
  (size: Parameters<typeof fuzzTraces>[0] = {}) =>
  (parts: FuzzParts): fc.Arbitrary<FuzzCase> =>
    fc.tuple(fuzzTraces(size), anyOperations(operationNames), anySetups(parts)).map(([trace, operationsOf, setup]) => {
      const operations = operationsOf(trace);
      return { trace, operations, setup: setup(trace, operations) };
    });

/** The cases of each search. */
export const casesOf: Readonly<Record<KindName, (parts: FuzzParts) => fc.Arbitrary<FuzzCase>>> = {
  "sim-engine": anyServedCases(),
  caching: anyServedCases(),
  "fast-forward": anyServedCases({ longestOutput: 48 }),
  indexes: anyTreeCases,
  "event-log": anyServedCases({ maxRequests: 24 }),
};
