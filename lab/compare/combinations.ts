import type {
  AllocatorPlugin,
  EvictionPlugin,
  IndexPlugin,
  Plugin,
  SchedulerPlugin,
} from "../../core/plugins/index.ts";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import { blockKeysFor, rulesFor } from "../../core/replica/compose.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { belady, unbounded } from "../../policies/eviction/index.ts";
import { blockTrie, hashTable } from "../../policies/index/index.ts";
import type { Preset } from "../../policies/preset.ts";
import { evictionRegistry, indexRegistry } from "../../policies/registry.ts";
import type { Input } from "../input.ts";
import { BlockStream } from "../run/block-stream.ts";
import { blocksOf, type Capacity } from "../run/capacity.ts";
import { evictionOf, indexOf, type Parts, partsOf, pluginNamed, presetOf } from "../run/configuration.ts";
import type { Target } from "../run/target.ts";
import type { TraceStream } from "../trace-stream.ts";
import type { Configuration } from "./comparison.ts";

/** Values of reuse rules; every combination of them is run. */
export type RuleLists = Partial<Record<RuleName, readonly RuleValue[]>>;

/** The lists of `compare`; for an absent list, the preset's plug-in or the default is used. */
export interface PartLists {
  /** Presets. */
  readonly preset?: readonly (string | Preset)[] | undefined;
  /** Prefix indexes. */
  readonly index?: readonly (string | IndexPlugin)[] | undefined;
  /** Eviction policies. */
  readonly eviction?: readonly (string | EvictionPlugin)[] | undefined;
  /** Allocators. */
  readonly allocator?: readonly (string | AllocatorPlugin)[] | undefined;
  /** Schedulers. */
  readonly scheduler?: readonly (string | SchedulerPlugin)[] | undefined;
  /** Values of reuse rules. */
  readonly rules?: RuleLists | undefined;
  /** "cache", "sim" or an engine backend. */
  readonly target?: Target;
}

/** The cross product in the order of the lists. Without `eviction`, each has its preset's eviction policy, or the default. */
export async function combinations(lists: PartLists): Promise<Configuration[]> {
  const evictions = lists.eviction && (await eachNamed(lists.eviction, evictionOf));
  return (await otherParts(lists)).flatMap((others) =>
    (evictions ?? [asNamed(others.parts.eviction)]).map((eviction) => withEviction(others, eviction)),
  );
}

/**
 * The cross product of online configurations, and their bounds. Presets share their bounds; otherwise there are two bounds for
 * each combination of scheduler, allocator and rules, the same for every index. The default eviction policies are all online
 * ones, without those that behave like LRU and those that are used only by name.
 */
export async function combinationsAndBounds(lists: PartLists): Promise<Configuration[]> {
  const named = lists.eviction ? await eachNamed(lists.eviction, evictionOf) : evictionRegistry.all.map(asNamed);
  const chosen = named.filter(({ plugin }) => !plugin.unlimited);
  if (lists.preset) {
    const limited = (await combinations(lists)).filter(({ kind }) => kind !== "unlimited");
    return [...limited, ...boundsOfAll(limited)];
  }
  const isDefault = ({ offline, likeLru, onlyByName }: EvictionPlugin) => !offline && !likeLru && !onlyByName;
  const evictions = lists.eviction ? chosen : chosen.filter(({ plugin }) => isDefault(plugin));
  const bounded = new Set<string>();
  const all = (await otherParts(lists)).map((others) => {
    const best = withSingleBlockEviction(others);
    const isBound = best.parts.index === others.parts.index && best.ruleTexts.length === others.ruleTexts.length;
    // belady is left out where it is the bound.
    const combined = evictions
      .filter(({ plugin }) => plugin !== belady || !isBound)
      .map((eviction) => withEviction(others, eviction));
    const key = [best.parts.allocator.name, best.parts.scheduler.name, ...best.ruleTexts].join();
    if (bounded.has(key)) return { combined, bounds: [] };
    bounded.add(key);
    return { combined, bounds: [belady, unbounded].map((plugin) => withEviction(best, asNamed(plugin))) };
  });
  const isOnline = ({ kind }: Configuration) => kind === "online";
  return [
    ...all.flatMap(({ combined }) => combined.filter(isOnline)),
    ...all.flatMap(({ combined, bounds }) => [
      ...combined.filter((configuration) => !isOnline(configuration)),
      ...bounds,
    ]),
  ];
}

