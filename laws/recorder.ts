import type { EntryId, EvictionPlugin, EvictionPolicy, RequestView } from "../core/plugins/index.ts";
import { addRemoveAlternate, alwaysVictim, victimIsEvictable, victimIsPure } from "./book.ts";
import { require } from "./law.ts";

/** A policy whose calls are checked against its contract, and what it was told is evictable now. */
export interface Recorded {
  readonly plugin: EvictionPlugin;
  readonly added: Set<EntryId>;
  /** Asks for the next victim, twice. */
  victim(): EntryId | undefined;
}

/**
 * Wraps a policy: `add` and `remove` alternate for each entry, victims are entries that may go, and asking for one
 * changes nothing. It has no batch methods, so it also tells whether theirs do the same.
 */
export function recorded(plugin: EvictionPlugin): Recorded {
  const added = new Set<EntryId>();
  /** Why an entry is not among them any longer. */
  const gone = new Map<EntryId, string>();
  let inner: EvictionPolicy;
  let request: RequestView["id"] | undefined;
  const victim = (now: number) => {
    const named = inner.victim(now);
    const again = inner.victim(now);
    require(victimIsPure, named === again, () => `victim ${named}, asked again ${again}`);
    if (named === undefined) {
      require(alwaysVictim, added.size === 0, () => `no victim although ${entries(added)} may go`);
    } else {
      require(victimIsEvictable, added.has(named), () => {
        const others = added.size === 0 ? "nothing may go" : `${entries(added)} may go`;
        return `victim ${named}, which ${gone.get(named) ?? "never could go"}; ${others}`;
      });
    }
    return named;
  };
  return {
    added,
    victim: () => victim(0),
    plugin: {
      ...plugin,
      create(context) {
        inner = plugin.create(context);
        const policy: EvictionPolicy = {
          add(entry) {
            require(addRemoveAlternate, !added.has(entry), () => `entry ${entry} is added twice`);
            added.add(entry);
            inner.add(entry);
          },
          remove(entry, why) {
            require(addRemoveAlternate, added.delete(entry), () =>
              `entry ${entry} is removed (${why}) without having been added`);
            gone.set(entry, why === "referenced" ? `is in use since request ${request}` : whyGone[why]);
            inner.remove(entry, why);
          },
          victim,
        };
        return {
          ...withOptional(policy, inner),
          begin(view, now) {
            request = view.id;
            inner.begin?.(view, now);
          },
          published(entry, view) {
            gone.set(entry, `is in use by request ${view.id}, which computed it`);
            inner.published?.(entry, view);
          },
        };
      },
    },
  };
}

const whyGone = { evicted: "was evicted", dropped: "the cache has forgotten" } as const;

function entries(added: Iterable<EntryId>): string {
  const all = [...added];
  return all.length === 1 ? `entry ${all[0]}` : `entries ${all.join(", ")}`;
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
