import { CacheEntries } from "../cache/cache-entries.ts";
import { ClientSessions } from "../cache/client-sessions.ts";
import { Counters } from "../cache/counters.ts";
import { KvCache } from "../cache/kv-cache.ts";
import { BlockPool } from "../cache/pool.ts";
import { CacheRequests } from "../cache/replica-requests.ts";
import { assert, InputError } from "../errors.ts";
import type { EventLog } from "../log/event-log.ts";
import { nearest } from "../nearest.ts";
import { EntryColumns } from "../plugins/entry-columns.ts";
import { columnsOf } from "../plugins/eviction-policy.ts";
import type {
  AllocatorPlugin,
  EvictionPlugin,
  EvictionPolicy,
  FutureView,
  IndexPlugin,
  Plugin,
  PluginOption,
  Router,
  RouterPlugin,
  Scheduler,
  SchedulerPlugin,
} from "../plugins/index.ts";
import { checkSupport, type RuleName, type Rules, type RuleValue, resolveRules } from "../plugins/rules.ts";
import { seededRandom } from "../random.ts";
import { BlockKeys, type BlockKeysOptions, type ChainHash } from "../trace/content.ts";

/** The components and settings of a cache. */
export interface CacheConfig {
  readonly index: IndexPlugin;
  readonly eviction: EvictionPlugin;
  readonly allocator: AllocatorPlugin;
  readonly blockTokens: number;
  /** Blocks of the pool; undefined = unlimited: the pool grows instead of evicting. */
  readonly blocks: number | undefined;
  /** Rules that differ from the index's defaults. */
  readonly rules: Partial<Record<RuleName, RuleValue>>;
  readonly seed: number;
  /** Another hash than the default; tests force collisions with it. */
  readonly hash?: ChainHash;
  /** For offline policies; by default the first trace that is fed, which must then be the whole one. */
  readonly future?: FutureView | undefined;
  /** Requests come from more than one namespace; the replay determines it from the trace. */
  readonly namespaces?: boolean;
}

/** Initial size of an unlimited pool; small, so that tests exercise its growth. */
const firstBlocks = 16;

/** An unlimited cache has no victims, and its columns are replaced when it grows. */
const neverEvicts: EvictionPolicy = { add() {}, remove() {}, victim: () => undefined };

/** The rules in effect for an index. @throws InputError if it does not support one of them. */
export function rulesFor(index: IndexPlugin, given: Partial<Record<RuleName, RuleValue>>): Rules {
  const rules = resolveRules(index.defaults ?? {}, given);
  checkSupport(rules, `index ${index.name}`, index.supports);
  return rules;
}

/** Converts traces to content ids, as index and rules need them. */
export function blockKeysFor(
  { index, rules: given, blockTokens, hash }: Pick<CacheConfig, "index" | "rules" | "blockTokens" | "hash">,
  unitTokens: number,
  { lateNamespaces = false }: Pick<BlockKeysOptions, "lateNamespaces"> = {},
): BlockKeys {
  const rules = resolveRules(index.defaults ?? {}, given);
  return new BlockKeys({
    unitTokens,
    blockTokens,
    generated: rules["cache-generated"] === "true",
    partial: rules.partial !== "none",
    wholePrompts: index.unit === "prompt",
    storedTails: rules["store-tail"] === "true",
    bySession: rules.share === "session",
    collision: rules.collision,
    lateNamespaces,
    ...(hash && { hash }),
  });
}

/** @throws InputError if the allocator does not support the rules. */
export function checkAllocator(allocator: AllocatorPlugin, rules: Pick<Rules, "free-queue">): void {
  if (rules["free-queue"] === "single" && !allocator.isFifo)
    throw new InputError(
      `allocator ${allocator.name} does not support rule free-queue=single: it does not allocate free blocks in the order of their release`,
    );
}