/** The bounds of presets: a hash table without restrictions, with the smallest block size of the presets. */
function boundsOfAll(configurations: readonly Configuration[]): Configuration[] {
  const presets = configurations.map(({ parts: { preset } }) => preset);
  const [blocksOf] = presets.sort((one, other) => one!.blockTokens - other!.blockTokens);
  // Cached outputs bring hits and occupy blocks, so the optimum with them differs from the one without.
  const cachesOutputs = new Set(
    configurations.map(({ parts }) => rulesFor(parts.index, parts.rules)["cache-generated"]),
  );
  const bounds = [...cachesOutputs].sort().map((outputs): OtherParts => {
    const rules = outputs === "true" ? { "cache-generated": outputs } : {};
    const parts = partsOf({}, rules);
    const ruleTexts = Object.entries(rules).map(([name, value]) => `${name}=${value}`);
    return { parts, indexLabel: parts.index.name, ruleTexts, blocksOf };
  });
  return [
    ...bounds.map((bound) => withEviction(bound, asNamed(belady))),
    withEviction(bounds.at(-1)!, asNamed(unbounded)),
  ];
}

interface Named<P> {
  readonly plugin: P;
  readonly label: string;
}

const asNamed = (plugin: EvictionPlugin): Named<EvictionPlugin> => ({ plugin, label: plugin.name });

/** Each plug-in with its name, or with its file's path if two plug-ins have the same name. */
async function eachNamed<P extends Plugin>(
  choices: readonly (string | P)[],
  find: (choice: string | P) => Promise<P>,
): Promise<Named<P>[]> {
  const found: Named<P>[] = [];
  for (const choice of choices) {
    const plugin = await find(choice);
    const taken = found.some(({ label }) => label === plugin.name) || choices.includes(plugin.name);
    found.push({ plugin, label: taken && typeof choice === "string" ? choice : plugin.name });
  }
  return found;
}

interface OtherParts {
  readonly blocksOf?: Preset | undefined;
  readonly parts: Parts;
  readonly indexLabel: string;
  readonly ruleTexts: readonly string[];
}

function withEviction(others: OtherParts, { plugin, label }: Named<EvictionPlugin>): Configuration {
  const kind = plugin.unlimited ? "unlimited" : plugin.offline ? "offline" : "online";
  return { ...others, parts: { ...others.parts, eviction: plugin }, label, kind };
}

/** Rules that limit which blocks are evicted, and how many. */
const evictionRules: readonly string[] = [
  ...["victims", "victim-unit", "node-match", "evict-amount", "failed-admission"],
];

/**
 * The configuration that belady is optimal for: blocks are evicted one at a time, in any order. The index is the same if it supports that,
 * otherwise the hash table or the block trie.
 */
function withSingleBlockEviction({ parts, indexLabel, ruleTexts }: OtherParts): OtherParts {
  const isOther = ([name]: [string, unknown]) => !evictionRules.includes(name);
  const rules: RuleChoice = Object.fromEntries(Object.entries(parts.rules).filter(isOther));
  const others = { ruleTexts: ruleTexts.filter((text) => isOther([text.split("=")[0], text])) };
  const can = (index: IndexPlugin) =>
    !index.storesNothing && index.supports["victim-unit"] === undefined && supports(index, rules);
  const chosen = indexRegistry.all.includes(parts.index) ? [parts.index] : [];
  const index = [...chosen, hashTable, blockTrie].find(can) ?? parts.index;
  const label = index === parts.index ? indexLabel : index.name;
  return { ...others, indexLabel: label, parts: { ...parts, index, rules } };
}

function supports(index: IndexPlugin, rules: RuleChoice): boolean {
  try {
    rulesFor(index, rules);
    return true;
  } catch {
    return false;
  }
}

