import { CacheReplay, type ReplayConfig } from "../../core/replica/replay.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import { type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import type { BeatOptions, Prompt } from "./random-traces.ts";

/** One of two sides, for a cache of so many blocks of a token each. */
export interface Side {
  /** As it was given. */
  readonly label: string;
  config(blocks: number): ReplayConfig;
}

/** A trace on which the first side has fewer hits than the second. */
export interface Beaten {
  readonly prompts: readonly Prompt[];
  readonly blocks: number;
  /** Of each request, on either side. */
  readonly hits: readonly [readonly number[], readonly number[]];
}

export interface BeatSearched {
  /** A trace in a cache of one size, served by both sides. */
  cases: number;
  /** Every trace of so many requests, or fewer, was tried: those of at most `longestPrompt` and `spareBlocks` more blocks than requests. */
  allUpTo: number;
  finding: Beaten | undefined;
  /** No smaller one was left out. */
  isSmallest: boolean;
}

/** What is tried one after the other: prompts of at most so many blocks, and so many more blocks in all than requests. */
export const longestPrompt = 3;
export const spareBlocks = 3;
/** Caches larger than this are tried at random only. */
export const mostBlocks = 4;

/** The total of all requests. */
export const total = (hits: readonly number[]) => hits.reduce((sum, n) => sum + n, 0);

/** Serves one trace with both sides, in caches of any size. */
export class Contest {
  readonly #sides: readonly [Side, Side];
  readonly #prompts: readonly Prompt[];
  readonly #trace: Trace;
  readonly #columns: BlockColumns[];

  constructor(sides: readonly [Side, Side], prompts: readonly Prompt[]) {
    this.#sides = sides;
    this.#prompts = prompts;
    this.#trace = traceOf(prompts);
    this.#columns = sides.map((side) => CacheReplay.blockKeys(side.config(1), this.#trace));
  }

  /** Undefined unless the first has fewer hits. */
  beatenWith(blocks: number): Beaten | undefined {
    const [first, second] = this.#sides.map((side, i) => {
      const replay = new CacheReplay(side.config(blocks));
      replay.feed(this.#trace, this.#columns[i]);
      return [...replay.result().requests.hitTokens];
    });
    return total(first) < total(second) ? { prompts: [...this.#prompts], blocks, hits: [first, second] } : undefined;
  }
}

/** One for all, as its columns begin large. */
const builder = new TraceBuilder(1);

/** A block is a token, and its node the token's id. */
export function traceOf(prompts: readonly Prompt[]): Trace {
  prompts.forEach((keys, row) => {
    builder.add({ arrivalNs: row * 1e6, inputTokens: keys.length, outputTokens: 1, keys, generatedKeys: [0] });
  });
  return builder.take();
}

/**
 * Every trace of `requests` requests and `blocks` blocks in all, but for what its blocks are called: each request follows a
 * path that was there before, or a part of one, and goes on with blocks that are new.
 */
export function* everyTrace(requests: number, blocks: number): Generator<readonly Prompt[]> {
  const paths: Prompt[] = [[]];
  const prompts: Prompt[] = [];
  function* from(left: number): Generator<readonly Prompt[]> {
    const requestsLeft = requests - prompts.length;
    if (requestsLeft === 0) {
      if (left === 0) yield prompts;
      return;
    }
    const known = paths.length;
    for (let node = 0; node < known; node++) {
      const path = paths[node];
      const most = Math.min(longestPrompt, left - (requestsLeft - 1));
      for (let length = Math.max(1, path.length); length <= most; length++) {
        const prompt = [...path];
        while (prompt.length < length) {
          prompt.push(paths.length);
          paths.push([...prompt]);
        }
        prompts.push(prompt);
        yield* from(left - length);
        prompts.pop();
        paths.length = known;
      }
    }
  }
  yield* from(blocks);
}

/** All small traces in the order of their size, then larger ones at random, made smaller. */
export async function searchBeaten(sides: readonly [Side, Side], options: BeatOptions): Promise<BeatSearched> {
  const searched: BeatSearched = { cases: 0, allUpTo: 0, finding: undefined, isSmallest: false };
  const half = Math.ceil(options.cases / 2);
  for (let requests = 1; ; requests++) {
    for (let blocks = requests; blocks <= requests + spareBlocks; blocks++)
      for (const prompts of everyTrace(requests, blocks)) {
        const longest = Math.max(...prompts.map(({ length }) => length));
        // Where all fits, a larger cache makes no difference.
        const distinct = new Set(prompts.flat()).size;
        const contest = new Contest(sides, prompts);
        for (let size = longest; size <= Math.min(mostBlocks, distinct); size++) {
          if (searched.cases === half || options.stopped()) return atRandom(sides, options, searched);
          searched.cases++;
          await options.advance();
          const finding = contest.beatenWith(size);
          if (finding) return { ...searched, finding, isSmallest: true };
        }
      }
    searched.allUpTo = requests;
  }
}

/** Each round looks for one of fewer requests than the last one found. */
async function atRandom(sides: readonly [Side, Side], options: BeatOptions, so: BeatSearched): Promise<BeatSearched> {
  // Loaded only now, for it takes time.
  const { findAtRandom } = await import("./random-traces.ts");
  const searched = { ...so };
  let mostRequests = 24;
  for (let round = 0; mostRequests > so.allUpTo && searched.cases < options.cases && !options.stopped(); round++) {
    const before = searched.finding;
    const drawn = { ...options, cases: options.cases - searched.cases, seed: options.seed + round };
    await findAtRandom(drawn, mostRequests, (prompts, blocks) => {
      searched.cases++;
      const found = new Contest(sides, prompts).beatenWith(blocks);
      if (found) searched.finding = reduced(sides, found);
      return found !== undefined;
    });
    if (searched.finding === undefined || searched.finding === before) break;
    mostRequests = searched.finding.prompts.length - 1;
  }
  return searched;
}

/** Without each request, block of a prompt and block of the cache that is not needed. */
function reduced(sides: readonly [Side, Side], found: Beaten): Beaten {
  for (const { prompts, blocks } of smaller(found)) {
    const less = new Contest(sides, prompts).beatenWith(blocks);
    if (less) return reduced(sides, less);
  }
  return found;
}

function* smaller({ prompts, blocks }: Beaten): Generator<Pick<Beaten, "prompts" | "blocks">> {
  for (const cache of [blocks, blocks - 1]) {
    if (cache === 0) continue;
    if (prompts.length > 1)
      for (let i = 0; i < prompts.length; i++) yield { prompts: prompts.toSpliced(i, 1), blocks: cache };
    for (const [i, prompt] of prompts.entries())
      if (prompt.length > 1) yield { prompts: prompts.with(i, prompt.slice(0, -1)), blocks: cache };
    // A block that several prompts have, from all of them.
    for (const block of new Set(prompts.flat())) {
      const without = prompts.map((prompt) => prompt.filter((other) => other !== block));
      if (without.every(({ length }) => length > 0)) yield { prompts: without, blocks: cache };
    }
  }
  if (blocks > 1) yield { prompts, blocks: blocks - 1 };
}
