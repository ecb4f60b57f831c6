import type {
  EntryId,
  EvictionPlugin,
  EvictionPolicy,
  RequestView,
  SessionView,
  Signal,
} from "../core/plugins/index.ts";
import {
  addRemoveAlternate,
  admitsInRange,
  alwaysVictim,
  expiredNotStored,
  firstToExpire,
  requestsView,
  signalsInOrder,
  victimIsEvictable,
  victimIsPure,
} from "./contract-laws.ts";
import { require } from "./law.ts";

/** A policy whose calls are checked against its contract, with the entries that are evictable now. */
export interface CheckedPolicy {
  readonly plugin: EvictionPlugin;
  readonly added: Set<EntryId>;
  /** By request whose blocks `admits` has refused in its last admission: the first that is not stored. */
  readonly refusedFrom: Map<RequestView["id"], number>;
  /** Calls `victim()` twice and checks the results. */
  victim(): EntryId | undefined;
  /** @throws LawBroken if an evictable entry expires at or before this time */
  checkExpired(now: number): void;
}

/**
 * Wraps a policy and checks its contract: `add` and `remove` of an entry alternate, victims are evictable entries, and
 * `victim` has no side effects. The wrapper has no batch methods, so it also serves as a reference for those.
 */
export function checkedPolicy(plugin: EvictionPlugin): CheckedPolicy {
  const added = new Set<EntryId>();
  const refusedFrom = new Map<RequestView["id"], number>();
  /** By removed entry: the reason, for messages. */
  const reasons = new Map<EntryId, string>();
  const signals = new SignalOrder();
  let inner: EvictionPolicy;
  let request: RequestView["id"] | undefined;
  const victim = (now: number) => {
    const victim = inner.victim(now);
    const again = inner.victim(now);
    require(victimIsPure, victim === again, () => `victim() returned ${victim}, and ${again} when called again`);
    if (victim === undefined) {
      require(alwaysVictim, added.size === 0, () => `victim() returned none although ${evictable(added)}`);
    } else {
      require(victimIsEvictable, added.has(victim), () => {
        const others = added.size === 0 ? "no entry is evictable" : evictable(added);
        return `victim() returned ${victim}, which ${reasons.get(victim) ?? "was never evictable"}; ${others}`;
      });
    }
    return victim;
  };
  const nextToExpire = () => {
    const [next, again] = [inner.nextToExpire!(), inner.nextToExpire!()];
    require(firstToExpire, next === again, () => `nextToExpire() returned ${next}, and ${again} when called again`);
    const nextAt = next === undefined ? Number.POSITIVE_INFINITY : inner.expiresAt!(next);
    require(firstToExpire, next === undefined || added.has(next), () =>
      `nextToExpire() returned ${next}, which is not evictable`);
    for (const entry of added) {
      const at = inner.expiresAt!(entry);
      require(firstToExpire, at >= nextAt, () =>
        `nextToExpire() returned ${next ?? "none"}, and entry ${entry} expires before it, at ${at}`);
    }
    return next;
  };
  return {
    added,
    refusedFrom,
    victim: () => victim(0),
    checkExpired(now) {
      if (inner?.expiresAt === undefined) return;
      for (const entry of added) {
        const at = inner.expiresAt(entry);
        require(expiredNotStored, at > now, () => `entry ${entry} expires at ${at} and is stored at ${now}`);
      }
    },
    plugin: {
      ...plugin,
      create(context) {
        inner = plugin.create(context);
        const policy: EvictionPolicy = {
          add(entry) {
            require(addRemoveAlternate, !added.has(entry), () => `entry ${entry} was added twice`);
            added.add(entry);
            inner.add(entry);
          },
          remove(entry, why) {
            require(addRemoveAlternate, added.delete(entry), () =>
              `entry ${entry} was removed (${why}) without having been added`);
            reasons.set(
              entry,
              why === "referenced" ? `has been referenced since request ${request}` : removalReason[why],
            );
            inner.remove(entry, why);
          },
          victim,
        };
        return {
          ...withOptional(policy, inner),
          ...(inner.nextToExpire && { nextToExpire }),
          ...(inner.admits && {
            admits(view: RequestView, from: number, to: number) {
              const end = inner.admits!(view, from, to);
              require(admitsInRange, Number.isInteger(end) && end >= from && end <= to, () =>
                `admits(request ${view.id}, ${from}, ${to}) returned ${end}`);
              if (end < to) refusedFrom.set(view.id, end);
              return end;
            },
          }),
          ...(inner.signal && {
            signal(signal: Signal, now: number) {
              signals.check(signal, now);
              inner.signal!(signal, now);
            },
          }),
          begin(view, now) {
            request = view.id;
            refusedFrom.delete(view.id);
            const waiting = [...context.requests.waiting()];
            require(requestsView, waiting.length === context.requests.waitingCount, () =>
              `${waiting.length} requests wait, and waitingCount is ${context.requests.waitingCount}`);
            require(requestsView, waiting.every(({ id }) => id !== view.id), () =>
              `request ${view.id}, which is being admitted, is among the waiting ones`);
            const session = context.sessions.of(view);
            require(signalsInOrder, session === undefined || session.state === "running", () =>
              `request ${view.id} is admitted while its session is ${session!.state}`);
            inner.begin?.(view, now);
          },
          published(entry, view) {
            reasons.set(entry, `is referenced by request ${view.id}, which published it`);
            inner.published?.(entry, view);
          },
        };
      },
    },
  };
}