/** All combinations of the other lists; the eviction policy is the preset's or the default. */
async function otherParts(lists: PartLists): Promise<OtherParts[]> {
  const all: OtherParts[] = [];
  const indexes = lists.index && (await eachNamed(lists.index, indexOf));
  const each = async <C, P>(choices: readonly C[] | undefined, find: (choice: C) => Promise<P>) =>
    choices ? await Promise.all(choices.map(find)) : [undefined];
  const allocators = await each(lists.allocator, (choice) => pluginNamed("allocator", choice));
  const schedulers = await each(lists.scheduler, (choice) => pluginNamed("scheduler", choice));
  for (const preset of lists.preset?.map(presetOf) ?? [undefined])
    for (const rules of ruleCombinations(lists.rules ?? {})) {
      const ruleTexts = Object.entries(rules).map(([name, value]) => `${name}=${value}`);
      for (const named of indexes ?? [undefined])
        for (const allocator of allocators)
          for (const scheduler of schedulers) {
            const index = named?.plugin ?? preset?.index;
            const parts = partsOf(
              { preset, index, eviction: preset?.eviction, allocator, scheduler },
              rules,
              lists.target,
            );
            all.push({ parts, indexLabel: named?.label ?? parts.index.name, ruleTexts, blocksOf: preset });
          }
    }
  return all;
}

type RuleChoice = Partial<Record<RuleName, RuleValue>>;

function ruleCombinations(lists: RuleLists): RuleChoice[] {
  let combinations: RuleChoice[] = [{}];
  for (const [name, values] of Object.entries(lists))
    combinations = combinations.flatMap((before) => values.map((value) => ({ ...before, [name]: value })));
  return combinations;
}

/** Equal for configurations in which the content ids of a trace are equal. */
function contentOf({ index, rules }: Pick<Parts, "index" | "rules">, blockTokens: number): string {
  const rule = (name: RuleName) => rules[name] ?? index.defaults?.[name];
  const all = (["collision", "cache-generated", "partial", "store-tail", "share"] as const).map(rule);
  return [blockTokens, ...all, index.unit].join();
}

/** The blocks of a trace, computed and kept once for all configurations in which they are equal. */
export class SharedBlocks {
  readonly #stream: TraceStream;
  readonly #loaded: ((batch: Trace) => Trace) | undefined;
  readonly #all = new Map<string, BlockStream>();

  /** `loaded` as in `BlockStream`. */
  constructor(stream: TraceStream, loaded?: (batch: Trace) => Trace) {
    this.#stream = stream;
    this.#loaded = loaded;
  }

  async of(parts: Pick<Parts, "index" | "rules">, blockTokens: number): Promise<BlockStream> {
    const key = contentOf(parts, blockTokens);
    let blocks = this.#all.get(key);
    if (!blocks) {
      this.#all.set(key, (blocks = new BlockStream(this.#stream, { ...parts, blockTokens }, this.#loaded)));
      await blocks.count();
    }
    return blocks;
  }

  /** Removes what was kept. */
  close(): void {
    for (const blocks of this.#all.values()) blocks.close();
  }
}

/** The content ids of the blocks of a trace in memory, computed once for all configurations in which they are equal. */
export class SharedBlockKeys {
  readonly #input: Input;
  readonly #computed = new Map<string, BlockColumns>();

  constructor(input: Input) {
    this.#input = input;
  }

  of(parts: Pick<Parts, "index" | "rules">, blockTokens: number): BlockColumns {
    const key = contentOf(parts, blockTokens);
    let blocks = this.#computed.get(key);
    if (!blocks) {
      const { trace } = this.#input;
      this.#computed.set(key, (blocks = blockKeysFor({ ...parts, blockTokens }, trace.unitTokens).of(trace)));
    }
    return blocks;
  }
}

/** The parts whose distinct blocks percentages refer to: the default parts for presets, whose blocks differ. */
export const referenceParts = ({ preset: policy }: PartLists, configurations: readonly Configuration[]): Parts =>
  policy ? partsOf({}, {}) : configurations[0].parts;

/**
 * Converts a capacity to blocks of another size, so that every preset gets the same number of tokens. Capacities are in blocks
 * of `blockTokens` tokens, or shares of the trace's `distinctBlocks`.
 */
export function sizesIn(blockTokens: number, distinctBlocks: number) {
  return (capacity: Capacity, otherBlockTokens: number): number | undefined => {
    const blocks = blocksOf(capacity, distinctBlocks);
    return blocks === undefined ? undefined : Math.max(1, Math.floor((blocks * blockTokens) / otherBlockTokens));
  };
}
