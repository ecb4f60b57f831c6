import type { Block, IsFree, NaivePolicy } from "./naive-cache.ts";

// Policies over plain arrays. An array is in the order of eviction: its first free element is considered first.

/** Removes a content id from an array; returns whether it was in it. */
export function take(from: number[], key: number): boolean {
  const at = from.indexOf(key);
  if (at >= 0) from.splice(at, 1);
  return at >= 0;
}

const keysOf = (blocks: readonly Block[]) => blocks.map(({ key }) => key);

/** The number of contents that are cached, and its maximum so far, which is the size of the full cache. */
class Size {
  now = 0;
  most = 0;

  add(): void {
    this.most = Math.max(this.most, ++this.now);
  }
}

/** A queue with bits; with a bit at its front, a block moves to the end. */
export function clock(): NaivePolicy {
  const queue: number[] = [];
  const bits = new Set<number>();
  return {
    hit: (key) => void bits.add(key),
    insert: (blocks) => void queue.push(...keysOf(blocks).reverse()),
    evict(isFree) {
      for (let at = 0; ; ) {
        const key = queue[at];
        if (key === undefined) at = 0;
        else if (!isFree(key)) at++;
        else {
          queue.splice(at, 1);
          if (!bits.delete(key)) return key;
          queue.push(key);
        }
      }
    },
  };
}

/** A queue with bits and a hand, which is an index; blocks keep their places. */
export function sieve(): NaivePolicy {
  const queue: number[] = [];
  const bits = new Set<number>();
  let hand = 0;
  return {
    hit: (key) => void bits.add(key),
    insert: (blocks) => void queue.push(...keysOf(blocks).reverse()),
    evict(isFree) {
      for (;;) {
        const key = queue[hand];
        if (key === undefined) hand = 0;
        else if (isFree(key) && !bits.delete(key)) {
          queue.splice(hand, 1);
          bits.delete(key);
          return key;
        } else hand++;
      }
    },
  };
}

/** Small queue S, main queue M, ghosts G. */
export function s3Fifo(): NaivePolicy {
  const [small, main, ghosts]: number[][] = [[], [], []];
  const frequency = new Map<number, number>();
  const size = new Size();
  return {
    hit: (key) => void frequency.set(key, Math.min(3, frequency.get(key)! + 1)),
    insert(blocks) {
      const isGhost = new Set(keysOf(blocks).filter((key) => take(ghosts, key)));
      for (const { key } of blocks.toReversed()) {
        (isGhost.has(key) ? main : small).push(key);
        frequency.set(key, 0);
        size.add();
      }
    },
    evict(isFree) {
      const isSmallFull = small.length >= 0.1 * size.now;
      size.now--;
      if (isSmallFull || !main.some(isFree)) {
        for (const key of small.filter(isFree)) {
          take(small, key);
          if (frequency.get(key)! > 1) {
            main.push(key);
            frequency.set(key, 0);
          } else {
            ghosts.push(key);
            if (ghosts.length > Math.max(1, Math.floor(0.9 * size.most))) ghosts.shift();
            return key;
          }
        }
      }
      for (;;) {
        for (const key of main.filter(isFree)) {
          take(main, key);
          if (frequency.get(key) === 0) return key;
          frequency.set(key, frequency.get(key)! - 1);
          main.push(key);
        }
      }
    },
  };
}

/** A1in, Am and A1out. */
export function twoQueues(): NaivePolicy {
  const [a1in, am, a1out]: number[][] = [[], [], []];
  const size = new Size();
  return {
    insert(blocks) {
      const isGhost = new Set(keysOf(blocks).filter((key) => take(a1out, key)));
      for (const { key } of blocks.toReversed()) {
        (isGhost.has(key) ? am : a1in).push(key);
        size.add();
      }
    },
    release(keys) {
      for (const key of keys) if (take(am, key)) am.push(key);
    },
    evict(isFree) {
      const queues = a1in.length > 0.25 * size.now ? [a1in, am] : [am, a1in];
      const queue = queues.find((one) => one.some(isFree))!;
      const key = queue.find(isFree)!;
      take(queue, key);
      size.now--;
      if (queue === a1in) {
        a1out.push(key);
        if (a1out.length > Math.max(1, Math.floor(0.5 * size.most))) a1out.shift();
      }
      return key;
    },
  };
}

