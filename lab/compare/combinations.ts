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
import { belady, unbounded } from "../../policies/eviction/index.ts";
import { blockTrie, hashTable } from "../../policies/index/index.ts";
import type { Preset } from "../../policies/preset.ts";
import { evictionRegistry, indexRegistry, presetRegistry } from "../../policies/registry.ts";
import type { Input } from "../input.ts";
import { blocksOf, type Capacity } from "../run/capacity.ts";
import { evictionOf, indexOf, type Parts, partsOf, pluginNamed } from "../run/configuration.ts";
import type { Target } from "../run/target.ts";
import type { Configuration } from "./comparison.ts";

/** Values of reuse rules, of which each is combined with each. */
export type RuleLists = Partial<Record<RuleName, readonly RuleValue[]>>;

/** The comma lists of `compare`; what is not given is the preset's or the default. */
export interface PartLists {
  readonly preset?: readonly (string | Preset)[] | undefined;
  readonly index?: readonly (string | IndexPlugin)[] | undefined;
  readonly eviction?: readonly (string | EvictionPlugin)[] | undefined;
  readonly allocator?: readonly (string | AllocatorPlugin)[] | undefined;
  readonly scheduler?: readonly (string | SchedulerPlugin)[] | undefined;
  readonly rules?: RuleLists | undefined;
  readonly target?: Target;
}

/** The cross product as it was given, the first of each list first; of eviction policies the preset's or the default. */
export async function combinations(lists: PartLists): Promise<Configuration[]> {
  const evictions = lists.eviction && (await eachNamed(lists.eviction, evictionOf));
  return (await otherParts(lists)).flatMap((others) =>
    (evictions ?? [asNamed(others.parts.eviction)]).map((eviction) => withEviction(others, eviction)),
  );
}

/**
 * The cross product of what a server could run, and its bounds. With presets these are few in all; else two with each
 * combination of scheduler, allocator and rules, the same for every index. By default all online policies
 * that can differ there.
 */
export async function combinationsAndBounds(lists: PartLists): Promise<Configuration[]> {
  const named = lists.eviction ? await eachNamed(lists.eviction, evictionOf) : evictionRegistry.all.map(asNamed);
  const chosen = named.filter(({ plugin }) => !plugin.unlimited);
  if (lists.preset) {
    const own = (await combinations(lists)).filter(({ kind }) => kind !== "unlimited");
    return [...own, ...boundsOfAll(own)];
  }
  const evictions = lists.eviction ? chosen : chosen.filter(({ plugin }) => !plugin.offline && !plugin.likeLru);
  const bounded = new Set<string>();
  const all = (await otherParts(lists)).map((others) => {
    const best = blockByBlock(others);
    const isBound = best.parts.index === others.parts.index && best.ruleTexts.length === others.ruleTexts.length;
    // The optimum of an index of its own kind is shown only where it is named.
    const own = evictions
      .filter(({ plugin }) => plugin !== belady || !isBound)
      .map((eviction) => withEviction(others, eviction));
    const key = [best.parts.allocator.name, best.parts.scheduler.name, ...best.ruleTexts].join();
    if (bounded.has(key)) return { own, bounds: [] };
    bounded.add(key);
    return { own, bounds: [belady, unbounded].map((plugin) => withEviction(best, asNamed(plugin))) };
  });
  const isOnline = ({ kind }: Configuration) => kind === "online";
  return [
    ...all.flatMap(({ own }) => own.filter(isOnline)),
    ...all.flatMap(({ own, bounds }) => [...own.filter((configuration) => !isOnline(configuration)), ...bounds]),
  ];
}

/** What bounds real systems: the hash table without limits of its own, in the smallest blocks that one of them has. */
function boundsOfAll(configurations: readonly Configuration[]): Configuration[] {
  const presets = configurations.map(({ parts: { preset } }) => preset);
  const [blocksOf] = presets.sort((one, other) => one!.blockTokens - other!.blockTokens);
  // Answers bring hits and take room: who keeps none has an optimum of its own.
  const kept = new Set(configurations.map(({ parts }) => rulesFor(parts.index, parts.rules)["cache-generated"]));
  const bounds = [...kept].sort().map((answers): OtherParts => {
    const rules = answers === "true" ? { "cache-generated": answers } : {};
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

/** Each plug-in with its name, or with its file's name where two have the same name. */
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

/** With any victims, block by block, which is what the optimum is an optimum of: in its own index, or one that can. */
function blockByBlock({ parts, indexLabel, ruleTexts }: OtherParts): OtherParts {
  const isOther = ([name]: [string, unknown]) => name !== "victims" && name !== "victim-unit";
  const rules: RuleChoice = Object.fromEntries(Object.entries(parts.rules).filter(isOther));
  const others = { ruleTexts: ruleTexts.filter((text) => isOther([text.split("=")[0], text])) };
  const can = (index: IndexPlugin) =>
    !index.storesNothing && index.supports["victim-unit"] === undefined && supports(index, rules);
  const own = indexRegistry.all.includes(parts.index) ? [parts.index] : [];
  const index = [...own, hashTable, blockTrie].find(can) ?? parts.index;
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

/** All but the eviction policy, which is the preset's or the default. */
async function otherParts(lists: PartLists): Promise<OtherParts[]> {
  const all: OtherParts[] = [];
  const indexes = lists.index && (await eachNamed(lists.index, indexOf));
  const each = async <C, P>(choices: readonly C[] | undefined, find: (choice: C) => Promise<P>) =>
    choices ? await Promise.all(choices.map(find)) : [undefined];
  const allocators = await each(lists.allocator, (choice) => pluginNamed("allocator", choice));
  const schedulers = await each(lists.scheduler, (choice) => pluginNamed("scheduler", choice));
  for (const preset of lists.preset?.map((choice) =>
    typeof choice === "string" ? presetRegistry.get(choice) : choice,
  ) ?? [undefined])
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

/** The content ids of the trace's blocks, computed once for all configurations that agree on them. */
export class KeysOnce {
  readonly #input: Input;
  readonly #known = new Map<string, BlockColumns>();

  constructor(input: Input) {
    this.#input = input;
  }

  of(parts: Pick<Parts, "index" | "rules">, blockTokens: number): BlockColumns {
    const rule = (name: RuleName) => parts.rules[name] ?? parts.index.defaults?.[name];
    const rules = (["collision", "cache-generated", "partial", "store-tail", "share"] as const).map(rule);
    const key = [blockTokens, ...rules, parts.index.unit].join();
    let blocks = this.#known.get(key);
    if (!blocks) {
      const { trace } = this.#input;
      this.#known.set(key, (blocks = blockKeysFor({ ...parts, blockTokens }, trace.unitTokens).of(trace)));
    }
    return blocks;
  }
}

/** Whose blocks a percentage is of: with presets, which differ in theirs, the default's. */
export const plainParts = ({ preset: policy }: PartLists, configurations: readonly Configuration[]): Parts =>
  policy ? partsOf({}, {}) : configurations[0].parts;

/**
 * What a capacity is in blocks of any size: it is said in blocks of `blockTokens`, of which the trace has so many different
 * ones, and every preset gets the same number of tokens.
 */
export function sizesIn(blockTokens: number, distinctBlocks: number) {
  return (capacity: Capacity, own: number): number | undefined => {
    const blocks = blocksOf(capacity, distinctBlocks);
    return blocks === undefined ? undefined : Math.max(1, Math.floor((blocks * blockTokens) / own));
  };
}
