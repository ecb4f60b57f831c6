import type { EvictionContext, EvictionPlugin, PluginOption } from "../../core/plugins/index.ts";
import { createCache } from "../../core/replica/compose.ts";
import { withinTime } from "../../laws/time-limit.ts";
import { allocatorRegistry, indexRegistry } from "../../policies/registry.ts";
import type { PluginKind } from "./kinds.ts";

/** The method that identifies the kind of an object that `create` returned. */
const methods = { victim: "eviction", allocate: "allocator", plan: "scheduler", route: "router" } as const;

const mostMs = 1_000;

/**
 * The kind of a plug-in `{ name, create }`, by a trial call of `create`: first with one context that has the fields for
 * eviction policies, schedulers and routers, then with a number of blocks. An eviction policy if neither call succeeds, so that
 * its laws report the error.
 */
export function createdKind(plugin: object): PluginKind {
  const { create, options = {} } = plugin as {
    create(given: unknown): object | undefined;
    options?: Readonly<Record<string, PluginOption>>;
  };
  const defaults = Object.fromEntries(Object.entries(options).map(([name, option]) => [name, option?.default]));
  const context = { ...evictionContext(), options: defaults, replicaCount: 2, blockTokens: 16 };
  let found: PluginKind | undefined;
  for (const given of [context, 16]) {
    try {
      withinTime(mostMs, () => {
        const made = create(given);
        for (const [method, kind] of Object.entries(methods))
          if (typeof (made as Record<string, unknown> | undefined)?.[method] === "function") found ??= kind;
      });
    } catch {
      // The laws of the kind call `create` again and report what it throws.
    }
    if (found) return found;
  }
  return "eviction";
}

/** The context of an eviction policy in a small cache. */
function evictionContext(): EvictionContext {
  let found: EvictionContext | undefined;
  const eviction: EvictionPlugin = {
    ...{ name: "probe", about: "", source: "" },
    create(context) {
      context.columns.keepAll();
      found = context;
      return { add() {}, remove() {}, victim: () => undefined };
    },
  };
  const index = indexRegistry.get("hash-table");
  const allocator = allocatorRegistry.get("block");
  createCache({ index, allocator, eviction, blockTokens: 16, blocks: 16, rules: {}, seed: 1 });
  return found as EvictionContext;
}
