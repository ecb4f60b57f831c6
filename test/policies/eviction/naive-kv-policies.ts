import { chanceOf, seededRandom } from "../../../core/random.ts";
import { FrequencySketch } from "../../../policies/eviction/frequency-sketch.ts";
import type { NaivePolicy } from "./naive-cache.ts";
import { byScores, type Scored, take } from "./naive-policies.ts";

/** Window, probationary and protected segment; `sketch` counts the requested blocks. */
export function wTinylfu(capacity: number): NaivePolicy {
  const [window, probation, kept]: number[][] = [[], [], []];
  const sketch = new FrequencySketch(capacity);
  let size = 0;
  let most = 0;
  let wasFull = false;
  const share = () => Math.max(1, 0.01 * most);
  return {
    begin(_request, { prompt }) {
      for (const { key } of prompt) sketch.add(key);
    },
    hit(key, isFree) {
      if (!take(probation, key)) return;
      kept.push(key);
      while (wasFull && kept.length > 0.8 * 0.99 * most && kept.some(isFree)) {
        const first = kept.find(isFree)!;
        take(kept, first);
        probation.push(first);
      }
    },
    insert(blocks) {
      for (const { key } of blocks) {
        window.push(key);
        most = Math.max(most, ++size);
      }
    },
    release(keys) {
      const used = new Set(keys);
      for (const key of keys) {
        used.delete(key);
        for (const list of [window, probation, kept]) if (take(list, key)) list.push(key);
        while (!wasFull && window.length > share()) {
          const first = window.find((one) => !used.has(one));
          if (first === undefined) break;
          take(window, first);
          probation.push(first);
        }
      }
    },
    evict(isFree) {
      wasFull = true;
      size--;
      const candidate = window.length >= share() ? window.find(isFree) : undefined;
      const rival = probation.find(isFree) ?? kept.find(isFree);
      const wins =
        candidate !== undefined && rival !== undefined && sketch.estimate(candidate) > sketch.estimate(rival);
      const victim = (wins || candidate === undefined ? rival : candidate) ?? window.find(isFree)!;
      for (const list of [window, probation, kept]) take(list, victim);
      if (wins) {
        take(window, candidate);
        probation.push(candidate);
      }
      return victim;
    },
  };
}

/** An array of unused and one of used blocks in the order of their numbers; the seed of the run is 1. */
export function randomLeaf(): NaivePolicy {
  const seed = seededRandom(1).below(2 ** 31);
  const numbers = new Map<number, number>();
  let [unused, used]: Set<number>[] = [new Set<number>(), new Set<number>()];
  let draws = 0;
  return {
    insert(blocks) {
      for (const { key } of blocks) used.add(key);
    },
    release(keys) {
      for (const key of keys) {
        numbers.set(key, chanceOf(seed, draws++));
        unused.delete(key);
        used.add(key);
      }
    },
    evict(isFree) {
      if (![...unused].some(isFree)) [unused, used] = [new Set([...unused, ...used]), new Set()];
      const free = [...unused].filter(isFree);
      const victim = free.reduce((a, b) => (numbers.get(b)! < numbers.get(a)! ? b : a));
      unused.delete(victim);
      return victim;
    },
  };
}

/** `value` is the length of the longest conversation that used the block. */
export function tLru(threshold = 4096, next = 200): NaivePolicy {
  let length = 0;
  const use = (block: Scored) => {
    block.value = Math.max(block.value, length);
  };
  const policy = byScores({
    scores: ({ value, depth, tokens }) => [depth - tokens >= value + next - threshold ? 0 : 1],
    insert: use,
    hit: use,
  });
  return {
    ...policy,
    begin(request, view) {
      length = view.inputTokens;
      policy.begin!(request, view);
    },
  };
}

interface Use {
  readonly workload: string;
  readonly atNs: number;
}

