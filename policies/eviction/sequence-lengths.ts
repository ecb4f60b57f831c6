import { grown } from "../../core/grown.ts";
import type { EntryColumns, EntryId, RequestView } from "../../core/plugins/index.ts";

/**
 * By entry: length of the longest sequence that has used it since its insertion, in tokens. A sequence is as long as its prompt, or its
 * deepest entry if output tokens are cached. The column `depth` must be declared.
 */
export class SequenceLengths {
  readonly #depth: Uint32Array;
  /** By entry: the last request that used it, and the longest sequence of the others. */
  readonly #user: Uint32Array;
  readonly #longest: Uint32Array;
  /** By request: length of its sequence so far. */
  #lengthOf = new Uint32Array(1 << 10);

  constructor({ key, depth }: EntryColumns) {
    this.#depth = depth;
    this.#user = new Uint32Array(key.length);
    this.#longest = new Uint32Array(key.length);
  }

  begin({ id, inputTokens }: RequestView): void {
    if (id >= this.#lengthOf.length) this.#lengthOf = grown(this.#lengthOf, 2 * id);
    this.#lengthOf[id] = Math.max(this.#lengthOf[id], inputTokens);
  }

  published(entry: EntryId, { id }: RequestView): void {
    this.#user[entry] = id;
    this.#longest[entry] = 0;
    this.#lengthOf[id] = Math.max(this.#lengthOf[id], this.#depth[entry]);
  }

  hit(entry: EntryId, { id }: RequestView): void {
    this.#longest[entry] = this.of(entry);
    this.#user[entry] = id;
  }

  split(lower: EntryId, upper: EntryId): void {
    this.#user[upper] = this.#user[lower];
    this.#longest[upper] = this.#longest[lower];
  }

  /** Length of the longest sequence that has used the entry. */
  of(entry: EntryId): number {
    return Math.max(this.#longest[entry], this.#lengthOf[this.#user[entry]]);
  }
}