/** T1, T2, B1, B2 and p. */
export function arc(): NaivePolicy {
  const [t1, t2, b1, b2]: number[][] = [[], [], [], []];
  const size = new Size();
  let p = 0;
  const used = (key: number) => {
    if (take(t1, key) || take(t2, key)) t2.push(key);
  };
  return {
    hit: used,
    insert(blocks) {
      for (const { key } of blocks) {
        const c = size.most;
        if (b1.includes(key)) {
          p = Math.min(c, p + Math.max(1, b2.length / b1.length));
          take(b1, key);
          t2.push(key);
        } else if (b2.includes(key)) {
          p = Math.max(0, p - Math.max(1, b1.length / b2.length));
          take(b2, key);
          t2.push(key);
        } else {
          t1.push(key);
        }
        size.add();
        while (b1.length > 0 && t1.length + b1.length > size.most) b1.shift();
        while (b2.length > 0 && t1.length + t2.length + b1.length + b2.length > 2 * size.most) b2.shift();
      }
    },
    release(keys) {
      for (const key of keys) for (const list of [t1, t2]) if (take(list, key)) list.push(key);
    },
    evict(isFree) {
      const lists = t1.length > p ? [t1, t2] : [t2, t1];
      const list = lists.find((one) => one.some(isFree))!;
      const key = list.find(isFree)!;
      take(list, key);
      (list === t1 ? b1 : b2).push(key);
      size.now--;
      return key;
    },
  };
}

/** Stack S from the bottom to the top, with LIR blocks, resident HIR blocks and ghosts; Q has the resident HIR blocks. */
export function lirs(): NaivePolicy {
  const [stack, queue, ghosts]: number[][] = [[], [], []];
  const low = new Set<number>();
  const size = new Size();
  let isFull = false;
  /** The least recently used LIR block, which is the bottom of S; what is below it is not in S. */
  const bottom = (isFree: IsFree) => stack.findIndex((key) => low.has(key) && isFree(key));
  const isInStack = (key: number, isFree: IsFree) => stack.includes(key) && stack.indexOf(key) > bottom(isFree);
  const toTop = (key: number) => {
    take(stack, key);
    stack.push(key);
  };
  const toEnd = (key: number) => {
    take(queue, key);
    queue.push(key);
  };
  const demote = (isFree: IsFree) => {
    while (isFull && low.size > 0.99 * size.most && bottom(isFree) >= 0) {
      const key = stack[bottom(isFree)];
      low.delete(key);
      toEnd(key);
    }
  };
  const use = (key: number, isLow: boolean, isFree: IsFree) => {
    const wasLow = low.has(key);
    toTop(key);
    if (isLow) {
      take(queue, key);
      low.add(key);
      if (!wasLow) demote(isFree);
    } else toEnd(key);
  };
  return {
    hit(key, isFree) {
      use(key, low.has(key) || isInStack(key, isFree), isFree);
    },
    insert(blocks, isFree) {
      for (const { key } of blocks) {
        const isLow = !isFull || (take(ghosts, key) && isInStack(key, isFree));
        size.add();
        use(key, isLow, (other) => isFree(other) && other !== key);
      }
    },
    release(keys) {
      for (const key of keys) {
        toTop(key);
        if (!low.has(key)) toEnd(key);
      }
    },
    evict(isFree) {
      const key = queue.find(isFree) ?? stack[bottom(isFree)];
      const isGhost = take(queue, key) && isInStack(key, isFree);
      low.delete(key);
      size.now--;
      if (isGhost) ghosts.push(key);
      else take(stack, key);
      if (ghosts.length > size.most) take(stack, ghosts.shift()!);
      isFull = true;
      demote((other) => isFree(other) && other !== key);
      return key;
    },
  };
}

