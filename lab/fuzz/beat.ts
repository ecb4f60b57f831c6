import { CacheReplay, type ReplayConfig } from "../../core/replica/replay.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import { type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import type { BeatOptions, Prompt } from "./random-traces.ts";

/** One of the two configurations, with blocks of one token. */
export interface Side {
  /** The user's text. */
  readonly label: string;
  config(blocks: number): ReplayConfig;
}

/** A trace on which the first side has fewer hits than the second. */
export interface BeatFinding {
  readonly prompts: readonly Prompt[];
  readonly blocks: number;
  /** Hit tokens of each request, for both sides. */
  readonly hits: readonly [readonly number[], readonly number[]];
}

export interface BeatSearchResult {
  /** Number of pairs of a trace and a cache size that were tried. */
  cases: number;
  /**
   * All traces of up to this number of requests were tried, with prompts of at most `longestPrompt` blocks and at most
   * `spareBlocks` more blocks than requests.
   */
  allUpTo: number;
  finding: BeatFinding | undefined;
  /** All smaller traces were tried before. */
  isSmallest: boolean;
}

/** Limits of the enumerated traces: blocks of a prompt, and how many more blocks than requests. */
export const longestPrompt = 3;
export const spareBlocks = 3;
/** Caches larger than this are tried at random only. */
export const mostBlocks = 4;

/** The sum over all requests. */
export const total = (hits: readonly number[]) => hits.reduce((sum, n) => sum + n, 0);

/** Serves one trace with both sides, in caches of any size. */
export class SideComparison {
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

  /** Undefined unless the first side has fewer hits. */
  findingWith(blocks: number): BeatFinding | undefined {
    const [first, second] = this.#sides.map((side, i) => {
      const replay = new CacheReplay(side.config(blocks));
      replay.feed(this.#trace, this.#columns[i]);
      return [...replay.result().requests.hitTokens];
    });
    return total(first) < total(second) ? { prompts: [...this.#prompts], blocks, hits: [first, second] } : undefined;
  }
}

/** Shared by all traces, because a new builder allocates large columns. */
const builder = new TraceBuilder(1);

/** The prompts as a trace with blocks of one token; a block's number is the token's id. */
export function traceOf(prompts: readonly Prompt[]): Trace {
  prompts.forEach((keys, row) => {
    builder.add({ arrivalNs: row * 1e6, inputTokens: keys.length, outputTokens: 1, keys, generatedKeys: [0] });
  });
  return builder.take();
}

/**
 * Every trace of `requests` requests and `blocks` blocks in total, up to renaming of blocks: each prompt extends an earlier path,
 * or a part of one, with new blocks.
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

/** Tries all small traces in the order of their size, then larger random ones, which are shrunk. */
export async function searchBeaten(sides: readonly [Side, Side], options: BeatOptions): Promise<BeatSearchResult> {
  const searched: BeatSearchResult = { cases: 0, allUpTo: 0, finding: undefined, isSmallest: false };
  const half = Math.ceil(options.cases / 2);
  for (let requests = 1; ; requests++) {
    for (let blocks = requests; blocks <= requests + spareBlocks; blocks++)
      for (const prompts of everyTrace(requests, blocks)) {
        const longest = Math.max(...prompts.map(({ length }) => length));
        // A cache that fits all blocks gives the same result as any larger one.
        const distinct = new Set(prompts.flat()).size;
        const match = new SideComparison(sides, prompts);
        for (let size = longest; size <= Math.min(mostBlocks, distinct); size++) {
          if (searched.cases === half || options.stopped()) return atRandom(sides, options, searched);
          searched.cases++;
          await options.advance();
          const finding = match.findingWith(size);
          if (finding) return { ...searched, finding, isSmallest: true };
        }
      }
    searched.allUpTo = requests;
  }
}

/** Each round searches for a trace with fewer requests than the last finding. */
async function atRandom(
  sides: readonly [Side, Side],
  options: BeatOptions,
  previous: BeatSearchResult,
): Promise<BeatSearchResult> {
  // Loaded on demand, because loading takes time.
  const { findAtRandom } = await import("./random-traces.ts");
  const searched = { ...previous };
  let mostRequests = 24;
  for (
    let round = 0;
    mostRequests > previous.allUpTo && searched.cases < options.cases && !options.stopped();
    round++
  ) {
    const before = searched.finding;
    const drawn = { ...options, cases: options.cases - searched.cases, seed: options.seed + round };
    await findAtRandom(drawn, mostRequests, (prompts, blocks) => {
      searched.cases++;
      const found = new SideComparison(sides, prompts).findingWith(blocks);
      if (found) searched.finding = shrunk(sides, found);
      return found !== undefined;
    });
    if (searched.finding === undefined || searched.finding === before) break;
    mostRequests = searched.finding.prompts.length - 1;
  }
  return searched;
}

/** Shrinks a finding: removes requests, prompt blocks and cache blocks while the first side still has fewer hits. */
function shrunk(sides: readonly [Side, Side], found: BeatFinding): BeatFinding {
  for (const { prompts, blocks } of smaller(found)) {
    const less = new SideComparison(sides, prompts).findingWith(blocks);
    if (less) return shrunk(sides, less);
  }
  return found;
}

function* smaller({ prompts, blocks }: BeatFinding): Generator<Pick<BeatFinding, "prompts" | "blocks">> {
  for (const cache of [blocks, blocks - 1]) {
    if (cache === 0) continue;
    if (prompts.length > 1)
      for (let i = 0; i < prompts.length; i++) yield { prompts: prompts.toSpliced(i, 1), blocks: cache };
    for (const [i, prompt] of prompts.entries())
      if (prompt.length > 1) yield { prompts: prompts.with(i, prompt.slice(0, -1)), blocks: cache };
    // Removes a block from all prompts that contain it.
    for (const block of new Set(prompts.flat())) {
      const without = prompts.map((prompt) => prompt.filter((other) => other !== block));
      if (without.every(({ length }) => length > 0)) yield { prompts: without, blocks: cache };
    }
  }
  if (blocks > 1) yield { prompts, blocks: blocks - 1 };
}
