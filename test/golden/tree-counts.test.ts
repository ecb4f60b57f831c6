import { beforeAll, describe, expect, test } from "vitest";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { replayed } from "../support/replays.ts";
import { goldenCapacities, goldenHits, goldenTrace } from "./golden-trace.ts";

// Hits of each policy in a tree, compared with a naive tree of arrays that is searched completely for each victim.

let trace: Trace;
/** Content ids of every prompt's blocks. */
let prompts: number[][];
let capacities: number[];

beforeAll(async () => {
  trace = await goldenTrace();
  prompts = Array.from({ length: trace.requestCount }, (_, r) => [
    ...trace.keys.subarray(trace.keyStart[r], trace.keyStart[r + 1]),
  ]);
  capacities = goldenCapacities(trace);
});

interface Run {
  above: Run | undefined;
  /** Blocks before it. */
  begin: number;
  blocks: number[];
  below: Set<Run>;
  created: number;
  last: number;
}

interface Shape {
  /** Each block is a run of its own. */
  readonly single: boolean;
  readonly unit: "block" | "node" | "tail";
  /** Any run is evictable, with all below it. */
  readonly any: boolean;
}
/** Chooses the victim among these unreferenced runs. */
type Choose = (runs: Run[]) => Run;

const endOf = ({ begin, blocks }: Run) => begin + blocks.length;

class NaiveTree {
  readonly #capacity: number;
  readonly #shape: Shape;
  readonly #choose: Choose;
  readonly #root: Run = { above: undefined, begin: 0, blocks: [], below: new Set(), created: 0, last: 0 };
  readonly #runs = new Set<Run>();
  #size = 0;

  constructor(capacity: number, shape: Shape, choose: Choose) {
    this.#capacity = capacity;
    this.#shape = shape;
    this.#choose = choose;
  }

  /** Blocks that the request hits. */
  serve(prompt: number[], now: number): number {
    if (prompt.length > this.#capacity) return 0;
    const path = this.#path(prompt);
    const end = path.at(-1) ?? this.#root;
    const hits = endOf(end);
    while (this.#size + prompt.length - hits > this.#capacity) this.#evict(path, prompt.length - hits);
    const rest = prompt.slice(hits);
    const pieces = this.#shape.single ? rest.map((key) => [key]) : rest.length > 0 ? [rest] : [];
    let above = end;
    for (const blocks of pieces) {
      above = this.#add({ above, begin: endOf(above), blocks, below: new Set(), created: now, last: now });
      path.push(above);
    }
    for (const run of path) run.last = now;
    this.#size += rest.length;
    return hits;
  }

  /** Runs along the prompt, the last one split where the prompt diverges. */
  #path(prompt: number[]): Run[] {
    const path: Run[] = [];
    for (let run: Run | undefined = this.#root; ; path.push(run)) {
      const at = endOf(run);
      run = [...run.below].find(({ blocks }) => blocks[0] === prompt[at]);
      if (!run) return path;
      const parts = run.blocks.findIndex((key, i) => key !== prompt[at + i]);
      if (parts > 0) run = this.#cut(run, parts);
    }
  }

  #cut(lower: Run, count: number): Run {
    const upper: Run = { ...lower, blocks: lower.blocks.slice(0, count), below: new Set([lower]) };
    lower.above!.below.delete(lower);
    lower.blocks = lower.blocks.slice(count);
    lower.begin += count;
    lower.above = upper;
    return this.#add(upper);
  }

  #add(run: Run): Run {
    run.above!.below.add(run);
    this.#runs.add(run);
    return run;
  }

  #evict(path: readonly Run[], newBlocks: number): void {
    const may = [...this.#runs].filter((run) => !path.includes(run) && (this.#shape.any || run.below.size === 0));
    const victim = this.#choose(may);
    if (this.#shape.any) {
      this.#remove(victim);
      return;
    }
    const needed = this.#size + newBlocks - this.#capacity;
    const { length } = victim.blocks;
    const count = this.#shape.unit === "node" ? length : this.#shape.unit === "block" ? 1 : Math.min(needed, length);
    if (count === length) {
      this.#remove(victim);
      return;
    }
    victim.blocks.length -= count;
    this.#size -= count;
  }

  #remove(run: Run): void {
    for (const below of run.below) this.#remove(below);
    this.#size -= run.blocks.length;
    this.#runs.delete(run);
    run.above!.below.delete(run);
  }
}

