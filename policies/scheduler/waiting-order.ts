/** A waiting request as its place in the queue depends on it. */
export interface Waiting {
  readonly tokens: ArrayLike<number>;
  /** Tokens that the cache has of it, also if that is all of them. */
  readonly matched: number;
  /**
   * `tokens` are content ids instead, one for so many tokens. Where two of these are equal all before them is, so that
   * one look says what otherwise a whole beginning does.
   */
  readonly blockTokens?: number;
  /** Length of its prompt, if not all of that is in `tokens`. */
  readonly inputTokens?: number;
}

const unitOf = ({ blockTokens = 1 }: Waiting) => blockTokens;

/** What of a match spares work: at least the last token is computed, for its logits. */
export const usableTokens = (each: Waiting) =>
  Math.min(each.matched, Math.max(0, (each.inputTokens ?? each.tokens.length * unitOf(each)) - 1));

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
  const ahead = new Set<number | string>();
  const found = new Set<T>();
  for (const each of queue) {
    if (each.matched > checkThreshold) continue;
    const beginning = beginningOf(each, deprioritizeThreshold);
    if (beginning === undefined) continue;
    if (ahead.has(beginning) || deprioritizeThreshold === 0) found.add(each);
    else ahead.add(beginning);
  }
  return found;
}

/** The same for two requests if, and only if, they begin with the same `tokens` tokens; undefined if it has fewer. */
function beginningOf(each: Waiting, tokens: number): number | string | undefined {
  const count = Math.ceil(tokens / unitOf(each));
  if (each.tokens.length < count) return undefined;
  if (each.blockTokens !== undefined && count > 0) return each.tokens[count - 1];
  return Array.prototype.slice.call(each.tokens, 0, count).join();
}

/**
 * Depth first through the tree of what is cached, where most requests wait first: who shares a prefix goes one after the
 * other, and who has a longer one before whoever ends above it. Of branches with as many requests the one that is older
 * in the cache goes first; `cached` holds what was cached, in its order, where that matters.
 *
 * Source: SGLang, mem_cache/base_prefix_cache.py (`_dfs_weight_order`).
 */
export function dfsWeightOrder<T extends Waiting>(queue: readonly T[], cached: readonly ArrayLike<number>[] = []): T[] {
  const older = cached.map((tokens) => ({ tokens, depth: tokens.length, chained: false, who: undefined }));
  const waiting = queue.map((who) => ({
    tokens: who.tokens,
    depth: Math.min(who.tokens.length, Math.floor(who.matched / unitOf(who))),
    chained: who.blockTokens !== undefined,
    who,
  }));
  const order: T[] = [];
  if (waiting.length > 0) visit([...older, ...waiting], waiting, order);
  return order;
}

/** Somebody who waits at this depth of a path through the tree, or a path where nobody does. */
interface Path<T> {
  readonly tokens: ArrayLike<number>;
  readonly depth: number;
  readonly chained: boolean;
  readonly who: T | undefined;
}

/** Appends all who wait on these paths, which are the same down to a place: the children of that place, then itself. */
function visit<T>(paths: readonly Path<T>[], waiting: readonly Path<T>[], order: T[]): void {
  const [first] = waiting;
  let place = first.depth;
  for (const each of waiting) place = Math.min(place, each.depth, common(first, each));
  const children = new Map<number, { all: Path<T>[]; waiting: Path<T>[] }>();
  for (const each of paths) {
    if (each.depth <= place || common(first, each) < place) continue;
    const next = each.tokens[place];
    let child = children.get(next);
    if (child === undefined) {
      child = { all: [], waiting: [] };
      children.set(next, child);
    }
    child.all.push(each);
    if (each.who !== undefined) child.waiting.push(each);
  }
  const heaviest = [...children.values()].filter((child) => child.waiting.length > 0);
  heaviest.sort((a, b) => b.waiting.length - a.waiting.length);
  for (const child of heaviest) visit(child.all, child.waiting, order);
  for (const { depth, who } of waiting) if (depth === place) order.push(who!);
}

/** How far two paths are the same. */
function common<T>(a: Path<T>, b: Path<T>): number {
  const end = Math.min(a.depth, b.depth);
  if (a.chained && b.chained) return commonIds(a.tokens, 0, b.tokens, 0, end);
  let count = 0;
  while (count < end && a.tokens[count] === b.tokens[count]) count++;
  return count;
}

/** Content ids that two prompts have in common from their beginning, of at most `count`: halving, for each tells all before it. */
export function commonIds(
  a: ArrayLike<number>,
  aStart: number,
  b: ArrayLike<number>,
  bStart: number,
  count: number,
): number {
  let equal = 0;
  let unequal = count + 1;
  while (unequal - equal > 1) {
    const middle = (equal + unequal) >> 1;
    if (a[aStart + middle - 1] === b[bStart + middle - 1]) equal = middle;
    else unequal = middle;
  }
  return equal;
}

/** Longest output first, of equals who came first. Source: SGLang, `_sort_by_longest_output`. */
export function lofOrder<T extends { readonly maxOutputTokens: number }>(queue: readonly T[]): T[] {
  return [...queue].sort((a, b) => b.maxOutputTokens - a.maxOutputTokens);
}
