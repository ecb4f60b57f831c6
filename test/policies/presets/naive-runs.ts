import { knownOf, type Naive, refused, type Served } from "./naive.ts";
import type { Talk } from "./talk.ts";

/** A run of tokens in a tree. */
interface Run {
  tokens: number[];
  below: Run[];
  above: Run | undefined;
  last: number;
}

/**
 * mini-sglang (1.8) and LightLLM (1.10): a tree of token runs, which are split where prompts diverge. The least recently used
 * leaf is evicted as a whole. All but a prompt's last token may be hits.
 *
 *   mini-sglang  new tokens become a run when the prompt is computed, and the output another one when the request finishes
 *   lightllm     prompt and output become one run when the request finishes
 */
export class NaiveRadix implements Naive {
  evicted = 0;
  readonly #kind: "mini-sglang" | "lightllm";
  readonly #blocks: number;
  readonly #roots = new Map<number, Run>();
  #now = 0;

  constructor(kind: "mini-sglang" | "lightllm", blocks: number) {
    this.#kind = kind;
    this.#blocks = blocks;
  }

  serve(talk: Talk): Served {
    const { prompt, output, space } = talk;
    this.#now++;
    if (!this.#roots.has(space)) this.#roots.set(space, { tokens: [], below: [], above: undefined, last: 0 });
    const root = this.#roots.get(space)!;
    const findable = prompt.slice(0, -1);
    const hits = common(root, findable);
    if (prompt.length > this.#blocks) return refused;
    const matched = walk(root, findable.slice(0, hits));
    this.#evictFor(prompt.length - hits, matched);
    const whole = knownOf(talk);
    const fits = whole <= this.#blocks;
    if (fits) this.#evictFor(whole - hits, matched);
    if (this.#kind !== "lightllm") this.#insert(root, prompt);
    this.#insert(root, fits ? [...prompt, ...output.slice(0, -1)] : prompt);
    return { hitTokens: hits, hitBlocks: hits, refused: false };
  }

  /** Inserts the tokens that are not in the tree as one run. */
  #insert(root: Run, tokens: readonly number[]): void {
    const path = walk(root, tokens);
    const rest = tokens.slice(path.reduce((sum, run) => sum + run.tokens.length, 0));
    const end = path.at(-1)!;
    if (rest.length > 0) end.below.push({ tokens: rest, below: [], above: end, last: this.#now });
    for (const run of path) run.last = this.#now;
  }

  get #runs(): Run[] {
    const all: Run[] = [];
    const visit = (run: Run) => {
      if (run.above !== undefined) all.push(run);
      run.below.forEach(visit);
    };
    this.#roots.forEach(visit);
    return all;
  }

  /** Evicts until `needed` slots are free. */
  #evictFor(needed: number, matched: readonly Run[]): void {
    for (;;) {
      const runs = this.#runs;
      const missing = needed - (this.#blocks - runs.reduce((sum, run) => sum + run.tokens.length, 0));
      if (missing <= 0) return;
      const leaves = runs.filter((run) => run.below.length === 0 && !matched.includes(run));
      const [victim] = leaves.sort((a, b) => a.last - b.last);
      this.evicted += victim.tokens.length;
      victim.above!.below = victim.above!.below.filter((run) => run !== victim);
    }
  }
}

/** Number of leading tokens that the tree contains. */
function common(root: Run, tokens: readonly number[]): number {
  let run: Run | undefined = root;
  let at = 0;
  while ((run = run.below.find((below) => below.tokens[0] === tokens[at]))) {
    for (const token of run.tokens) {
      if (token !== tokens[at]) return at;
      at++;
    }
  }
  return at;
}

/** The runs along the tokens from the root; the last one is split where they diverge. */
function walk(root: Run, tokens: readonly number[]): Run[] {
  const path = [root];
  let left = common(root, tokens);
  let at = 0;
  while (left > 0) {
    const above = path.at(-1)!;
    const run = above.below.find((below) => below.tokens[0] === tokens[at])!;
    const { length } = run.tokens;
    if (length > left) {
      const upper = { tokens: run.tokens.splice(0, left), below: [run], above, last: run.last };
      above.below = above.below.map((below) => (below === run ? upper : below));
      run.above = upper;
      path.push(upper);
      return path;
    }
    path.push(run);
    at += length;
    left -= length;
  }
  return path;
}
