import { grown } from "../grown.ts";
import type { BlockColumns } from "../trace/content.ts";
import type { ServedReplica } from "./measured-requests.ts";
import { type MeasuredOutcomes, never } from "./outcomes.ts";

/**
 * Counts the cached prompt blocks that are copies of blocks on other replicas. A prompt's blocks can be cached only on replicas
 * that served a request with the same prefix, so matching every prompt on its own replica finds all of them.
 */
export class CachedCopies {
  readonly #replicas: readonly Pick<ServedReplica, "cache">[];
  readonly #onReplica: readonly ContentSet[];
  readonly #onAnyReplica = new ContentSet();
  #table = new Int32Array(64);
  readonly #found = { blocks: 0, absent: 0, evicted: 0 };

  constructor(replicas: readonly Pick<ServedReplica, "cache">[]) {
    this.#replicas = replicas;
    this.#onReplica = replicas.map(() => new ContentSet());
  }

  /** Matches the prompts of a batch whose requests have been served. */
  add({ keys, start, promptBlocks, distinct }: BlockColumns, { replica, refused }: MeasuredOutcomes): void {
    for (const set of [...this.#onReplica, this.#onAnyReplica]) set.expect(distinct);
    for (let row = 0; row < promptBlocks.length; row++) {
      if (replica[row] === never || refused[row] === 1) continue;
      if (promptBlocks[row] > this.#table.length) this.#table = new Int32Array(promptBlocks[row] * 2);
      const found = this.#found;
      this.#replicas[replica[row]].cache.index.match(keys, start[row], promptBlocks[row], this.#table, found);
      const onThisReplica = this.#onReplica[replica[row]];
      for (let at = start[row]; at < start[row] + found.blocks; at++)
        if (onThisReplica.add(keys[at])) this.#onAnyReplica.add(keys[at]);
    }
  }

  /** The contents that a replica has cached, one bit each. */
  contents(replica: number): Uint32Array {
    return this.#onReplica[replica].bits;
  }

  /** Adds the contents of a replica that another object has found. */
  addContents(replica: number, bits: Uint32Array): void {
    for (const set of [this.#onReplica[replica], this.#onAnyReplica]) {
      set.expect(32 * bits.length);
      for (let word = 0; word < bits.length; word++)
        for (let bit = 0; bit < 32; bit++) if ((bits[word] & (1 << bit)) !== 0) set.add(32 * word + bit);
    }
  }

  /** The share of the cached prompt blocks that are copies: all but one of each content. */
  get ratio(): number {
    const cached = this.#onReplica.reduce((sum, { count }) => sum + count, 0);
    return cached === 0 ? 0 : (cached - this.#onAnyReplica.count) / cached;
  }
}

/** A set of content ids, with one bit per content id. */
class ContentSet {
  count = 0;
  bits = new Uint32Array(1 << 10);

  /** Content ids below `distinct` may be added. */
  expect(distinct: number): void {
    const words = (distinct + 31) >>> 5;
    if (words > this.bits.length) this.bits = grown(this.bits, Math.max(words, 2 * this.bits.length));
  }

  /** Returns false if the set already has it. */
  add(key: number): boolean {
    const bit = 1 << (key & 31);
    if ((this.bits[key >>> 5] & bit) !== 0) return false;
    this.bits[key >>> 5] |= bit;
    this.count++;
    return true;
  }
}
