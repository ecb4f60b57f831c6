import { knownOf, type Naive, refused, type Served } from "./naive.ts";
import type { Talk } from "./talk.ts";

/** A run of tokens in a tree. */
interface Run {
  /** TGI's number of the node. */
  readonly id: number;
  tokens: number[];
  below: Map<number, Run>;
  above: Run | undefined;
  last: number;
  /** Requests that reference the run or one below it (SGLang), or the run itself (TGI). */
  users: number;
}

const runOf = (id: number, tokens: number[], above: Run | undefined, last: number): Run => ({
  id,
  tokens,
  below: new Map(),
  above,
  last,
  users: 0,
});

/** Number of leading tokens of the run that `tokens` has from `at` on. */
function common(run: Run, tokens: readonly number[], at: number): number {
  let length = 0;
  while (length < run.tokens.length && run.tokens[length] === tokens[at + length]) length++;
  return length;
}

/** The run keeps its end; a new run above it gets the first `length` tokens. */
function split(run: Run, length: number, id: number, last: number): Run {
  const upper = runOf(id, run.tokens.slice(0, length), run.above, last);
  upper.users = run.users;
  run.above!.below.set(run.tokens[0], upper);
  run.tokens = run.tokens.slice(length);
  upper.below.set(run.tokens[0], run);
  run.above = upper;
  return upper;
}

/** All runs of some trees, without the roots. */
function runsOf(roots: Iterable<Run>): Run[] {
  const all: Run[] = [];
  const visit = (run: Run) => {
    if (run.above !== undefined) all.push(run);
    run.below.forEach(visit);
  };
  for (const root of roots) visit(root);
  return all;
}

/** The trees of all tenants, and the free slots. */
abstract class NaiveTrees implements Naive {
  evicted = 0;
  protected readonly blocks: number;
  protected free: number;
  protected now = 0;
  readonly #roots = new Map<number, Run>();

  constructor(blocks: number) {
    this.blocks = blocks;
    this.free = blocks;
  }

  abstract serve(talk: Talk): Served;

  protected rootOf({ space }: Talk): Run {
    const root = this.#roots.get(space) ?? runOf(0, [], undefined, 0);
    this.#roots.set(space, root);
    return root;
  }

  protected get leaves(): Run[] {
    return runsOf(this.#roots.values()).filter((run) => run.below.size === 0 && run.users === 0);
  }

  protected remove(run: Run): void {
    run.above!.below.delete(run.tokens[0]);
    this.evicted += run.tokens.length;
    this.free += run.tokens.length;
  }
}

/**
 * SGLang (1.8; Corrections 8 and 9): a walk renews the runs that it enters and splits the last one. If too few slots are free
 * for a prompt, runs with as many slots are evicted; output tokens get their slots one by one.
 *
 *   sglang       renews the end of a run that is split, too
 *   sglang@2501  does not; an insertion does not renew the run that it ends with
 */
export class NaiveSglang extends NaiveTrees {
  readonly #renewsEnds: boolean;

  constructor(kind: "sglang" | "sglang@2501", blocks: number) {
    super(blocks);
    this.#renewsEnds = kind === "sglang";
  }

  serve(talk: Talk): Served {
    const { prompt, output } = talk;
    if (prompt.length > this.blocks) return refused;
    const root = this.rootOf(talk);
    const { end, length: hits } = this.#walk(root, prompt.slice(0, -1));
    this.#use(end, 1);
    this.#allocate(prompt.length - hits);
    const isLonger = output.length > 1;
    const stored = isLonger ? this.#insert(root, prompt, hits) : end;
    if (isLonger) this.#walk(root, prompt);
    this.#use(stored, 1);
    this.#use(end, -1);
    const fits = knownOf(talk) <= this.blocks;
    if (fits) for (let i = 1; i < output.length; i++) this.#allocate(1);
    const all = fits ? [...prompt, ...output.slice(0, -1)] : prompt;
    this.#insert(root, all, isLonger ? prompt.length : hits);
    this.#use(stored, -1);
    return { hitTokens: hits, hitBlocks: hits, refused: false };
  }

