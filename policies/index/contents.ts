import { grown } from "../../core/grown.ts";
import type { Match } from "../../core/plugins/index.ts";

/** Values in an array of blocks by content id for content that is not stored. */
export const absent = { never: -1, evicted: -2 } as const;

// A module constant, because a property of an imported object costs a load in the innermost loops.
const never = absent.never;

/** Grows an array of blocks by content id so that it has room for all ids below `distinct`. */
export function grownForKeys(blockOf: Int32Array, distinct: number): Int32Array {
  const known = blockOf.length;
  return distinct <= known ? blockOf : grown(blockOf, Math.max(distinct, 2 * known)).fill(never, known);
}

export const pageBits = 16;
const pageLength = 1 << pageBits;
export const pageMask = pageLength - 1;

/** No page: the initial value of a loop over pages. */
export const noPage: Int32Array = new Int32Array(0);

/** Stands for every page whose contents are all evicted. It is never written. */
const evictedPage: Int32Array = new Int32Array(pageLength).fill(absent.evicted);

/**
 * The blocks of contents, `never` or `evicted`, by content id: content `key` is at `pages[key >>> pageBits][key & pageMask]`. A
 * page whose contents are all evicted is replaced by one that all caches share: content ids are numbered by first use, so that
 * contents of about the same age have one page, and the memory depends on the cached contents rather than on all of them.
 */
export class BlocksByContent {
  readonly pages: Int32Array[] = [new Int32Array(64).fill(never)];
  /** Contents below this number have a place. */
  #length = 64;
  /** The page that is examined next. */
  #next = 0;

  expectKeys(distinct: number): void {
    if (distinct <= this.#length) return;
    const { pages } = this;
    const [first] = pages;
    if (first !== evictedPage) pages[0] = grownForKeys(first, Math.min(distinct, pageLength)).subarray(0, pageLength);
    this.#length = pages[0].length;
    if (distinct <= this.#length) return;
    while (pages.length * pageLength < distinct) {
      pages.push(new Int32Array(pageLength).fill(never));
      // Two for each new one: at most about half of the pages could be replaced then.
      this.#examine();
      this.#examine();
    }
    this.#length = pages.length * pageLength;
  }

  at(key: number): number {
    return this.pages[key >>> pageBits][key & pageMask];
  }

  set(key: number, block: number): void {
    this.writable(key >>> pageBits)[key & pageMask] = block;
  }

  /** A page to write to. */
  writable(page: number): Int32Array {
    const found = this.pages[page];
    return found === evictedPage ? (this.pages[page] = evictedPage.slice()) : found;
  }

  /** All stored blocks, in the order of their contents. */
  *blocks(): Iterable<number> {
    for (const page of this.pages) if (page !== evictedPage) for (const block of page) if (block >= 0) yield block;
  }

  #examine(): void {
    const { pages } = this;
    // The last page is the new one.
    if (this.#next >= pages.length - 1) this.#next = 0;
    const page = pages[this.#next];
    if (page !== evictedPage && page.length === pageLength && page.every((block) => block === absent.evicted))
      pages[this.#next] = evictedPage;
    this.#next++;
  }
}

/**
 * `PrefixIndex.match` of a tree. `before`: by stored block, the block before it in its prompt. Writes the matched blocks
 * to `table`, then `never` or `evicted` for the other contents.
 */
export function matchPath(
  pages: readonly Int32Array[],
  before: Int32Array,
  keys: Uint32Array,
  start: number,
  count: number,
  table: Int32Array,
  found: Match,
): void {
  const shift = start | 0;
  let i = 0;
  let last = -1;
  for (; i < count; i++) {
    const key = keys[shift + i];
    const block = pages[key >>> pageBits][key & pageMask];
    // With the rule `collision=trust`, a content may be stored on another path.
    if (block < 0 || before[block] !== last) break;
    table[i] = last = block;
  }
  found.blocks = i;
  found.absent = count - i;
  let evicted = 0;
  for (; i < count; i++) {
    const key = keys[shift + i];
    const mark = Math.min(never, pages[key >>> pageBits][key & pageMask]);
    table[i] = mark;
    evicted += never - mark;
  }
  found.evicted = evicted;
}
