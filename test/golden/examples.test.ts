import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";
import { beforeAll, describe, expect, test } from "vitest";
import type { EvictionPlugin } from "../../core/plugins/index.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { replayed } from "../support/replays.ts";
import { goldenCapacities, goldenTrace } from "./golden-trace.ts";

// The hits of the examples, compared with naive caches that are arrays of blocks and are searched linearly.

let trace: Trace;
let prompts: number[][];
let capacities: number[];

beforeAll(async () => {
  trace = await goldenTrace();
  prompts = Array.from({ length: trace.requestCount }, (_, r) => [
    ...trace.keys.subarray(trace.keyStart[r], trace.keyStart[r + 1]),
  ]);
  capacities = goldenCapacities(trace);
});

/** Loads an example as a plug-in; bundled, so that `kvlab` resolves to this checkout. */
async function example(name: string): Promise<EvictionPlugin> {
  const path = (file: string) => fileURLToPath(new URL(`../../${file}`, import.meta.url));
  const { outputFiles } = await esbuild.build({
    entryPoints: [path(`examples/${name}.ts`)],
    bundle: true,
    write: false,
    format: "esm",
    platform: "node",
    alias: { kvlab: path("core/plugins/by-score.ts") },
  });
  const code = Buffer.from(outputFiles[0].contents).toString("base64");
  return (await import(`data:text/javascript;base64,${code}`)).default;
}

/** A block of the naive cache, with the state of all naive policies. */
interface Stored {
  readonly key: number;
  /** Index of the block in its prompt. */
  readonly place: number;
  readonly madeAt: number;
  usedAt: number;
  hits: number;
  worth: number;
  isKept: boolean;
}

/** A naive eviction policy. */
interface Naive {
  /** Scores of the evictable blocks; the lexicographically smallest one is evicted. */
  scores(idle: readonly Stored[]): (block: Stored) => readonly number[];
  hit?(block: Stored): void;
  made?(block: Stored): void;
  gone?(block: Stored): void;
}

function naiveHits(capacity: number, { scores, hit, made, gone }: Naive): number[] {
  let cache: Stored[] = [];
  return prompts.map((prompt, now) => {
    if (prompt.length > capacity) return 0;
    const inCache = new Map(cache.map((block) => [block.key, block]));
    const firstMissing = prompt.findIndex((key) => !inCache.has(key));
    const hits = firstMissing < 0 ? prompt.length : firstMissing;
    for (const key of prompt.slice(0, hits)) {
      const block = inCache.get(key)!;
      block.hits++;
      hit?.(block);
    }
    const missing = prompt.flatMap((key, place) => (inCache.has(key) ? [] : [{ key, place }]));
    while (cache.length + missing.length > capacity) {
      const idle = cache.filter(({ key }) => !prompt.includes(key));
      const score = scores(idle);
      const scored = idle.map((block) => ({ block, score: score(block) }));
      const worst = scored.reduce((a, b) => (compare(b.score, a.score) < 0 ? b : a));
      cache = cache.filter((block) => block !== worst.block);
      gone?.(worst.block);
    }
    for (const { key, place } of missing) {
      const block = { key, place, madeAt: now, usedAt: now, hits: 0, worth: 0, isKept: false };
      made?.(block);
      cache.push(block);
    }
    for (const block of cache) if (prompt.includes(block.key)) block.usedAt = now;
    return hits;
  });
}

function compare(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((score, i) => score !== b[i]);
  return at < 0 ? 0 : a[at] - b[at];
}

/** LRU; of one request's blocks the deepest is evicted first. */
const byUse = ({ usedAt, place }: Stored) => [usedAt, -place];

const usedAgain = (): Naive => ({ scores: () => (block) => [block.hits > 0 ? 1 : 0, ...byUse(block)] });

function aging(): Naive {
  let age = 0;
  const renew = (block: Stored) => {
    block.worth = block.hits + 1 + age;
  };
  return {
    scores: () => (block) => [block.worth, ...byUse(block)],
    hit: renew,
    made: renew,
    gone: (block) => {
      age = block.worth;
    },
  };
}

function ghostList(capacity: number): Naive {
  /** All content that was evicted from probation, in this order. */
  const ghosts: number[] = [];
  return {
    scores(idle) {
      const waiting = idle.filter(({ isKept }) => !isKept).length;
      const fromProbation = waiting > Math.floor(capacity / 4) || waiting === idle.length;
      return (block) => {
        if (block.isKept === fromProbation) return [1];
        return [0, ...(block.isKept ? byUse(block) : [block.madeAt, -block.place])];
      };
    },
    made(block) {
      block.isKept = ghosts.slice(-Math.floor(capacity / 2)).includes(block.key);
    },
    gone(block) {
      if (!block.isKept) ghosts.push(block.key);
    },
  };
}

/** `ring` begins at the hand; `worth` is the reference bit. */
function clock(): Naive {
  let ring: Stored[] = [];
  let evictable: readonly Stored[] = [];
  return {
    scores(idle) {
      evictable = ring.filter((block) => idle.includes(block));
      const victim = evictable.find(({ worth }) => worth === 0) ?? evictable[0];
      return (block) => [block === victim ? 0 : 1];
    },
    hit: (block) => void (block.worth = 1),
    made: (block) => void ring.push(block),
    gone(block) {
      const at = ring.indexOf(block);
      const passed = block.worth === 1 ? ring : ring.slice(0, at);
      for (const other of passed) if (evictable.includes(other)) other.worth = 0;
      ring = [...ring.slice(at + 1), ...ring.slice(0, at)];
    },
  };
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, n) => total + n, 0);

describe.each([
  ["used-again", usedAgain, "697 3192 3982 5401 6162"],
  ["aging", aging, "584 2795 3841 5414 6181"],
  ["ghost-list", ghostList, "522 2889 4016 5048 5592"],
  ["second-chance", clock, "410 2240 3464 5295 6134"],
] as const)("%s", (name, naive, golden) => {
  test("hits the same blocks as a naive cache, request by request, and has its golden counts", async () => {
    const eviction = await example(name);
    const hits = capacities.map((blocks) => [...replayed(trace, { eviction, blocks }).requests.hitBlocks]);
    for (const [i, blocks] of capacities.entries())
      expect(hits[i], `${blocks} blocks`).toEqual(naiveHits(blocks, naive(blocks)));
    expect(hits.map(sum).join(" ")).toBe(golden);
  });
});

test("docs/policies.md shows examples/second-chance.ts as it is", () => {
  expect(readFileSync("docs/policies.md", "utf8")).toContain(readFileSync("examples/second-chance.ts", "utf8"));
});

test.each(["used-again", "library"])("README.md shows examples/%s.ts as it is", (name) => {
  expect(readFileSync("README.md", "utf8")).toContain(readFileSync(`examples/${name}.ts`, "utf8"));
});
