import { assert } from "../../core/errors.ts";
import { grown } from "../../core/grown.ts";
import { blockEnd } from "../../core/plugins/entry-columns.ts";
import type {
  BlockId,
  EntryId,
  IndexContext,
  IndexPlugin,
  Insertion,
  Match,
  PrefixIndex,
} from "../../core/plugins/index.ts";
import { absent, matchPath, roomFor } from "./contents.ts";

const { never, evicted } = absent;

const none = -1;

/** Room for runs to begin with; most are far longer than a block. */
const firstRuns = 256;

/**
 * A radix tree: an entry is a run of blocks, as long as nobody's prefix ends or parts inside it. A request that uses
 * part of a run cuts it, so a run is held whole or not at all; only runs that nothing extends may go, from their end.
 *
 *   before   [0 1 2 3 4 5 6 7]           one run
 *   after    [0 1 2] ── [3 4 5 6 7]      `upper`, a new entry, and `lower`, which keeps its number
 *                   └── [3' 4']
 *
 * As in a block trie, a block is stored only below blocks that its request holds. Content ids stand for a block's tokens
 * and the whole path above (compared where the id was given), so one array finds any block of any run.
 */
class RadixTree implements PrefixIndex {
  readonly remembersEvicted = true;
  evictableBlocks = 0;
  blockCount = 0;
  entryCount = 0;
  readonly #host: IndexContext["host"];
  readonly #blockTokens: number;
  readonly #unit: string;
  /** Block that holds a content, or `never` or `evicted`. */
  #blockOf: Int32Array = new Int32Array(64).fill(never);
  // By block: its content, its run, and the block before it in the prompt.
  #keyOf: Uint32Array;
  #runOf: Int32Array;
  #before: Int32Array;
  // By run: its last block, its length in blocks (0: there is no such run), how many of these are held, and where it
  // begins and ends, in tokens of the prompt.
  #last: Int32Array = new Int32Array(firstRuns);
  #length: Int32Array = new Int32Array(firstRuns);
  #heldBlocks: Int32Array = new Int32Array(firstRuns);
  #start: Uint32Array = new Uint32Array(firstRuns);
  #end: Uint32Array = new Uint32Array(firstRuns);
  // By run: the run above, the first one below, whose siblings follow. Those at the root are not listed.
  #above: Int32Array = new Int32Array(firstRuns);
  #below: Int32Array = new Int32Array(firstRuns);
  #next: Int32Array = new Int32Array(firstRuns);
  #previous: Int32Array = new Int32Array(firstRuns);
  /** Numbers of runs that are gone, and the first that was never used. */
  #free: Int32Array = new Int32Array(firstRuns);
  #freeCount = 0;
  #victims = new Int32Array(firstRuns);
  #unused = 0;

  constructor({ host, rules, blockTokens }: IndexContext, blockCount: number) {
    this.#host = host;
    this.#blockTokens = blockTokens;
    this.#unit = rules["victim-unit"];
    this.#keyOf = new Uint32Array(blockCount);
    this.#runOf = new Int32Array(blockCount);
    this.#before = new Int32Array(blockCount);
  }

  expectKeys(distinct: number): void {
    this.#blockOf = roomFor(this.#blockOf, distinct);
  }

