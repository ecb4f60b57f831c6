import { ScoreHeap } from "./score-heap.ts";

/** Weights that are compared. */
const weights = [0, 0.25, 0.5, 1, 2];

/** The prompts of a window of requests, and which weight of the FLOPs per byte would have had the most hits in it. */
export class WeightTuning {
  /** By request: content ids and length of its prompt. */
  readonly #prompts: { readonly keys: Uint32Array; readonly inputTokens: number }[] = [];
  readonly #capacityBlocks: number;
  /** Bonus of an entry in requests for each token of its longest sequence, at weight 1. */
  readonly #bonus: number;

  constructor(capacityBlocks: number, bonus: number) {
    this.#capacityBlocks = capacityBlocks;
    this.#bonus = bonus;
  }

  /** `keys`: content ids of the prompt, which are copied. */
  record(keys: Uint32Array, inputTokens: number): void {
    this.#prompts.push({ keys: keys.slice(), inputTokens });
  }

  /** The weight with the most hit blocks, of equals the smallest. */
  best(): number {
    const entries = this.#numbered();
    const entryCount = entries.reduce((most, prompt) => prompt.reduce((a, b) => Math.max(a, b + 1), most), 0);
    let best = 0;
    let mostHits = -1;
    for (const weight of weights) {
      const hits = this.#hitsWith(weight, entries, entryCount);
      if (hits <= mostHits) continue;
      mostHits = hits;
      best = weight;
    }
    return best;
  }

  /** The prompts with contents numbered from 0. */
  #numbered(): Int32Array[] {
    const numbers = new Map<number, number>();
    return this.#prompts.map(({ keys }) =>
      Int32Array.from(keys, (key) => {
        const known = numbers.get(key) ?? numbers.size;
        numbers.set(key, known);
        return known;
      }),
    );
  }

  /** Hits of a cache that is empty at the beginning, with one request at a time. */
  #hitsWith(weight: number, entries: readonly Int32Array[], entryCount: number): number {
    const heap = new ScoreHeap(entryCount);
    const isCached = new Uint8Array(entryCount);
    const longest = new Uint32Array(entryCount);
    let cached = 0;
    let hits = 0;
    let releases = 0;
    entries.forEach((prompt, request) => {
      if (prompt.length > this.#capacityBlocks) return;
      let missing = 0;
      for (const entry of prompt) {
        if (isCached[entry] === 1) heap.block(entry);
        else missing++;
      }
      const firstMiss = prompt.findIndex((entry) => isCached[entry] === 0);
      hits += firstMiss < 0 ? prompt.length : firstMiss;
      for (cached += missing; cached > this.#capacityBlocks; cached--) {
        const victim = heap.first()!;
        heap.remove(victim);
        isCached[victim] = 0;
      }
      const { inputTokens } = this.#prompts[request];
      for (const entry of prompt.reverse()) {
        longest[entry] = Math.max(inputTokens, isCached[entry] === 1 ? longest[entry] : 0);
        isCached[entry] = 1;
        heap.add(entry, request + weight * this.#bonus * longest[entry], releases++);
      }
      prompt.reverse();
    });
    return hits;
  }
}
