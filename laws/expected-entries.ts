import type { KvCache } from "../core/cache/kv-cache.ts";
import type { BlockId, EntryId } from "../core/plugins/index.ts";
import type { BlockColumns } from "../core/trace/content.ts";
import { addRemoveAlternate } from "./contract-laws.ts";
import { type Law, require, same } from "./law.ts";
import type { ReferenceModel } from "./reference-model.ts";
import type { WorkloadRequest } from "./workloads.ts";

export const entriesLaw: Law = {
  name: "entries",
  statement:
    "an entry's columns agree with its blocks, and it is evictable exactly if it is unreferenced and the rules allow it",
};

/** The tick of an operation: later than `after`, at most `by`. Ticks are read between checks only. */
interface TickRange {
  after: number;
  by: number;
}

/** A stored block, from the event log. */
interface Stored {
  readonly blockIndex: number;
  /** Numbers of the prefixes that end with the block and with its predecessor; equal numbers mean equal tokens. */
  readonly content: number;
  readonly parentContent: number;
  /** In tokens of the prompt. */
  readonly begin: number;
  readonly end: number;
  readonly key: number;
  hits: number;
  readonly createdAt: TickRange;
  released: TickRange | undefined;
}

/** The blocks of an entry, deepest first. */
type Run = readonly (readonly [BlockId, Stored])[];

const nothing = -1;

/**
 * The expected state of all entries, derived from the event log and the tokens of the requests alone, without a tree: the
 * columns, the set of evictable entries, and the number of blocks that evicting all of them would free.
 */
export class ExpectedEntries {
  readonly #cache: KvCache;
  readonly #model: ReferenceModel;
  readonly #blocks: BlockColumns;
  /** The index stores a block only if it stores the block before it. */
  readonly #isTree: boolean;
  readonly #stored = new Map<BlockId, Stored>();
  /** By content number: stored blocks that extend it, and stored blocks that have it. */
  readonly #blocksExtending = new Map<number, number>();
  readonly #blocksWith = new Map<number, number>();
  readonly #numbers = new Map<string, number>();
  #lastTick = 0;
  #mostHits = 0;

  constructor(cache: KvCache, model: ReferenceModel, blocks: BlockColumns, isTree: boolean) {
    this.#cache = cache;
    this.#model = model;
    this.#blocks = blocks;
    this.#isTree = isTree;
    cache.entries.columns.keepAll();
  }

