import { grown } from "../../core/grown.ts";
import type { EvictionBatch } from "./explanation.ts";
import { type Choice, none, type Removals } from "./removals.ts";

type MutableBatch = { -readonly [Field in keyof EvictionBatch]: EvictionBatch[Field] };

/**
 * The cost of evictions: the tokens that the next lookup of an evicted block missed. Consecutive evictions for one request are a
 * batch, of which the fields are recorded; a batch with a cost is an `EvictionBatch`.
 */
export class EvictionCosts {
  rightBlocks = 0;
  missedBlocks = 0;
  avoidableTokens = 0;
  readonly #replica: number;
  readonly #removals: Removals;
  /** By number of the batch. */
  readonly #costly = new Map<number, MutableBatch>();
  #batches = 0;
  /** By number of the batch, also of those without a cost: the fields of `EvictionBatch`. */
  #request = new Int32Array(1 << 8);
  #at = new Float64Array(1 << 8);
  #blocks = new Uint32Array(1 << 8);
  #right = new Uint32Array(1 << 8);
  #lastEvent = -2;

  constructor(replica: number, removals: Removals) {
    this.#replica = replica;
    this.#removals = removals;
  }

  /** Returns the number of the batch. `at`: as in `EvictionBatch`; `event`: index of the eviction in the log. */
  evicted(event: number, request: number, at: number, choice: Choice, isMeasured: boolean): number {
    if (event !== this.#lastEvent + 1 || this.#request[this.#batches - 1] !== request) this.#begin(request, at);
    this.#lastEvent = event;
    const batch = this.#batches - 1;
    this.#blocks[batch]++;
    if (choice.isRight) this.#right[batch]++;
    if (choice.isRight && isMeasured) this.rightBlocks++;
    return batch;
  }

  #begin(request: number, at: number): void {
    const batch = this.#batches++;
    if (batch === this.#at.length) {
      this.#request = grown(this.#request, 2 * batch);
      this.#at = grown(this.#at, 2 * batch);
      this.#blocks = grown(this.#blocks, 2 * batch);
      this.#right = grown(this.#right, 2 * batch);
    }
    this.#request[batch] = request;
    this.#at[batch] = at;
  }

  /** The next lookup of an evicted content has missed. */
  missed(content: number, tokens: number, request: number): void {
    const { batch: batches, isRight, rightUsedBy, rightNextUsedBy } = this.#removals;
    const batch = batches[content];
    let found = this.#costly.get(batch);
    if (found === undefined) {
      found = {
        replica: this.#replica,
        request: this.#request[batch] < 0 ? null : this.#request[batch],
        at: this.#at[batch],
        blocks: this.#blocks[batch],
        rightBlocks: this.#right[batch],
        missedBlocks: 0,
        missedTokens: 0,
        missedBy: request,
        instead: alternative(isRight[content] === 1, rightUsedBy[content], rightNextUsedBy[content]),
      };
      this.#costly.set(batch, found);
    }
    found.missedBlocks++;
    found.missedTokens += tokens;
    this.missedBlocks++;
    if (isRight[content] === 0 && rightNextUsedBy[content] === none) this.avoidableTokens += tokens;
  }

  /** The batches with a cost. */
  get batches(): Iterable<EvictionBatch> {
    return this.#costly.values();
  }
}

export const alternative = (isRight: boolean, usedBy: number, nextUsedBy: number): EvictionBatch["instead"] =>
  isRight ? null : { lastUsedBy: usedBy < 0 ? null : usedBy, nextUsedBy: nextUsedBy < 0 ? null : nextUsedBy };