const trie: Shape = { single: true, unit: "block", any: false };
const radix: Shape = { ...trie, single: false };

function naive(capacity: number, shape: Shape, choose: Choose): number[] {
  const tree = new NaiveTree(capacity, shape, choose);
  return prompts.map((prompt, now) => tree.serve(prompt, now));
}

/** The run with the lexicographically smallest scores. */
const least =
  (...scores: ((run: Run) => number)[]): Choose =>
  (runs) =>
    runs.reduce((best, run) => {
      for (const score of scores) {
        const difference = score(run) - score(best);
        if (difference !== 0) return difference < 0 ? run : best;
      }
      return best;
    });

type Rules = Partial<Record<RuleName, RuleValue>>;
const ours = (index: string, policy: string, blocks: number, rules: Rules = {}, seed = 1) => [
  ...replayed(trace, { index, policy, blocks, rules, seed }).requests.hitBlocks,
];
const sum = (numbers: readonly number[]) => numbers.reduce((total, n) => total + n, 0);

const trees: [name: string, index: string, rules: Rules, shape: Shape][] = [
  ["a block trie", "block-trie", {}, trie],
  ["a block trie with victims=any", "block-trie", { victims: "any" }, { ...trie, any: true }],
  ["a radix tree", "radix-tree", {}, { ...radix, unit: "tail" }],
  ["a radix tree, block by block", "radix-tree", { "victim-unit": "block" }, radix],
  ["a radix tree, run by run", "radix-tree", { "victim-unit": "node" }, { ...radix, unit: "node" }],
];

describe.each(trees)("in %s", (_name, index, own, shape) => {
  test.each(["reverse", "forward"])("lru and fifo have the naive tree's hits per request, free-order=%s", (order) => {
    const rules = { ...own, "free-order": order };
    const depth = (run: Run) => (order === "forward" ? endOf(run) : -endOf(run));
    for (const blocks of capacities) {
      expect(ours(index, "lru", blocks, rules)).toEqual(
        naive(
          blocks,
          shape,
          least(({ last }) => last, depth),
        ),
      );
      expect(ours(index, "fifo", blocks, rules)).toEqual(
        naive(
          blocks,
          shape,
          least(({ created }) => created, depth),
        ),
      );
    }
  });

  test("random has, over many seeds, the mean hits of uniformly drawn runs", () => {
    const blocks = capacities[2];
    let state = 1;
    const draw: Choose = (runs) => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return runs[Math.floor((state / 2 ** 32) * runs.length)];
    };
    const seeds = [1, 2, 3, 4, 5, 6, 7, 8];
    const drawn = seeds.map(() => sum(naive(blocks, shape, draw)));
    const counted = seeds.map((seed) => sum(ours(index, "random", blocks, own, seed)));
    const mean = (numbers: number[]) => sum(numbers) / numbers.length;
    const deviation = (numbers: number[]) =>
      Math.sqrt(sum(numbers.map((n) => (n - mean(numbers)) ** 2)) / (numbers.length - 1));
    // Both means are of 8 draws: five standard errors of their difference.
    const error = Math.hypot(deviation(drawn), deviation(counted)) / Math.sqrt(seeds.length);
    expect(Math.abs(mean(drawn) - mean(counted))).toBeLessThan(5 * error);
    expect(new Set(counted).size).toBeGreaterThan(4);
  });
});

test("belady with blocks as victims has the hits of a hash table: the optimum caches no block past a hole", () => {
  for (const [index, rules] of [
    ["block-trie", {}],
    ["block-trie", { victims: "any" }],
    ["radix-tree", { "victim-unit": "block" }],
  ] as const)
    expect(capacities.map((blocks) => sum(ours(index, "belady", blocks, rules))).join(" ")).toBe(goldenHits["belady"]);
});

