import { totalmem } from "node:os";
import { createCache, rulesFor } from "../core/compose.ts";
import { InputError } from "../core/errors.ts";
import type { AllocatorPlugin, EvictionPlugin, IndexPlugin, SchedulerPlugin } from "../core/plugins.ts";
import type { ReplayConfig } from "../core/replay.ts";
import type { RuleName, Rules, RuleValue } from "../core/rules.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry, schedulerRegistry } from "../policies/registry.ts";
import { partNamed } from "./later.ts";
import { isOwnIndex, loadOwnIndex } from "./own-index.ts";
import { isPolicyFile, loadOwnPolicy } from "./own-policy.ts";

export const defaultParts = { index: "hash-table", eviction: "lru", allocator: "block", scheduler: "naive" } as const;

/** Everything chosen but the capacity and the block size, which depend on the trace. */
export interface Parts {
  readonly index: IndexPlugin;
  readonly eviction: EvictionPlugin;
  readonly allocator: AllocatorPlugin;
  readonly scheduler: SchedulerPlugin;
  /** As given; the others are the index's defaults. */
  readonly rules: Partial<Record<RuleName, RuleValue>>;
}

export interface PartNames {
  readonly index: string;
  readonly eviction: string;
  readonly allocator: string;
  readonly scheduler: string;
}

/** @throws InputError if there is no such part, or the index cannot do what a rule says. */
export async function partsNamed(names: PartNames, rules: Parts["rules"]): Promise<Parts> {
  for (const kind of Object.keys(defaultParts) as (keyof PartNames)[]) {
    if (names[kind].includes(","))
      throw new InputError(`--${kind} is "${names[kind]}", expected one name; kvlab compare takes several`);
  }
  const index = await indexNamed(names.index);
  rulesFor(index, rules);
  return partsOf(index, await evictionNamed(names.eviction), names, rules);
}

/** @throws InputError as `partsNamed` does. */
export function partsOf(
  index: IndexPlugin,
  eviction: EvictionPlugin,
  names: Pick<PartNames, "allocator" | "scheduler">,
  rules: Parts["rules"],
): Parts {
  rulesFor(index, rules);
  const allocator = partNamed(allocatorRegistry, "allocator", names.allocator);
  const scheduler = partNamed(schedulerRegistry, "scheduler", names.scheduler);
  return { index, eviction, allocator, scheduler: isOwnIndex(index) ? index.watching(scheduler) : scheduler, rules };
}

/** An index of ours by its name, or a user's by its file. */
export async function indexNamed(name: string): Promise<IndexPlugin> {
  return isPolicyFile(name) ? await loadOwnIndex(name) : partNamed(indexRegistry, "index", name);
}

/** A policy of ours by its name, or a user's by its file. */
export async function evictionNamed(name: string): Promise<EvictionPlugin> {
  if (!isPolicyFile(name)) return partNamed(evictionRegistry, "eviction", name);
  const own = await loadOwnPolicy(name);
  return readsFuture(own) ? { ...own, offline: true } : own;
}

/** Whether a policy is offline although it may not say so: found by making one. */
function readsFuture(eviction: EvictionPlugin): boolean {
  let found = false;
  const probe: EvictionPlugin = {
    ...eviction,
    create(context) {
      found = eviction.create(context).prepare !== undefined;
      return { add() {}, remove() {}, victim: () => undefined };
    },
  };
  const index = indexRegistry.get(defaultParts.index);
  const allocator = allocatorRegistry.get(defaultParts.allocator);
  createCache({ index, allocator, eviction: probe, blockTokens: 1, blocks: 1, rules: {}, seed: 1 });
  return found;
}

/** All rules in effect. */
export const effectiveRules = (config: Pick<ReplayConfig, "index" | "rules">): Rules =>
  rulesFor(config.index, config.rules);

/** Block size without `--block-size`: the trace's unit, or 16 tokens where a key is a token. */
export const defaultBlockTokens = (unitTokens: number) => (unitTokens === 1 ? 16 : unitTokens);

/** What the columns of a block take at the least. */
const bytesPerBlock = 16;

/** @throws InputError if a cache of so many blocks would fill the memory of this machine. */
export function checkMemory(blocks: number | undefined): void {
  const bytes = (blocks ?? 0) * bytesPerBlock;
  if (bytes <= totalmem() / 2) return;
  throw new InputError(
    `--blocks is ${blocks}, which would take ${Math.round(bytes / 2 ** 30)} GiB of memory or more; ` +
      "unlimited takes what the trace needs",
  );
}
