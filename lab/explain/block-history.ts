import { grown } from "../../core/grown.ts";
import { LoggedBlockStates, LoggedState } from "../../core/log/block-lives.ts";
import { BlockTables } from "../../core/log/block-tables.ts";
import { ignore, type LogEvent, type WithoutBlock } from "../../core/log/events.ts";

const none = -1;

/**
 * The cached blocks while a log is read: states, contents and last uses. `now` is the unit of ages: a time, or the number of the
 * request that is being served.
 */
export class BlockHistory extends LoggedBlockStates {
  /** By cached block. */
  content = new Int32Array(0);
  /** When it was published, and last used: referenced or released. */
  publishedAt = new Float64Array(0);
  usedAt = new Float64Array(0);
  /** The request that last referenced it; below 0: an operator's pin. */
  usedBy = new Int32Array(0);
  hits = new Int32Array(0);
  /** Other blocks with the same content, as a list from `#blockOf` on. */
  #nextSame = new Int32Array(0);
  /** By content: one of the blocks that have it, their number, its parent, and the number of its cached children. */
  #blockOf = new Int32Array(0);
  #copies = new Int32Array(0);
  #parent = new Int32Array(0);
  #children = new Int32Array(0);
  readonly #tables = new BlockTables();
  /** Called with each block whose evictability may have changed. */
  changed: (block: number) => void = () => {};

  isIdle(block: number): boolean {
    return this.life[block] === LoggedState.idle;
  }

  isReferenced(block: number): boolean {
    return this.life[block] === LoggedState.referenced;
  }

  /** Number of cached blocks with this content. */
  copiesOf(content: number): number {
    return content < this.#copies.length ? this.#copies[content] : 0;
  }

  /** Whether no cached content extends this one. */
  isLeaf(content: number): boolean {
    return this.#children[content] === 0;
  }

  /** Calls `changed` with each block that has this content. */
  contentChanged(content: number): void {
    if (content >= this.#blockOf.length) return;
    for (let block = this.#blockOf[content]; block !== none; block = this.#nextSame[block]) this.changed(block);
  }

  /** Applies the next event at `now`; the fields of an evicted or dropped block are those before it. */
  applyAt(event: LogEvent, now: number): void {
    this.grow(event.block + 1);
    if (event.name === "evict" || event.name === "drop") this.#remove(event.block);
    super.apply(event);
    switch (event.name) {
      case "publish":
        this.#publish(event.block, event.content, this.#contentBefore(event.request, event.place), now);
        this.#use(event.block, event.request, now);
        break;
      case "hit":
        this.hits[event.block]++;
        this.#use(event.block, event.request, now);
        break;
      case "adopt":
      case "pin":
        this.#use(event.block, event.request, now);
        break;
      case "duplicate":
        this.#use(event.keptBlock, event.request, now);
        break;
      case "release":
        this.usedAt[event.block] = now;
        this.changed(event.block);
        break;
      case "evict":
      case "drop":
        this.changed(event.block);
        break;
      default:
        ignore<WithoutBlock | "allocate" | "copy">(event);
    }
    this.#tables.apply(event);
  }

  #use(block: number, request: number, now: number): void {
    this.usedAt[block] = now;
    this.usedBy[block] = request;
    this.changed(block);
  }

  /** The content of the block before a place of the request's block table. */
  #contentBefore(request: number, place: number): number {
    const block = this.#tables.of(request)?.[place - 1];
    return block !== undefined && this.isCached(block) ? this.content[block] : none;
  }

  #publish(block: number, content: number, parent: number, now: number): void {
    this.#growContents(content + 1);
    this.content[block] = content;
    this.publishedAt[block] = now;
    this.hits[block] = 0;
    this.#nextSame[block] = this.#blockOf[content];
    this.#blockOf[content] = block;
    this.#parent[content] = parent;
    if (this.#copies[content]++ === 0 && parent !== none) {
      this.#children[parent]++;
      this.contentChanged(parent);
    } else this.contentChanged(content);
  }

  #remove(block: number): void {
    if (!this.isCached(block)) return;
    const content = this.content[block];
    if (this.#blockOf[content] === block) this.#blockOf[content] = this.#nextSame[block];
    else {
      let before = this.#blockOf[content];
      while (this.#nextSame[before] !== block) before = this.#nextSame[before];
      this.#nextSame[before] = this.#nextSame[block];
    }
    const parent = this.#parent[content];
    if (--this.#copies[content] === 0 && parent !== none) {
      this.#children[parent]--;
      this.contentChanged(parent);
    } else this.contentChanged(content);
  }

  #growContents(count: number): void {
    const { length } = this.#copies;
    if (count <= length) return;
    const larger = Math.max(count, 2 * length, 1 << 10);
    this.#blockOf = grown(this.#blockOf, larger).fill(none, length);
    this.#copies = grown(this.#copies, larger);
    this.#parent = grown(this.#parent, larger).fill(none, length);
    this.#children = grown(this.#children, larger);
  }

  protected override resize(length: number): void {
    super.resize(length);
    this.content = grown(this.content, length);
    this.publishedAt = grown(this.publishedAt, length);
    this.usedAt = grown(this.usedAt, length);
    this.usedBy = grown(this.usedBy, length);
    this.hits = grown(this.hits, length);
    this.#nextSame = grown(this.#nextSame, length);
  }
}
