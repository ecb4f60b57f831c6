import { SortedRuns } from "../../core/sorted-runs.ts";

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
    const capacity = this.#capacityBlocks;
    const bonus = weight * this.#bonus;
    const score = new Float64Array(entryCount);
    const released = new Float64Array(entryCount);
    const order = new SortedRuns(score, released);
    /** By entry: length of the longest sequence that has used it since it was cached; 0: it is not cached. */
    const longest = new Uint32Array(entryCount);
    let cached = 0;
    let hits = 0;
    let releases = 0;
    for (let request = 0; request < this.#prompts.length; request++) {
      const { keys, inputTokens } = this.#prompts[request];
      const count = keys.length;
      if (count > capacity) continue;
      let place = 0;
      while (place < count && longest[keys[place]] > 0) place++;
      hits += place;
      for (; place < count; place++) if (longest[keys[place]] === 0) cached++;
      for (const key of keys) if (order.has(key)) order.remove(key);
      for (; cached > capacity; cached--) {
        const victim = order.first!;
        order.remove(victim);
        longest[victim] = 0;
      }
      for (place = count - 1; place >= 0; place--) {
        const entry = keys[place];
        const length = Math.max(inputTokens, longest[entry]);
        longest[entry] = length;
        score[entry] = request + bonus * length;
        released[entry] = releases++;
        if (order.has(entry)) order.remove(entry);
        order.add(entry);
      }
    }
    return hits;
  }
}
