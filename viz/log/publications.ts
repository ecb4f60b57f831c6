import { grown } from "../../core/grown.ts";

/**
 * Every time that a block was cached: what a log says of it once and for all. A publication is numbered by its place
 * among the log's `publish` events, a content by its place among the contents that were ever cached.
 */
export class Publications {
  count = 0;
  /** The event, which has its request, block, content and place. */
  event = new Int32Array(1024);
  /** The publication of the block before it in its request; −1: none, or none that was cached. */
  parent = new Int32Array(1024);
  content = new Int32Array(1024);
  /** Blocks that one request cached at one time have the same number. */
  batch = new Int32Array(1024);
  readonly #contents = new Map<number, number>();

  /** How many contents there are. */
  get contents(): number {
    return this.#contents.size;
  }

  /** `isSameBatch`: by the same request and at the same time as the one before. */
  add(event: number, parent: number, key: number, isSameBatch: boolean): void {
    const at = this.count++;
    if (at === this.event.length) {
      this.event = grown(this.event, 2 * at);
      this.parent = grown(this.parent, 2 * at);
      this.content = grown(this.content, 2 * at);
      this.batch = grown(this.batch, 2 * at);
    }
    let content = this.#contents.get(key);
    if (content === undefined) this.#contents.set(key, (content = this.#contents.size));
    this.event[at] = event;
    this.parent[at] = parent;
    this.content[at] = content;
    this.batch[at] = at === 0 ? 0 : this.batch[at - 1] + (isSameBatch ? 0 : 1);
  }
}