const removalReason = { evicted: "was evicted", expired: "expired", dropped: "was dropped" } as const;

function evictable(added: Iterable<EntryId>): string {
  const all = [...added];
  return all.length === 1 ? `entry ${all[0]} is evictable` : `entries ${all.join(", ")} are evictable`;
}

const optional = [
  ...(["published", "hit", "split", "resized", "begin", "prepare", "signal"] as const),
  ...(["admits", "nextToExpire", "expiresAt"] as const),
] as const;

/** Adds the optional methods of `inner`, except the batch methods, to `policy`. */
function withOptional(policy: EvictionPolicy, inner: EvictionPolicy): EvictionPolicy {
  for (const name of optional) {
    const method = inner[name];
    if (method) Object.assign(policy, { [name]: method.bind(inner) });
  }
  return policy;
}

/** The same policy without its batch methods. */
export function withoutBatchMethods(plugin: EvictionPlugin): EvictionPlugin {
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

/** States in which a session is when a signal is sent; the others do not change the state. */
const statesOf: Readonly<Partial<Record<Signal["name"], readonly SessionView["state"][]>>> = {
  pause: ["paused"],
  resume: ["running", "idle"],
  close: ["closed"],
  drop: ["closed"],
};

/** Checks the law `signals-in-order`. */
class SignalOrder {
  #lastNs = 0;
  readonly #paused = new Set<number>();
  readonly #closed = new Set<number>();

  check({ name, session }: Signal, now: number): void {
    require(signalsInOrder, now >= this.#lastNs, () => `${name} at ${now} comes after a signal at ${this.#lastNs}`);
    this.#lastNs = now;
    if (session === undefined) {
      require(signalsInOrder, name === "keep", () => `${name} has no session`);
      return;
    }
    const { number, state } = session;
    const states = statesOf[name] ?? [state];
    require(signalsInOrder, states.includes(state), () => `${name} of session ${number}, which is ${state}`);
    require(signalsInOrder, !this.#closed.has(number), () => `${name} of session ${number}, which was closed`);
    require(signalsInOrder, name !== "resume" || this.#paused.has(number), () =>
      `resume of session ${number}, which was not paused`);
    if (state === "paused") this.#paused.add(number);
    else this.#paused.delete(number);
    if (state === "closed") this.#closed.add(number);
  }
}