// The counts themselves, so that no change is missed.
const figures: Record<string, Record<string, string>> = {
  "block-trie": {
    "2q": "606 2977 4186 5300 6150",
    arc: "748 3161 4304 5443 6174",
    belady: "911 4354 5507 6408 6483",
    clock: "631 2705 3922 5370 6161",
    continuum: "558 2203 3362 5139 6152",
    "cost-aware": "611 3245 4126 5380 6177",
    fifo: "558 2203 3362 5139 6152",
    filo: "513 2622 3983 5203 6010",
    gdsf: "563 2874 4076 5406 6182",
    "hits-per-token": "688 3246 4009 5401 6162",
    hyperbolic: "586 2422 3614 5381 6146",
    kvflow: "558 2203 3362 5139 6152",
    lfu: "688 3246 4009 5401 6162",
    "lfu-lifetime": "785 3452 4618 5473 6170",
    lirs: "679 3249 4484 5479 6102",
    lru: "558 2203 3362 5139 6152",
    "lru-deepest": "558 2203 3362 5139 6152",
    marconi: "558 2203 3614 5139 6152",
    mru: "502 2652 3971 5203 6011",
    priority: "558 2203 3362 5139 6152",
    "queue-lru": "558 2203 3362 5139 6152",
    random: "537 2578 3998 5442 6228",
    "random-leaf": "545 2230 3552 5229 6175",
    retention: "558 2203 3362 5139 6152",
    "s3-fifo": "661 3290 4505 5447 6142",
    "session-refs": "558 2203 3362 5139 6152",
    sieve: "672 3150 4000 5401 6162",
    slru: "651 2710 3819 5381 6146",
    "t-lru": "558 2203 3362 5139 6152",
    tinylfu: "424 3091 4477 5439 6067",
    ttl: "558 2203 3362 5139 6152",
    unbounded: "6483 6483 6483 6483 6483",
    "w-tinylfu": "553 3092 4462 5482 6168",
    "workload-aware": "577 2347 3632 5161 6163",
  },
  "radix-tree": {
    "2q": "558 2203 3362 5139 6152",
    arc: "697 3192 3982 5401 6162",
    belady: "724 4061 5172 5966 6311",
    clock: "563 2454 3716 5362 6176",
    continuum: "558 2203 3362 5139 6152",
    "cost-aware": "624 3194 4086 5365 6167",
    fifo: "558 2203 3362 5139 6152",
    filo: "513 2622 3983 5203 6010",
    gdsf: "557 2812 3851 5397 6110",
    "hits-per-token": "686 3204 4005 5401 6162",
    hyperbolic: "586 2422 3614 5381 6146",
    kvflow: "558 2203 3362 5139 6152",
    lfu: "688 3246 4009 5401 6162",
    "lfu-lifetime": "688 3246 4009 5401 6162",
    lirs: "686 3052 4028 5057 6004",
    lru: "558 2203 3362 5139 6152",
    "lru-deepest": "558 2203 3362 5139 6152",
    marconi: "558 2203 3614 5139 6152",
    mru: "502 2652 3971 5203 6011",
    priority: "558 2203 3362 5139 6152",
    "queue-lru": "558 2203 3362 5139 6152",
    random: "573 2551 3820 5337 6155",
    "random-leaf": "547 2178 3537 5324 6151",
    retention: "558 2203 3362 5139 6152",
    "s3-fifo": "647 2710 3819 5381 6146",
    "session-refs": "558 2203 3362 5139 6152",
    sieve: "597 2914 4172 5532 6228",
    slru: "651 2710 3819 5381 6146",
    "t-lru": "558 2203 3362 5139 6152",
    tinylfu: "424 3091 4477 5439 6067",
    ttl: "558 2203 3362 5139 6152",
    unbounded: "6483 6483 6483 6483 6483",
    "w-tinylfu": "583 3230 4444 5452 6157",
    "workload-aware": "577 2339 3632 5161 6163",
  },
};
describe.each(Object.keys(figures))("in a %s", (index) => {
  test.each(Object.keys(goldenHits))("%s has its golden counts", (policy) => {
    expect(capacities.map((blocks) => sum(ours(index, policy, blocks))).join(" ")).toBe(figures[index][policy]);
  });
});
