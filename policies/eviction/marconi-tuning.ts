import { ScoreHeap } from "./score-heap.ts";

/** Weights that are compared. */
const weights = [0, 0.25, 0.5, 1, 2];

/** The prompts of a window of requests, and which weight of the FLOPs per byte would have had the most hits in it. */
export class WeightTuning {
  /** By request: content ids of its prompt, which `best` numbers, and its length. */
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
    const entryCount = this.#number();
    let best = 0;
    let mostHits = -1;
    for (const weight of weights) {
      const hits = this.#hitsWith(weight, entryCount);
      if (hits <= mostHits) continue;
      mostHits = hits;
      best = weight;
    }
    return best;
  }

  /** Replaces the content ids of the prompts by numbers from 0, and returns how many there are. */
  #number(): number {
    let largest = 0;
    for (const { keys } of this.#prompts) for (const key of keys) if (key > largest) largest = key;
    const numbers = new Uint32Array(largest + 1);
    let count = 0;
    for (const { keys } of this.#prompts) {
      for (let place = 0; place < keys.length; place++) {
        const key = keys[place];
        if (numbers[key] === 0) numbers[key] = ++count;
        keys[place] = numbers[key] - 1;
      }
    }
    return count;
  }

  /** Hits of a cache that is empty at the beginning, with one request at a time. */
  #hitsWith(weight: number, entryCount: number): number {
    const heap = new ScoreHeap(entryCount);
    const isCached = new Uint8Array(entryCount);
    const longest = new Uint32Array(entryCount);
    let cached = 0;
    let hits = 0;
    let releases = 0;
    this.#prompts.forEach(({ keys, inputTokens }, request) => {
      if (keys.length > this.#capacityBlocks) return;
      let isPrefix = true;
      for (let place = 0; place < keys.length; place++) {
        if (isCached[keys[place]] === 1) {
          heap.remove(keys[place]);
          if (isPrefix) hits++;
        } else {
          isPrefix = false;
          cached++;
        }
      }
      for (; cached > this.#capacityBlocks; cached--) {
        const victim = heap.first()!;
        heap.remove(victim);
        isCached[victim] = 0;
      }
      for (let place = keys.length - 1; place >= 0; place--) {
        const entry = keys[place];
        longest[entry] = Math.max(inputTokens, isCached[entry] === 1 ? longest[entry] : 0);
        isCached[entry] = 1;
        heap.add(entry, request + weight * this.#bonus * longest[entry], releases++);
      }
    });
    return hits;
  }
}