/** Creates a cache. `future` is read by offline policies; by default it is that of the configuration. */
export function createCache(config: CacheConfig, log?: EventLog, future = config.future): KvCache {
  const { index, eviction, allocator, blockTokens } = config;
  const blocks = eviction.unlimited ? undefined : config.blocks;
  if (blocks !== undefined && !(Number.isSafeInteger(blocks) && blocks > 0)) {
    throw new InputError(`--blocks is ${blocks}, expected a whole number from 1`);
  }
  const rules = rulesFor(index, config.rules);
  checkAllocator(allocator, rules);
  const poolBlocks = blocks ?? firstBlocks;
  const pool = new BlockPool(poolBlocks);
  const counters = new Counters();
  const freeList = allocator.create(poolBlocks);
  const declared = blocks === undefined ? [] : columnsOf(eviction, rules);
  const columns = new EntryColumns(poolBlocks, rules["free-order"], declared, `eviction policy "${eviction.name}"`);
  const requests = new CacheRequests();
  const sessions = new ClientSessions(log);
  const entries = new CacheEntries(pool, freeList, counters, blockTokens, rules, columns, log);
  const policy =
    blocks === undefined
      ? neverEvicts
      : eviction.create({
          columns,
          clock: entries,
          requests,
          sessions,
          blockTokens,
          random: seededRandom(config.seed),
          capacityBlocks: blocks,
          rules,
          options: optionsOf("eviction policy", eviction),
        });
  if (policy.prepare) {
    if (!future) throw new InputError(`eviction ${eviction.name} reads the future, which requires a whole trace`);
    policy.prepare(future);
  }
  const prefixIndex = index.create({ host: entries, rules, blockTokens }, poolBlocks);
  entries.connect(policy, prefixIndex);
  sessions.connect(policy);
  return new KvCache({
    blockTokens,
    blocks,
    rules,
    index: prefixIndex,
    policy,
    allocator: freeList,
    entries,
    counters,
    requests,
    sessions,
    log,
    namespaces: config.namespaces ?? false,
  });
}

/** The scheduler of a replica. `schedulerOptions` are those that differ from the defaults. */
export interface SchedulerConfig {
  readonly scheduler: SchedulerPlugin;
  readonly schedulerOptions?: Readonly<Record<string, number>> | undefined;
  readonly seed: number;
}

/** @throws InputError if the scheduler has no such option, or not with that value. */
export function createScheduler(config: SchedulerConfig, rules: Rules, replica = 0): Scheduler {
  const options = optionsOf("scheduler", config.scheduler, config.schedulerOptions);
  return config.scheduler.create({ random: seededRandom(~config.seed + replica), rules, options });
}

/** The router of a cluster. `routerOptions` are those that differ from the defaults. */
export interface RouterConfig {
  readonly router: RouterPlugin;
  readonly routerOptions?: Readonly<Record<string, number>> | undefined;
  readonly replicaCount: number;
  readonly blockTokens: number;
  readonly seed: number;
}

/** @throws InputError if the router has no such option, or not with that value. */
export function createRouter({ router, routerOptions, replicaCount, blockTokens, seed }: RouterConfig): Router {
  assert(replicaCount >= 1, `a router of ${replicaCount} replicas`);
  const options = optionsOf("router", router, routerOptions);
  // A separate random stream, independent of the number of replicas.
  return router.create({ random: seededRandom(seed ^ routerSeed), replicaCount, blockTokens, options });
}

const routerSeed = 0x52_4f_55_54;

/**
 * All options of a plug-in: `given`, else the default. @throws InputError if there is no such option or a value is out of
 * range.
 */
export function optionsOf(
  kind: "scheduler" | "router" | "eviction policy",
  { name: plugin, options = {} }: Plugin & { readonly options?: Readonly<Record<string, PluginOption>> },
  given: Readonly<Record<string, number>> = {},
): Record<string, number> {
  const all = Object.fromEntries(Object.entries(options).map(([name, option]) => [name, option?.default]));
  for (const [name, value] of Object.entries(all))
    if (!Number.isFinite(value))
      throw new InputError(`${kind} ${plugin} has an option "${name}" without a default, expected { about, default }`);
  for (const [name, value] of Object.entries(given)) {
    const option = Object.hasOwn(options, name) ? options[name] : undefined;
    if (!option) throw new InputError(`${kind} ${plugin} has no option "${name}"${hint(name, Object.keys(options))}`);
    const { min = 0, max = Number.POSITIVE_INFINITY, fraction } = option;
    const fits = Number.isFinite(value) && value >= min && value <= max && (fraction || Number.isSafeInteger(value));
    if (!fits) {
      const range = max === Number.POSITIVE_INFINITY ? `from ${min}` : `from ${min} to ${max}`;
      throw new InputError(
        `option ${name} of ${plugin} is ${value}, expected a ${fraction ? "number" : "whole number"} ${range}`,
      );
    }
    all[name] = value;
  }
  return all;
}

/** The policy with these values of its options, which its name then has. @throws InputError as `optionsOf` */
export function evictionWith(plugin: EvictionPlugin, given: Readonly<Record<string, number>>): EvictionPlugin {
  const options = optionsOf("eviction policy", plugin, given);
  const shown = Object.entries(given).map(([name, value]) => `:${name}=${value}`);
  return {
    ...plugin,
    name: plugin.name + shown.join(""),
    create: (context) => plugin.create({ ...context, options }),
  };
}

function hint(name: string, names: readonly string[]): string {
  const near = nearest(name, names);
  if (near) return `: did you mean "${near}"?`;
  return names.length === 0 ? ": it has none" : `, expected one of ${names.join(", ")}`;
}
