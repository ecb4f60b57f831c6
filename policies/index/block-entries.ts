import type { BlockId, EntryId, IndexContext, IndexPlugin } from "../../core/plugins/index.ts";

/** The part of an index that does not depend on how blocks are found, if every block is an entry with the number of the block. */
export abstract class BlockEntries {
  evictableBlocks = 0;
  blockCount = 0;
  protected readonly host: IndexContext["host"];
  readonly #victim = new Int32Array(1);

  constructor({ host }: IndexContext) {
    this.host = host;
  }

  /** Removes a stored block from the structure in which blocks are found, and from `blockCount`. */
  protected abstract remove(block: BlockId): void;

  get entryCount(): number {
    return this.blockCount;
  }

  matched(blocks: Int32Array, count: number): void {
    if (this.host.countsHits) for (let i = 0; i < count; i++) this.host.hit(blocks[i]);
  }

  referenced(blocks: Int32Array, count: number): void {
    this.evictableBlocks -= count;
    for (let i = 0; i < count; i++) this.host.blocked(blocks[i]);
  }

  released(blocks: Int32Array, count: number): void {
    this.evictableBlocks += count;
    this.host.released(blocks, count);
  }

  evict(entry: EntryId): void {
    this.remove(entry);
    this.evictableBlocks--;
    this.#victim[0] = entry;
    this.host.evicted(this.#victim, 1);
  }

  drop(block: BlockId): void {
    const idle = this.host.isIdle(block);
    this.remove(block);
    if (idle) this.evictableBlocks--;
    this.host.dropped(block, idle);
    this.host.blockDropped(block);
  }

  isEvictable(entry: EntryId): boolean {
    return this.host.isIdle(entry);
  }

  entryOf(block: BlockId): EntryId {
    return block;
  }

  grow(): void {}
}

/** Rules that do not depend on how blocks are found. */
export const blockEntryRules = {
  "match-limit": "any",
  "full-hit": "any",
  "drop-blocks": "any",
  publish: "any",
  "cache-generated": "any",
  "same-step": "any",
  "free-order": "any",
  "free-queue": "any",
  reserve: "any",
  collision: "any",
} as const satisfies IndexPlugin["supports"];
