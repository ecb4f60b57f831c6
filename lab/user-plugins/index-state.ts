/** Stands for the content of a block that is not in the index. */
export const noContent = -1;

/** The content that each block was published with, and the entries that the index has reported as evictable. */
export class IndexState {
  evictedBlocks = 0;
  #contents: Float64Array;
  #evictable: Uint8Array;

  constructor(blockCount: number) {
    this.#contents = new Float64Array(blockCount).fill(noContent);
    this.#evictable = new Uint8Array(blockCount);
  }

  setEvictable(entry: number, isEvictable: boolean): void {
    this.#evictable[entry] = isEvictable ? 1 : 0;
  }

  isEvictable(entry: number): boolean {
    return this.#evictable[entry] === 1;
  }

  grow(blockCount: number): void {
    const contents = this.#contents;
    this.#contents = new Float64Array(blockCount).fill(noContent);
    this.#contents.set(contents);
    const evictable = this.#evictable;
    this.#evictable = new Uint8Array(blockCount);
    this.#evictable.set(evictable);
  }

  published(block: number, content: number): void {
    this.#contents[block] = content;
  }

  removed(blocks: ArrayLike<number>, from: number, to: number): void {
    for (let i = from; i < to; i++) this.#contents[blocks[i]] = noContent;
    this.evictedBlocks += to - from;
  }

  has(block: number, content: number): boolean {
    return this.#contents[block] === content;
  }

  /** Describes a block that does not have the expected content. */
  fault(block: number): string {
    const content = this.#contents[block];
    if (content === undefined) return "does not exist";
    return content === noContent ? "is not in the index" : "has other content";
  }
}
