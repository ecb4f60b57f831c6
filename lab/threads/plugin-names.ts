import type { PartNames, Parts } from "../run/configuration.ts";
import { isUserPlugin } from "../user-plugins/user-plugin.ts";

/** The names by which another thread finds plug-ins. */
export type PluginNames = Omit<PartNames, "preset">;

/** The names of a configuration's plug-ins; undefined if one is a user's, whose code runs in the main thread. */
export function pluginNames({
  index,
  eviction,
  allocator,
  scheduler,
}: Pick<Parts, "index" | "eviction" | "allocator" | "scheduler">): PluginNames | undefined {
  if ([index, eviction, allocator, scheduler].some(isUserPlugin)) return undefined;
  return { index: index.name, eviction: eviction.name, allocator: allocator.name, scheduler: scheduler.name };
}
