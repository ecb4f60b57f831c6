import { assert } from "../../core/errors.ts";
import type { EntryId, EvictionPlugin, EvictionPolicy } from "../../core/plugins.ts";

/** A policy whose calls are checked against its contract, and what it was told is evictable now. */
export interface Recorded {
  readonly plugin: EvictionPlugin;
  readonly added: Set<EntryId>;
  /** Asks for the next victim, twice. */
  victim(): EntryId | undefined;
}

/**
 * Wraps a policy: `add` and `remove` alternate for each entry, and asking for a victim changes nothing. It has no batch
 * methods, so it also tells whether theirs do the same.
 */
export function recorded(plugin: EvictionPlugin): Recorded {
  const added = new Set<EntryId>();
  let inner: EvictionPolicy;
  const victim = (now: number) => {
    const named = inner.victim(now);
    const again = inner.victim(now);
    assert(named === again, () => `victim ${named}, asked again ${again}`);
    assert(
      named === undefined ? added.size === 0 : added.has(named),
      () => `victim ${named}, evictable are ${[...added].join(", ")}`,
    );
    return named;
  };
  return {
    added,
    victim: () => victim(0),
    plugin: {
      ...plugin,
      create(context) {
        inner = plugin.create(context);
        const { addMany: _addMany, takeMany: _takeMany } = inner;
        const policy: EvictionPolicy = {
          add(entry) {
            assert(!added.has(entry), () => `entry ${entry} is added twice`);
            added.add(entry);
            inner.add(entry);
          },
          remove(entry, why) {
            assert(added.delete(entry), () => `entry ${entry} is removed (${why}) without having been added`);
            inner.remove(entry, why);
          },
          victim,
        };
        return withOptional(policy, inner);
      },
    },
  };
}

const optional = ["published", "hit", "split", "resized", "begin", "prepare"] as const;

/** The optional methods of `inner`, except those that work on many entries at a time. */
function withOptional(policy: EvictionPolicy, inner: EvictionPolicy): EvictionPolicy {
  for (const name of optional) {
    const method = inner[name];
    if (method) Object.assign(policy, { [name]: method.bind(inner) });
  }
  return policy;
}

/** The same policy, one entry at a time. */
export function oneAtATime(plugin: EvictionPlugin): EvictionPlugin {
  return {
    ...plugin,
    create(context) {
      const inner = plugin.create(context);
      return withOptional(
        {
          add: (entry) => inner.add(entry),
          remove: (entry, why) => inner.remove(entry, why),
          victim: (now) => inner.victim(now),
        },
        inner,
      );
    },
  };
}