/** All uses of all contents are kept, and all times between them are added up for each decision. */
export function workloadAware(): NaivePolicy {
  const uses = new Map<number, Use[]>();
  const turns = new Map<string, number>();
  const workloads: string[] = [];
  const stays: number[] = [];
  let current = "";
  let now = 0;
  let cached: { key: number; depth: number; workload: string; atNs: number }[] = [];
  const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);
  const probability = (workload: string, idle: number) => {
    let count = 0;
    const gaps: number[] = [];
    for (const all of uses.values()) {
      all.forEach((use, i) => {
        if (use.workload !== workload) return;
        count++;
        if (i + 1 < all.length) gaps.push(all[i + 1].atNs - use.atNs);
      });
    }
    if (gaps.length === 0) return 0;
    const mean = Math.max(1, sum(gaps) / gaps.length);
    const stay = stays.length === 0 ? Number.POSITIVE_INFINITY : Math.max(1, sum(stays) / stays.length);
    return (gaps.length / count) * (Math.exp(-idle / mean) - Math.exp(-(idle + stay) / mean));
  };
  const seen: (typeof cached)[number][] = [];
  return {
    begin(_request, { prompt, arrivalNs, namespace, session, category }) {
      now = Math.max(now, arrivalNs);
      const turn = (turns.get(`${namespace} ${session}`) ?? 0) + 1;
      turns.set(`${namespace} ${session}`, turn);
      current = `${category} ${session === 0 ? 0 : Math.min(4, turn)}`;
      if (!workloads.includes(current)) workloads.push(current);
      for (const { key } of prompt) uses.set(key, [...(uses.get(key) ?? []), { workload: current, atNs: now }]);
    },
    insert(blocks) {
      for (const { key, depth } of blocks) seen.push({ key, depth, workload: current, atNs: now });
    },
    hit(key) {
      cached.find((one) => one.key === key)!.workload = current;
    },
    release(keys) {
      for (const key of keys) {
        const at = cached.findIndex((one) => one.key === key);
        const block = at < 0 ? seen.find((one) => one.key === key)! : cached.splice(at, 1)[0];
        cached.push({ ...block, atNs: now });
      }
      seen.length = 0;
    },
    evict(isFree) {
      const firsts = workloads
        .map((workload) => cached.find((one) => one.workload === workload && isFree(one.key)))
        .filter((one) => one !== undefined)
        .map((one) => ({ one, value: probability(one.workload, now - one.atNs) }));
      const { one } = firsts.reduce((a, b) =>
        b.value < a.value || (b.value === a.value && b.one.depth > a.one.depth) ? b : a,
      );
      cached = cached.filter((other) => other !== one);
      stays.push(now - one.atNs);
      return one.key;
    },
  };
}

/** Recency and `weight` times the longest prompt that used the block; undefined = the best of five weights in the window. */
export function marconi(capacity: number, weight?: number, bootstrap = 5): NaivePolicy {
  let bonus = 0;
  let recency = 0;
  let longest = 1;
  let request = 0;
  let ends = Number.POSITIVE_INFINITY;
  const window: { readonly keys: readonly number[]; readonly inputTokens: number }[] = [];
  let length = 0;
  const use = (block: Scored) => {
    block.value = Math.max(block.value, length);
  };
  const policy = byScores({ scores: ({ usedAt, value }) => [usedAt + bonus * value], insert: use, hit: use });
  return {
    ...policy,
    begin(number, view) {
      request = number;
      length = view.inputTokens;
      const keys = view.prompt.map(({ key }) => key);
      if (recency === 0) longest = Math.max(longest, view.inputTokens);
      else if (weight === undefined && number <= ends) window.push({ keys, inputTokens: view.inputTokens });
      if (number > ends) {
        const hits = [0, 0.25, 0.5, 1, 2].map((one) => ({
          one,
          hits: hitsOf(window, capacity, (one * recency) / longest),
        }));
        bonus = (hits.reduce((a, b) => (b.hits > a.hits ? b : a)).one * recency) / longest;
        ends = Number.POSITIVE_INFINITY;
      }
      policy.begin!(number, view);
    },
    evict(isFree) {
      const victim = policy.evict(isFree);
      if (recency === 0) {
        recency = Math.max(1, request);
        if (weight === undefined) ends = request + bootstrap * recency;
        else bonus = (weight * recency) / longest;
      }
      return victim;
    },
  };
}

/** Hits in a cache that is an array, in the order of the last use. */
function hitsOf(
  window: readonly { readonly keys: readonly number[]; readonly inputTokens: number }[],
  capacity: number,
  bonus: number,
): number {
  let cached: { readonly key: number; readonly longest: number; readonly score: number }[] = [];
  let hits = 0;
  window.forEach(({ keys, inputTokens }, request) => {
    if (keys.length > capacity) return;
    const longestOf = new Map(cached.map(({ key, longest }) => [key, longest]));
    const firstMiss = keys.findIndex((key) => !longestOf.has(key));
    hits += firstMiss < 0 ? keys.length : firstMiss;
    let others = cached.filter(({ key }) => !keys.includes(key));
    const excess = others.length + keys.length - capacity;
    for (let i = 0; i < excess; i++) {
      const victim = others.reduce((a, b) => (b.score < a.score ? b : a));
      others = others.filter((one) => one !== victim);
    }
    const used = keys.map((key) => {
      const longest = Math.max(inputTokens, longestOf.get(key) ?? 0);
      return { key, longest, score: request + bonus * longest };
    });
    cached = [...others, ...used.reverse()];
  });
  return hits;
}