  published(block: BlockId, request: WorkloadRequest, place: number): void {
    const { keys, start } = this.#blocks;
    const stored: Stored = {
      blockIndex: place,
      content: this.#numberOf(request, place),
      parentContent: place === 0 ? nothing : this.#numberOf(request, place - 1),
      begin: place * this.#model.blockTokens,
      end: this.#model.blockEnd(request, place),
      key: keys[start[request.id] + place],
      hits: 0,
      createdAt: this.#now(),
      released: undefined,
    };
    this.#stored.set(block, stored);
    add(this.#blocksWith, stored.content, 1);
    add(this.#blocksExtending, stored.parentContent, 1);
  }

  hit(block: BlockId): void {
    const stored = this.#stored.get(block);
    if (stored) this.#mostHits = Math.max(this.#mostHits, ++stored.hits);
  }

  released(block: BlockId): void {
    const stored = this.#stored.get(block);
    if (stored) stored.released = this.#now();
  }

  removed(block: BlockId): void {
    const stored = this.#stored.get(block);
    if (!stored) return;
    this.#stored.delete(block);
    add(this.#blocksWith, stored.content, -1);
    add(this.#blocksExtending, stored.parentContent, -1);
    const below = this.#blocksExtending.get(stored.content) ?? 0;
    require(entriesLaw, !this.#isTree || below === 0, () =>
      `block ${block} is removed before ${below} blocks that extend it`);
  }

  check(): void {
    const { index, pool } = this.#cache;
    const runs = this.#runs();
    same(entriesLaw, "entries that the index counts", index.entryCount, runs.size);
    const leafRule = this.#cache.rules.victims === "leaf";
    // Deepest first, so that an entry's descendants are processed before it.
    const order = [...runs].sort(([, a], [, b]) => b[0][1].blockIndex - a[0][1].blockIndex);
    const needed = new Set<number>();
    let evictableBlocks = 0;
    for (const [entry, run] of order) {
      this.#checkColumns(entry, run);
      const referenced = run.some(([block]) => pool.refCountOf(block) > 0);
      const extended = leafRule && (this.#blocksExtending.get(run[0][1].content) ?? 0) > 0;
      const isEvictable = index.isEvictable(entry);
      require(entriesLaw, isEvictable === !(referenced || extended), () => {
        const why = referenced
          ? "referenced"
          : extended
            ? "extended by another entry"
            : "unreferenced and not extended";
        return `entry ${entry} is ${isEvictable ? "evictable" : "not evictable"}, although it is ${why}`;
      });
      const stays = referenced || (leafRule && run.some(([, { content }]) => needed.has(content)));
      if (stays) needed.add(run.at(-1)![1].parentContent);
      else evictableBlocks += run.length;
    }
    same(entriesLaw, "blocks that evicting everything would free", index.evictableBlocks, evictableBlocks);
    this.#lastTick = this.#cache.entries.tick;
  }

  /** By entry: its blocks, deepest first. */
  #runs(): Map<EntryId, Run> {
    const { index } = this.#cache;
    const runs = new Map<EntryId, [BlockId, Stored][]>();
    for (const block of index.blocks()) {
      const stored = this.#stored.get(block);
      require(addRemoveAlternate, stored !== undefined, () => `block ${block} is stored, but was never published`);
      const { blockIndex: place, parentContent: above } = stored;
      const isReachable = !this.#isTree || place === 0 || this.#blocksWith.has(above);
      require(entriesLaw, isReachable, () => `block ${block} is stored, but not the block before it`);
      const entry = index.entryOf(block);
      const run = runs.get(entry);
      if (run) run.push([block, stored]);
      else runs.set(entry, [[block, stored]]);
    }
    for (const run of runs.values()) run.sort(([, a], [, b]) => b.blockIndex - a.blockIndex);
    return runs;
  }

  #checkColumns(entry: EntryId, run: Run): void {
    for (let i = 1; i < run.length; i++) {
      const isBefore = run[i][1].content === run[i - 1][1].parentContent;
      require(entriesLaw, isBefore, () =>
        `entry ${entry} has blocks ${run[i][0]} and ${run[i - 1][0]}, which are not consecutive`);
    }
    const { columns } = this.#cache.entries;
    const { end, key } = run[0][1];
    const { begin } = run.at(-1)![1];
    this.#requireIn(entry, "depth", columns.depth[entry], end, end);
    this.#requireIn(entry, "tokens", columns.tokens[entry], end - begin, end - begin);
    this.#requireIn(entry, "key", columns.key[entry], key, key);
    const order = columns.forward ? end : -end;
    this.#requireIn(entry, "releaseOrder", columns.releaseOrder[entry], order, order);
    const hits = run.map(([, stored]) => stored.hits);
    // With `node-match=whole` a request that matches the beginning of an entry is counted for all of it.
    const isWhole = this.#cache.rules["node-match"] === "whole";
    const mostHits = isWhole ? this.#mostHits : Math.max(...hits);
    this.#requireIn(entry, "accessCount", columns.accessCount[entry], Math.min(...hits), mostHits);
    const createdAt = run.map(([, stored]) => stored.createdAt);
    this.#requireRange(entry, "createdAt", columns.createdAt[entry], createdAt);
    const released = run.map(([, stored]) => stored.released).filter((when) => when !== undefined);
    if (released.length < run.length) return;
    // With `node-match=renew` and `whole` the rest of an entry of which a request matched the beginning is renewed, too.
    const { after } = released.reduce((last, each) => (each.after > last.after ? each : last));
    if (this.#cache.rules["node-match"] !== "split")
      this.#requireIn(entry, "lastAccess", columns.lastAccess[entry], after + 1, this.#now().by);
    else this.#requireRange(entry, "lastAccess", columns.lastAccess[entry], released);
  }

  #requireRange(entry: EntryId, column: string, is: number, times: readonly TickRange[]): void {
    const from = Math.min(...times.map(({ after }) => after)) + 1;
    const to = Math.max(...times.map(({ by }) => by));
    this.#requireIn(entry, column, is, from, to);
    // All blocks have the same range, so the operation happened at exactly this tick.
    if (times.every(({ after, by }) => after === from - 1 && by === to))
      for (const when of times) [when.after, when.by] = [is - 1, is];
  }

  #requireIn(entry: EntryId, column: string, is: number, from: number, to: number): void {
    require(entriesLaw, is >= from && is <= to, () => {
      return `${column} of entry ${entry} is ${is}, expected ${from === to ? from : `${from} to ${to}`}`;
    });
  }

  #now(): TickRange {
    return { after: this.#lastTick, by: this.#cache.entries.tick };
  }

  #numberOf(request: WorkloadRequest, place: number): number {
    const content = this.#model.contentOf(request, place);
    let number = this.#numbers.get(content);
    if (number === undefined) this.#numbers.set(content, (number = this.#numbers.size));
    return number;
  }
}

function add(counts: Map<number, number>, of: number, count: 1 | -1): void {
  const sum = (counts.get(of) ?? 0) + count;
  if (sum === 0) counts.delete(of);
  else counts.set(of, sum);
}
