/** The fields of a waiting request that queue orders read. */
export interface Waiting {
  readonly tokens: ArrayLike<number>;
  /** Cached tokens of its prompt, possibly all of them. */
  readonly cachedTokens: number;
  /**
   * Present if `tokens` are content ids, each of this many tokens. Two equal ids imply equal prefixes, so that one comparison
   * replaces that of a whole prefix.
   */
  readonly blockTokens?: number;
  /** Length of its prompt, if `tokens` does not contain all of it. */
  readonly inputTokens?: number;
}

const unitOf = ({ blockTokens = 1 }: Waiting) => blockTokens;

/** Cached tokens that need not be computed: the last token is always computed, for its logits. */
export const usableTokens = (each: Waiting) =>
  Math.min(each.cachedTokens, Math.max(0, (each.inputTokens ?? each.tokens.length * unitOf(each)) - 1));

export interface LpmOptions {
  /** Requests with more cached tokens are not compared with the queue; −1: none is compared. */
  readonly checkThreshold: number;
  /** A request that shares at least this many tokens with an earlier one is deprioritized. */
  readonly deprioritizeThreshold: number;
  /** A longer queue is served in order of arrival. */
  readonly maxQueue: number;
}

/** SGLang's defaults. */
export const lpmDefaults: LpmOptions = { checkThreshold: 32, deprioritizeThreshold: 32, maxQueue: 128 };

/**
 * Longest prefix match: most cached tokens first; ties are broken by arrival. Of requests with few cached tokens and a common
 * prefix, all but the first are deprioritized, so that its prefix is a hit for them.
 *
 * Source: SGLang, managers/schedule_policy.py (`_sort_by_longest_prefix`).
 */
export function lpmOrder<T extends Waiting>(queue: readonly T[], options: LpmOptions = lpmDefaults): T[] {
  if (queue.length > options.maxQueue) return [...queue];
  const last = deprioritized(queue, options);
  const others = queue.filter((each) => !last.has(each)).sort((a, b) => usableTokens(b) - usableTokens(a));
  return [...others, ...last];
}

/**
 * The deprioritized requests, in queue order: those with few cached tokens and a prefix in common with an earlier request.
 * Source: SGLang, `_compute_prefix_matches`.
 */
export function deprioritized<T extends Waiting>(
  queue: readonly T[],
  { checkThreshold, deprioritizeThreshold }: LpmOptions = lpmDefaults,
): ReadonlySet<T> {
  const seen = new Set<number | string>();
  const found = new Set<T>();
  for (const each of queue) {
    if (each.cachedTokens > checkThreshold) continue;
    const prefix = prefixKey(each, deprioritizeThreshold);
    if (prefix === undefined) continue;
    if (seen.has(prefix) || deprioritizeThreshold === 0) found.add(each);
    else seen.add(prefix);
  }
  return found;
}

/** Equal for two requests if and only if their first `tokens` tokens are equal; undefined if there are fewer. */
function prefixKey(each: Waiting, tokens: number): number | string | undefined {
  const count = Math.ceil(tokens / unitOf(each));
  if (each.tokens.length < count) return undefined;
  if (each.blockTokens !== undefined && count > 0) return each.tokens[count - 1];
  return Array.prototype.slice.call(each.tokens, 0, count).join();
}

/**
 * Depth first through the tree of cached prefixes, branches with the most waiting requests first: requests with a common
 * prefix are adjacent, and a request precedes those whose cached prefix is a prefix of its own. On a tie the older branch is
 * first, in the order of `cached` (cached prompts, oldest first), then of `queue`.
 *
 * Source: SGLang, mem_cache/base_prefix_cache.py (`_dfs_weight_order`).
 */
export function dfsWeightOrder<T extends Waiting>(queue: readonly T[], cached: readonly ArrayLike<number>[] = []): T[] {
  const older = cached.map((tokens) => ({ tokens, depth: tokens.length, isByContentId: false, request: undefined }));
  const waiting = queue.map((request) => ({
    tokens: request.tokens,
    depth: Math.min(request.tokens.length, Math.floor(request.cachedTokens / unitOf(request))),
    isByContentId: request.blockTokens !== undefined,
    request,
  }));
  const order: T[] = [];
  if (waiting.length > 0) visit([...older, ...waiting], waiting, order);
  return order;
}

/** A path through the tree, with the waiting request whose cached prefix it is, if any. */
interface Path<T> {
  readonly tokens: ArrayLike<number>;
  readonly depth: number;
  readonly isByContentId: boolean;
  readonly request: T | undefined;
}

/** Visits the node at which these paths diverge: appends the requests of its children, then its own. */
function visit<T>(paths: readonly Path<T>[], waiting: readonly Path<T>[], order: T[]): void {
  const [first] = waiting;
  let nodeDepth = first.depth;
  for (const each of waiting) nodeDepth = Math.min(nodeDepth, each.depth, commonLength(first, each));
  const children = new Map<number, { all: Path<T>[]; waiting: Path<T>[] }>();
  for (const each of paths) {
    if (each.depth <= nodeDepth || commonLength(first, each) < nodeDepth) continue;
    const next = each.tokens[nodeDepth];
    let child = children.get(next);
    if (child === undefined) {
      child = { all: [], waiting: [] };
      children.set(next, child);
    }
    child.all.push(each);
    if (each.request !== undefined) child.waiting.push(each);
  }
  const heaviest = [...children.values()].filter((child) => child.waiting.length > 0);
  heaviest.sort((a, b) => b.waiting.length - a.waiting.length);
  for (const child of heaviest) visit(child.all, child.waiting, order);
  for (const { depth, request } of waiting) if (depth === nodeDepth) order.push(request!);
}

/** Length of the common prefix of two paths. */
function commonLength<T>(a: Path<T>, b: Path<T>): number {
  const end = Math.min(a.depth, b.depth);
  if (a.isByContentId && b.isByContentId) return commonIds(a.tokens, 0, b.tokens, 0, end);
  let count = 0;
  while (count < end && a.tokens[count] === b.tokens[count]) count++;
  return count;
}

/** Common leading content ids of two prompts, at most `count`: by bisection, because equal ids imply equal prefixes. */
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

/** Longest output first; ties are broken by arrival. Source: SGLang, `_sort_by_longest_output`. */
export function lofOrder<T extends { readonly maxOutputTokens: number }>(queue: readonly T[]): T[] {
  return [...queue].sort((a, b) => b.maxOutputTokens - a.maxOutputTokens);
}