  #walk(root: Run, tokens: readonly number[], inserts = false): { end: Run; length: number } {
    const now = ++this.now;
    let end = root;
    let length = 0;
    for (let next = end.below.get(tokens[0]); next !== undefined; next = end.below.get(tokens[length])) {
      const own = common(next, tokens, length);
      length += own;
      const isWhole = own === next.tokens.length;
      if (this.#renewsEnds || (isWhole && !(inserts && length === tokens.length))) next.last = now;
      if (!isWhole) return { end: split(next, own, 0, ++this.now), length };
      end = next;
    }
    return { end, length };
  }

  /** Inserts the tokens, of which the request has its own slots from `owned` on; those of duplicates are free then. */
  #insert(root: Run, tokens: readonly number[], owned: number): Run {
    const { end, length } = this.#walk(root, tokens, true);
    this.free += Math.max(0, length - owned);
    if (length === tokens.length) return end;
    const leaf = runOf(0, tokens.slice(length), end, ++this.now);
    end.below.set(tokens[length], leaf);
    return leaf;
  }

  #use(end: Run, by: 1 | -1): void {
    for (let run: Run | undefined = end; run?.above !== undefined; run = run.above) run.users += by;
  }

  #allocate(count: number): void {
    if (this.free < count) {
      const before = this.evicted;
      while (this.evicted - before < count) {
        const [victim] = this.leaves.sort((a, b) => a.last - b.last);
        if (victim === undefined) break;
        this.remove(victim);
      }
    }
    this.free -= count;
  }
}

/**
 * TGI (1.9; Corrections 8, 10 and 11): only prompts; slots for the longest output are allocated at admission, and only as much
 * of a run's end is evicted as is missing. A prompt renews and protects the whole run in which its match ends; the run is
 * split when the prompt is inserted. Of runs that are equally old the one with the smallest number is evicted first; the
 * number of a removed run is used again. If slots are still missing, the request is refused and what was evicted is lost.
 */
export class NaiveTgi extends NaiveTrees {
  #numbers = 0;
  readonly #unused: number[] = [];

  serve(talk: Talk): Served {
    const { prompt, maxOutputTokens } = talk;
    const slots = prompt.length + maxOutputTokens - 1;
    if (slots > this.blocks) return refused;
    const root = this.rootOf(talk);
    const { end, length: found } = this.#find(root, prompt);
    end.users++;
    this.#evict(slots - found - this.free);
    end.users--;
    if (this.free < slots - found) return refused;
    this.free -= slots - found;
    if (found < prompt.length) this.#insert(root, prompt);
    this.free += slots - prompt.length;
    const isAll = found === prompt.length;
    return { hitTokens: isAll ? found - 1 : found, hitBlocks: found, refused: false };
  }

  #find(root: Run, tokens: readonly number[]): { end: Run; length: number } {
    this.now++;
    let end = root;
    let length = 0;
    for (let next = end.below.get(tokens[0]); next !== undefined; next = end.below.get(tokens[length])) {
      next.last = this.now;
      const own = common(next, tokens, length);
      length += own;
      end = next;
      if (own < next.tokens.length) break;
    }
    return { end, length };
  }

  #insert(root: Run, tokens: readonly number[]): void {
    const { end, length } = this.#find(root, tokens);
    const endOf = (run: Run): number => (run.above === undefined ? 0 : endOf(run.above) + run.tokens.length);
    const beyond = endOf(end) - length;
    const above = beyond === 0 ? end : split(end, end.tokens.length - beyond, this.#number(), this.now);
    above.below.set(tokens[length], runOf(this.#number(), tokens.slice(length), above, this.now));
  }

  #number(): number {
    return this.#unused.pop() ?? ++this.#numbers;
  }

  #evict(missing: number): void {
    for (let left = missing; left > 0; ) {
      const [victim] = this.leaves.sort((a, b) => a.last - b.last || a.id - b.id);
      if (victim === undefined) return;
      const count = Math.min(left, victim.tokens.length);
      left -= count;
      if (count === victim.tokens.length) {
        this.remove(victim);
        this.#unused.push(victim.id);
      } else {
        victim.tokens.length -= count;
        this.evicted += count;
        this.free += count;
      }
    }
  }
}
