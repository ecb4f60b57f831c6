import { prefixOf, type Workload } from "../../../laws/workloads.ts";

/** A cache of whole blocks for the search. */
export interface SearchedCache {
  readonly workload: Workload;
  readonly blockTokens: number;
  readonly blocks: number;
  /** No hit reaches the last token of a prompt: rule `match-limit=l-1`. */
  readonly isLimited: boolean;
  readonly cachesOutput: boolean;
}

/** A request of the search: the contents of its blocks, the value of a hit of each block of its prompt, and its blocks. */
interface SearchedRequest {
  readonly contents: readonly string[];
  readonly values: readonly number[];
  readonly occupied: number;
}

/**
 * The most hits of all sequences of decisions, found by trying them all. After each request, any of the other stored blocks may be
 * evicted, and at least as many as the request's blocks need. `leaves`: only blocks that no stored block extends.
 */
export function mostHits(cache: SearchedCache, metric: "block" | "token", leaves: boolean): number {
  const requests = searchedRequests(cache, metric);
  const parents = new Map<string, string | undefined>();
  for (const { contents } of requests) contents.forEach((content, i) => void parents.set(content, contents[i - 1]));
  const isClosed = (stored: ReadonlySet<string>) =>
    [...stored].every((content) => parents.get(content) === undefined || stored.has(parents.get(content)!));
  const known = new Map<string, number>();
  const most = (r: number, stored: ReadonlySet<string>): number => {
    if (r === requests.length) return 0;
    const { contents, values, occupied } = requests[r];
    if (occupied > cache.blocks) return most(r + 1, stored);
    const state = `${r} ${[...stored].sort().join(" ")}`;
    let best = known.get(state);
    if (best !== undefined) return best;
    let hits = 0;
    for (let i = 0; i < values.length && stored.has(contents[i]); i++) hits += values[i];
    const others = [...stored].filter((content) => !contents.includes(content));
    best = 0;
    for (const kept of subsets(others, cache.blocks - occupied)) {
      const after = new Set([...kept, ...contents]);
      if (!leaves || isClosed(after)) best = Math.max(best, hits + most(r + 1, after));
    }
    known.set(state, best);
    return best;
  };
  return most(0, new Set());
}

function searchedRequests(
  { workload, blockTokens, blocks, isLimited, cachesOutput }: SearchedCache,
  metric: "block" | "token",
): SearchedRequest[] {
  const hasTokens = workload.unitTokens === 1;
  return workload.requests.map((request) => {
    const length = request.prompt.length;
    const withOutput = length + request.output.length - 1;
    // The output is cached if all of it fits.
    const finished = cachesOutput && Math.ceil(withOutput / blockTokens) <= blocks ? withOutput : length;
    // The last block of a prompt has an identity if the trace has content ids; output tokens have none then.
    const promptBlocks = hasTokens ? Math.floor(length / blockTokens) : Math.ceil(length / blockTokens);
    const allBlocks = hasTokens ? Math.floor(finished / blockTokens) : promptBlocks;
    const ends = Array.from({ length: Math.max(promptBlocks, allBlocks) }, (_, i) => (i + 1) * blockTokens);
    const contents = ends.map((end) => prefixOf(request, hasTokens ? end : Math.min(end, length)));
    const values = ends.slice(0, promptBlocks).map((end) => {
      if (isLimited && end > length - 1) return 0;
      return metric === "block" ? 1 : Math.min(blockTokens, length - end + blockTokens);
    });
    return { contents, values, occupied: Math.ceil(finished / blockTokens) };
  });
}

/** The subsets with at most `most` elements. */
function subsets(of: readonly string[], most: number): string[][] {
  if (of.length === 0) return [[]];
  const without = subsets(of.slice(1), most);
  return [...without, ...without.filter((some) => some.length < most).map((some) => [of[0], ...some])];
}