  match(keys: Uint32Array, start: number, count: number, table: Int32Array, found: Match): void {
    matchPath(this.#blockOf, this.#before, keys, start, count, table, found);
  }

  isLeaf(block: BlockId): boolean {
    const run = this.#runOf[block];
    return this.#last[run] === block && this.#below[run] === none;
  }

  cut(blocks: Int32Array, count: number): void {
    this.#cutBehind(blocks[count - 1]);
  }

  matched(blocks: Int32Array, count: number): void {
    if (!this.#host.countsHits) return;
    let last = none;
    for (let i = 0; i < count; i++) {
      const run = this.#runOf[blocks[i]];
      if (run !== last) this.#host.hit(run);
      last = run;
    }
  }

  referenced(blocks: Int32Array, count: number): void {
    this.evictableBlocks -= count;
    for (let i = 0; i < count; ) {
      const run = this.#runOf[blocks[i]];
      // All of a run that nobody held, or block by block what takes the place of duplicates.
      const length = Math.min(count - i, this.#length[run] - this.#heldBlocks[run]);
      if (this.isEvictable(run)) this.#host.blocked(run);
      this.#heldBlocks[run] += length;
      i += length;
    }
  }

  released(blocks: Int32Array, count: number): void {
    this.evictableBlocks += count;
    for (let i = 0; i < count; ) {
      const run = this.#runOf[blocks[i]];
      i += this.#heldBlocks[run];
      assert(i <= count && this.#runOf[blocks[i - 1]] === run, "a run was held in part");
      this.#heldBlocks[run] = 0;
      this.#host.touch(run);
      if (this.#below[run] === none) this.#host.evictable(run);
    }
  }

  insert(insertion: Insertion): boolean {
    const { keys, start, table, from, to } = insertion;
    const above = from === 0 ? none : table[from - 1];
    if (above !== none && this.#blockOf[keys[start + from - 1]] !== above) {
      insertion.instead.fill(none, 0, to - from);
      return false;
    }
    const end = this.#insertRun(insertion, above, from);
    if (end === to) return true;
    this.#insertRest(insertion, end);
    return false;
  }

  evict(run: EntryId, wantedBlocks: number): void {
    const length = this.#length[run];
    const wanted = this.#unit === "node" ? length : this.#unit === "block" ? 1 : wantedBlocks;
    const count = Math.min(wanted, length);
    if (count > this.#victims.length) this.#victims = new Int32Array(2 * count);
    const blocks = this.#victims;
    const blockOf = this.#blockOf;
    const keyOf = this.#keyOf;
    const before = this.#before;
    let block = this.#last[run];
    for (let i = 0; i < count; i++) {
      blocks[i] = block;
      blockOf[keyOf[block]] = evicted;
      block = before[block];
    }
    this.#host.evicted(blocks, count);
    this.blockCount -= count;
    this.evictableBlocks -= count;
    if (count === length) {
      this.#removeRun(run);
    } else {
      this.#shorten(run, block, count);
      this.#host.evictable(run);
    }
  }

  forget(block: BlockId): void {
    const run = this.#runOf[block];
    const before = this.#before[block];
    if (this.#length[run] > 1 && this.#last[run] === block && this.#below[run] === none) {
      const mayGo = this.isEvictable(run);
      this.#host.dropped(run, mayGo);
      this.#forgetBlock(block, run);
      this.#shorten(run, before, 1);
      if (mayGo) this.#host.evictable(run);
      return;
    }
    // The run that is cut off keeps its number, and begins with the block.
    if (before !== none && this.#runOf[before] === run) this.#cutBehind(before);
    this.#dropBelow(run);
    this.#dropRun(run);
  }

  *blocks(): Iterable<BlockId> {
    for (const block of this.#blockOf) if (block >= 0) yield block;
  }

  isEvictable(run: EntryId): boolean {
    return this.#length[run] > 0 && this.#heldBlocks[run] === 0 && this.#below[run] === none;
  }

  entryOf(block: BlockId): EntryId {
    return this.#runOf[block];
  }

  grow(blockCount: number): void {
    this.#keyOf = grown(this.#keyOf, blockCount);
    this.#runOf = grown(this.#runOf, blockCount);
    this.#before = grown(this.#before, blockCount);
  }

  /**
   * Stores the insertion's blocks from `from` on as one run, up to the first that is stored already: returns its place. A
   * partial block ends its run, for all others are of one length.
   */
  #insertRun(insertion: Insertion, above: BlockId, from: number): number {
    const { keys, start, table, partialAt } = insertion;
    const to = partialAt >= from && partialAt < insertion.to ? partialAt + 1 : insertion.to;
    const shift = start | 0;
    const blockOf = this.#blockOf;
    if (blockOf[keys[shift + from]] >= 0) return from;
    const keyOf = this.#keyOf;
    const runOf = this.#runOf;
    const beforeOf = this.#before;
    if (above !== none) this.#cutBehind(above);
    const run = this.#newRun();
    let before = above;
    let i = from | 0;
    for (; i < to; i++) {
      const key = keys[shift + i];
      if (blockOf[key] >= 0) break;
      const block = table[i];
      blockOf[key] = block;
      keyOf[block] = key;
      runOf[block] = run;
      beforeOf[block] = before;
      before = block;
    }
    this.blockCount += i - from;
    this.#last[run] = before;
    this.#length[run] = this.#heldBlocks[run] = i - from;
    this.#start[run] = from * this.#blockTokens;
    this.#end[run] = blockEnd(insertion, i - 1, this.#blockTokens);
    this.#below[run] = none;
    this.#link(run, above === none ? none : runOf[above]);
    this.#host.created(run, this.#end[run], this.#end[run] - this.#start[run], keyOf[before]);
    return i;
  }

  /** From block `first` on, which is stored already. */
  #insertRest(insertion: Insertion, first: number): void {
    const { keys, start, table, from, to, partialAt, instead } = insertion;
    for (let i = from; i < to; i++) instead[i - from] = table[i];
    let above = first === 0 ? none : table[first - 1];
    for (let i = first; i < to; ) {
      const stored = this.#blockOf[keys[start + i]];
      if (stored < 0) {
        i = this.#insertRun(insertion, above, i);
        above = table[i - 1];
        continue;
      }
      if (stored !== table[i] && (i === partialAt || this.#before[stored] !== above)) {
        // It stays the request's own, unknown to others, and with it all that would hang below the one that is stored.
        instead.fill(none, i - from, to - from);
        break;
      }
      instead[i - from] = above = stored;
      i++;
    }
    // What the request holds now instead of its own ends here.
    if (above !== none) this.#cutBehind(above);
  }

  #newRun(): EntryId {
    this.entryCount++;
    if (this.#freeCount > 0) return this.#free[--this.#freeCount];
    if (this.#unused === this.#length.length) this.#growRuns(2 * this.#unused);
    return this.#unused++;
  }

  #growRuns(count: number): void {
    this.#last = grown(this.#last, count);
    this.#length = grown(this.#length, count);
    this.#heldBlocks = grown(this.#heldBlocks, count);
    this.#start = grown(this.#start, count);
    this.#end = grown(this.#end, count);
    this.#above = grown(this.#above, count);
    this.#below = grown(this.#below, count);
    this.#next = grown(this.#next, count);
    this.#previous = grown(this.#previous, count);
    this.#free = grown(this.#free, count);
  }

  /** Makes the block the last of its run: what follows in the run becomes a run below. */
  #cutBehind(block: BlockId): void {
    const lower = this.#runOf[block];
    if (this.#last[lower] === block) return;
    const upper = this.#newRun();
    let length = 0;
    for (let b = block; b !== none && this.#runOf[b] === lower; b = this.#before[b]) {
      this.#runOf[b] = upper;
      length++;
    }
    this.#last[upper] = block;
    this.#length[upper] = length;
    this.#length[lower] -= length;
    this.#heldBlocks[upper] = this.#heldBlocks[lower] > 0 ? length : 0;
    this.#heldBlocks[lower] -= this.#heldBlocks[upper];
    assert(this.#heldBlocks[lower] >= 0, "a run was held in part");
    this.#start[upper] = this.#start[lower];
    this.#start[lower] = this.#end[upper] = this.#start[upper] + length * this.#blockTokens;
    this.#putAbove(upper, lower);
    this.#host.created(upper, this.#end[upper], this.#end[upper] - this.#start[upper], this.#keyOf[block]);
    this.#host.split(lower, upper, this.#end[lower], this.#end[lower] - this.#start[lower]);
  }

  /** The last `count` blocks of a run are gone; it ends with `last` now. */
  #shorten(run: EntryId, last: BlockId, count: number): void {
    this.#last[run] = last;
    this.#length[run] -= count;
    const tokens = this.#length[run] * this.#blockTokens;
    this.#end[run] = this.#start[run] + tokens;
    this.#host.resized(run, this.#end[run], tokens, this.#keyOf[last]);
  }

  /** A new run takes the place of another, which hangs below it from now on. */
  #putAbove(upper: EntryId, lower: EntryId): void {
    const above = this.#above[lower];
    const next = this.#next[lower];
    const previous = this.#previous[lower];
    this.#above[upper] = above;
    this.#next[upper] = next;
    this.#previous[upper] = previous;
    if (next !== none) this.#previous[next] = upper;
    if (previous !== none) this.#next[previous] = upper;
    else if (above !== none) this.#below[above] = upper;
    this.#below[upper] = lower;
    this.#above[lower] = upper;
    this.#next[lower] = this.#previous[lower] = none;
  }

  #link(run: EntryId, above: EntryId): void {
    this.#above[run] = above;
    this.#next[run] = this.#previous[run] = none;
    if (above === none) return;
    const first = this.#below[above];
    // A run that is about to be held instead of a duplicate: a leaf no longer.
    if (this.isEvictable(above)) this.#host.blocked(above);
    this.#below[above] = run;
    this.#next[run] = first;
    if (first !== none) this.#previous[first] = run;
  }

  #unlink(run: EntryId): void {
    const above = this.#above[run];
    if (above === none) return;
    const next = this.#next[run];
    const previous = this.#previous[run];
    if (previous === none) this.#below[above] = next;
    else this.#next[previous] = next;
    if (next !== none) this.#previous[next] = previous;
  }

  /** All blocks of the run are gone: so is the run, and what it extended may be a leaf. */
  #removeRun(run: EntryId): void {
    const above = this.#above[run];
    this.#unlink(run);
    this.#length[run] = 0;
    this.entryCount--;
    this.#free[this.#freeCount++] = run;
    if (above !== none && this.isEvictable(above)) this.#host.evictable(above);
  }

  /** Everything below a run can be reached no longer: deepest first, without a stack, for paths can be long. */
  #dropBelow(top: EntryId): void {
    let run = top;
    for (;;) {
      while (this.#below[run] !== none) run = this.#below[run];
      if (run === top) return;
      const above = this.#above[run];
      this.#dropRun(run);
      run = above;
    }
  }

  #dropRun(run: EntryId): void {
    this.#host.dropped(run, this.isEvictable(run));
    let block = this.#last[run];
    for (let count = this.#length[run]; count > 0; count--) {
      const before = this.#before[block];
      this.#forgetBlock(block, run);
      block = before;
    }
    this.#removeRun(run);
  }

  #forgetBlock(block: BlockId, run: EntryId): void {
    this.#blockOf[this.#keyOf[block]] = evicted;
    this.blockCount--;
    if (this.#host.isIdle(block)) this.evictableBlocks--;
    else this.#heldBlocks[run]--;
    this.#host.forgotten(block);
  }
}

export const radixTree: IndexPlugin = {
  name: "radix-tree",
  about: "runs of blocks, cut where prefixes part; runs that nothing extends are evicted first, from their end",
  source: "SGLang RadixAttention; TGI v3 radix allocator; LightLLM",
  defaults: { victims: "leaf", "victim-unit": "tail", duplicates: "swap" },
  supports: {
    "match-limit": "any",
    "full-hit": "any",
    "drop-blocks": "any",
    publish: "any",
    "cache-generated": "any",
    duplicates: ["swap"],
    victims: ["leaf"],
    "victim-unit": "any",
    "free-order": "any",
    reserve: "any",
    collision: "any",
  },
  create: (context, blockCount) => new RadixTree(context, blockCount),
};
