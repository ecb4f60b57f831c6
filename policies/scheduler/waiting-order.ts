/** A waiting request as its place in the queue depends on it. */
export interface Waiting {
  readonly tokens: ArrayLike<number>;
  /** Tokens that the cache has of it, also if that is all of them. */
  readonly matched: number;
}

/** What of a match spares work: at least the last token is computed, for its logits. */
export const usableTokens = ({ tokens, matched }: Waiting) => Math.min(matched, Math.max(0, tokens.length - 1));

export interface LpmOptions {
  /** Whoever has more than this cached is not compared with the queue; −1: nobody is. */
  readonly checkThreshold: number;
  /** Whoever shares at least this much with a request before it waits for that one to be cached. */
  readonly deprioritizeThreshold: number;
  /** A longer queue is served as it came. */
  readonly longestQueue: number;
}

/** SGLang's own figures. */
export const lpmDefaults: LpmOptions = { checkThreshold: 32, deprioritizeThreshold: 32, longestQueue: 128 };

/**
 * Longest prefix match: who has most in the cache goes first, of equals who came first. Of several that have little in
 * the cache but the same beginning only the first is not put off, so that the others find what it leaves.
 *
 * Source: SGLang, managers/schedule_policy.py (`_sort_by_longest_prefix`).
 */
export function lpmOrder<T extends Waiting>(queue: readonly T[], options: LpmOptions = lpmDefaults): T[] {
  if (queue.length > options.longestQueue) return [...queue];
  const putOff = deprioritized(queue, options);
  const others = queue.filter((each) => !putOff.has(each)).sort((a, b) => usableTokens(b) - usableTokens(a));
  return [...others, ...putOff];
}

/**
 * Who is put off until the next round, in the order of the queue: whoever has hardly anything in the cache, and a
 * beginning that it shares with a request before it. Source: SGLang, `_compute_prefix_matches`.
 */
export function deprioritized<T extends Waiting>(
  queue: readonly T[],
  { checkThreshold, deprioritizeThreshold }: LpmOptions = lpmDefaults,
): ReadonlySet<T> {
  const ahead = new Paths<T>();
  const found = new Set<T>();
  for (const each of queue) {
    if (each.matched > checkThreshold) continue;
    if (ahead.common(each.tokens) >= deprioritizeThreshold) found.add(each);
    else ahead.add(each.tokens);
  }
  return found;
}

/**
 * Depth first through the tree of what is cached, where most requests wait first: who shares a prefix goes one after the
 * other, and who has a longer one before whoever ends above it. Of branches with as many requests the one that is older
 * in the cache goes first; `cached` holds what was cached, in its order, where that matters.
 *
 * Source: SGLang, mem_cache/base_prefix_cache.py (`_dfs_weight_order`).
 */
export function dfsWeightOrder<T extends Waiting>(queue: readonly T[], cached: readonly ArrayLike<number>[] = []): T[] {
  const paths = new Paths<T>();
  for (const tokens of cached) paths.add(tokens);
  for (const each of queue) paths.wait(each.tokens, each.matched, each);
  return paths.depthFirst();
}

/** Longest output first, of equals who came first. Source: SGLang, `_sort_by_longest_output`. */
export function lofOrder<T extends { readonly maxOutputTokens: number }>(queue: readonly T[]): T[] {
  return [...queue].sort((a, b) => b.maxOutputTokens - a.maxOutputTokens);
}

interface Place<T> {
  readonly next: Map<number, Place<T>>;
  /** Requests that wait here and below. */
  weight: number;
  readonly waiting: T[];
}

const place = <T>(): Place<T> => ({ next: new Map(), weight: 0, waiting: [] });

/** Token sequences as a tree of single tokens, the children of a place in the order in which they came. */
class Paths<T> {
  readonly #root = place<T>();

  /** Tokens that some sequence has in common with these from their beginning. */
  common(tokens: ArrayLike<number>): number {
    let at = this.#root;
    for (let i = 0; i < tokens.length; i++) {
      const next = at.next.get(tokens[i]);
      if (next === undefined) return i;
      at = next;
    }
    return tokens.length;
  }

  add(tokens: ArrayLike<number>): void {
    let at = this.#root;
    for (let i = 0; i < tokens.length; i++) at = this.#follow(at, tokens[i]);
  }

  /** Somebody waits at the end of the first `count` tokens. */
  wait(tokens: ArrayLike<number>, count: number, who: T): void {
    let at = this.#root;
    at.weight++;
    for (let i = 0; i < count; i++) {
      at = this.#follow(at, tokens[i]);
      at.weight++;
    }
    at.waiting.push(who);
  }

  /** All who wait: the heaviest child first, and who waits at a place after all below it. */
  depthFirst(): T[] {
    const order: T[] = [];
    const open: { at: Place<T>; children: Place<T>[] }[] = [];
    const enter = (at: Place<T>) => {
      const children = [...at.next.values()].filter(({ weight }) => weight > 0);
      open.push({ at, children: children.sort((a, b) => b.weight - a.weight).reverse() });
    };
    for (enter(this.#root); open.length > 0; ) {
      const { at, children } = open[open.length - 1];
      const next = children.pop();
      if (next !== undefined) enter(next);
      else {
        order.push(...at.waiting);
        open.pop();
      }
    }
    return order;
  }

  #follow(at: Place<T>, token: number): Place<T> {
    let next = at.next.get(token);
    if (next === undefined) {
      next = place();
      at.next.set(token, next);
    }
    return next;
  }
}