/** A cached block with the facts that scores are made of. */
export interface Scored extends Block {
  /** Number of the request that inserted it, and of the latest request then. */
  readonly insertedAt: number;
  hits: number;
  /** Number of the last request that used it. */
  usedAt: number;
  /** Number of a policy: a credit, a sum. */
  value: number;
}

export interface ScoredPolicy {
  /** The block with the lexicographically smallest scores is evicted; of equals the first in the order of release. */
  scores(block: Scored, now: number): readonly number[];
  insert?(block: Scored, now: number): void;
  hit?(block: Scored, now: number): void;
  evict?(block: Scored): void;
}

/** A policy that computes the scores of all blocks for each victim. */
export function byScores({ scores, insert, hit, evict }: ScoredPolicy): NaivePolicy {
  let cached: Scored[] = [];
  let now = 0;
  return {
    begin: (request) => void (now = request),
    hit(key) {
      const block = cached.find((one) => one.key === key)!;
      block.hits++;
      hit?.(block, now);
    },
    insert(blocks) {
      for (const block of blocks) {
        const scored = { ...block, insertedAt: now, usedAt: now, hits: 0, value: 0 };
        insert?.(scored, now);
        cached.push(scored);
      }
    },
    release(keys) {
      const used = keys.map((key) => cached.find((one) => one.key === key)!);
      for (const block of used) block.usedAt = now;
      cached = [...cached.filter((block) => !used.includes(block)), ...used];
    },
    evict(isFree) {
      const scored = cached.filter(({ key }) => isFree(key)).map((block) => ({ block, score: scores(block, now) }));
      const { block } = scored.reduce((a, b) => (isLess(b.score, a.score) ? b : a));
      cached = cached.filter((one) => one !== block);
      evict?.(block);
      return block.key;
    },
  };
}

function isLess(a: readonly number[], b: readonly number[]): boolean {
  const at = a.findIndex((score, i) => score !== b[i]);
  return at >= 0 && a[at] < b[at];
}

/** Counts of evicted contents are kept, for at most eight times as many contents as the cache has blocks. */
export function lfuLifetime(capacity: number): NaivePolicy {
  const ghosts = new Map<number, number>();
  return byScores({
    scores: ({ value }) => [value],
    insert(block) {
      block.value = 1 + (ghosts.get(block.key) ?? 0);
      ghosts.delete(block.key);
    },
    hit: (block) => void block.value++,
    evict({ key, value }) {
      ghosts.set(key, value);
      if (ghosts.size > 8 * capacity) ghosts.delete(ghosts.keys().next().value!);
    },
  });
}

/** FLOPs of recomputing a block, in units of one token's matrix products: of Llama 3.1 8B, 2 · 8.03e9 per token. */
const cost = ({ tokens, depth }: Block) => tokens * (1 + (depth - tokens / 2) / ((2 * 8.03e9) / (4 * 32 * 32 * 128)));

/** L + F · C / S. */
export function gdsf(): NaivePolicy {
  let age = 0;
  const use = (block: Scored) => {
    block.value = age + ((block.hits + 1) * cost(block)) / block.tokens;
  };
  return byScores({
    scores: ({ value }) => [value],
    insert: use,
    hit: use,
    evict: ({ value }) => void (age = Math.max(age, value)),
  });
}

/** Uses per request since the insertion; above 16, uses are rounded down to 8 steps per doubling. */
export function hyperbolic(): NaivePolicy {
  const rounded = (uses: number) => {
    const step = uses <= 16 ? 1 : 2 ** (Math.floor(Math.log2(uses / 16)) + 1);
    return step * Math.floor(uses / step);
  };
  const usesOf = ({ hits }: Scored) => rounded(hits + 1);
  return byScores({
    scores: (block, now) => [
      usesOf(block) / (now - block.insertedAt + 1),
      usesOf(block),
      block.insertedAt,
      -block.place,
    ],
  });
}

/** Sum of the uses, each worth half after 1,000 requests, times the FLOPs per token. */
export function costAware(): NaivePolicy {
  const use = (block: Scored, now: number) => {
    block.value += 2 ** (now / 1000);
  };
  return byScores({ scores: (block) => [(block.value * cost(block)) / block.tokens], insert: use, hit: use });
}
