import type { KvCache } from "../core/cache/kv-cache.ts";
import type { BlockId, EntryId } from "../core/plugins/index.ts";
import type { BlockColumns } from "../core/trace/content.ts";
import { addRemoveAlternate } from "./book.ts";
import { type Law, require, same } from "./law.ts";
import type { NaiveModel } from "./naive-model.ts";
import type { WorldRequest } from "./worlds.ts";

export const entriesLaw: Law = {
  name: "entries",
  says: "an entry is a run of one prompt's blocks and as old, used and long as they are; it may go if nothing needs it",
};

/** An operation of the cache, known to within those between two looks. */
interface When {
  after: number;
  by: number;
}

/** A stored block, as the log tells of it. */
interface Stored {
  readonly place: number;
  /** What it and all before it hold, and what its parent and all before that hold: equal numbers, equal tokens. */
  readonly content: number;
  readonly above: number;
  /** In tokens of the prompt. */
  readonly begin: number;
  readonly end: number;
  readonly key: number;
  hits: number;
  readonly born: When;
  letGo: When | undefined;
}

/** Of the run of an entry, deepest first. */
type Run = readonly (readonly [BlockId, Stored])[];

const nothing = -1;

/**
 * What entries should be, from the log and the requests' tokens alone, without any tree: the columns that policies read,
 * which entries may go, and how many blocks would be free then.
 */
export class EntryBooks {
  readonly #cache: KvCache;
  readonly #model: NaiveModel;
  readonly #blocks: BlockColumns;
  /** The index stores nothing without what is before it. */
  readonly #isTree: boolean;
  readonly #stored = new Map<BlockId, Stored>();
  /** How many stored blocks extend a content, and how many have it. */
  readonly #extending = new Map<number, number>();
  readonly #having = new Map<number, number>();
  readonly #numbers = new Map<string, number>();
  #lastTick = 0;

  constructor(cache: KvCache, model: NaiveModel, blocks: BlockColumns, isTree: boolean) {
    this.#cache = cache;
    this.#model = model;
    this.#blocks = blocks;
    this.#isTree = isTree;
    cache.entries.columns.keepAll();
  }

  published(block: BlockId, ask: WorldRequest, place: number): void {
    const { keys, start } = this.#blocks;
    const stored: Stored = {
      place,
      content: this.#numberOf(ask, place),
      above: place === 0 ? nothing : this.#numberOf(ask, place - 1),
      begin: place * this.#model.blockTokens,
      end: this.#model.blockEnd(ask, place),
      key: keys[start[ask.id] + place],
      hits: 0,
      born: this.#now(),
      letGo: undefined,
    };
    this.#stored.set(block, stored);
    add(this.#having, stored.content, 1);
    add(this.#extending, stored.above, 1);
  }

  hit(block: BlockId): void {
    const stored = this.#stored.get(block);
    if (stored) stored.hits++;
  }

  letGo(block: BlockId): void {
    const stored = this.#stored.get(block);
    if (stored) stored.letGo = this.#now();
  }

  gone(block: BlockId): void {
    const stored = this.#stored.get(block);
    if (!stored) return;
    this.#stored.delete(block);
    add(this.#having, stored.content, -1);
    add(this.#extending, stored.above, -1);
    const below = this.#extending.get(stored.content) ?? 0;
    require(entriesLaw, !this.#isTree || below === 0, () =>
      `block ${block} goes before ${below} blocks that extend it`);
  }

  check(): void {
    const { index, pool } = this.#cache;
    const runs = this.#runs();
    same(entriesLaw, "entries that the index counts", index.entryCount, runs.size);
    const leafRule = this.#cache.rules.victims === "leaf";
    // The deepest first: what is needed by something below is known then.
    const order = [...runs].sort(([, a], [, b]) => b[0][1].place - a[0][1].place);
    const needed = new Set<number>();
    let freeable = 0;
    for (const [entry, run] of order) {
      this.#checkColumns(entry, run);
      const held = run.some(([block]) => pool.refCountOf(block) > 0);
      const extended = leafRule && (this.#extending.get(run[0][1].content) ?? 0) > 0;
      const mayGo = index.isEvictable(entry);
      require(entriesLaw, mayGo === !(held || extended), () => {
        const why = held ? "somebody holds it" : extended ? "another extends it" : "nothing needs it";
        return `entry ${entry} ${mayGo ? "may" : "may not"} go, and ${why}`;
      });
      const stays = held || (leafRule && run.some(([, { content }]) => needed.has(content)));
      if (stays) needed.add(run.at(-1)![1].above);
      else freeable += run.length;
    }
    same(entriesLaw, "blocks that evicting everything would free", index.evictableBlocks, freeable);
    this.#lastTick = this.#cache.entries.tick;
  }

  /** The entries' blocks, each run deepest first. */
  #runs(): Map<EntryId, Run> {
    const { index } = this.#cache;
    const runs = new Map<EntryId, [BlockId, Stored][]>();
    for (const block of index.blocks()) {
      const stored = this.#stored.get(block);
      require(addRemoveAlternate, stored !== undefined, () => `block ${block} is stored and was never published`);
      const { place, above } = stored;
      const isReachable = !this.#isTree || place === 0 || this.#having.has(above);
      require(entriesLaw, isReachable, () => `block ${block} is stored, and nothing that it extends`);
      const entry = index.entryOf(block);
      const run = runs.get(entry);
      if (run) run.push([block, stored]);
      else runs.set(entry, [[block, stored]]);
    }
    for (const run of runs.values()) run.sort(([, a], [, b]) => b.place - a.place);
    return runs;
  }

  #checkColumns(entry: EntryId, run: Run): void {
    for (let i = 1; i < run.length; i++) {
      const isBefore = run[i][1].content === run[i - 1][1].above;
      require(entriesLaw, isBefore, () =>
        `entry ${entry} has blocks ${run[i][0]} and ${run[i - 1][0]}, which do not follow`);
    }
    const { columns } = this.#cache.entries;
    const { end, key } = run[0][1];
    const { begin } = run.at(-1)![1];
    this.#is(entry, "depth", columns.depth[entry], end, end);
    this.#is(entry, "tokens", columns.tokens[entry], end - begin, end - begin);
    this.#is(entry, "key", columns.key[entry], key, key);
    const order = columns.forward ? end : -end;
    this.#is(entry, "releaseOrder", columns.releaseOrder[entry], order, order);
    const hits = run.map(([, stored]) => stored.hits);
    this.#is(entry, "accessCount", columns.accessCount[entry], Math.min(...hits), Math.max(...hits));
    const born = run.map(([, stored]) => stored.born);
    this.#isWithin(entry, "createdAt", columns.createdAt[entry], born);
    const letGo = run.map(([, stored]) => stored.letGo).filter((when) => when !== undefined);
    if (letGo.length === run.length) this.#isWithin(entry, "lastAccess", columns.lastAccess[entry], letGo);
  }

  #isWithin(entry: EntryId, column: string, is: number, times: readonly When[]): void {
    const from = Math.min(...times.map(({ after }) => after)) + 1;
    const to = Math.max(...times.map(({ by }) => by));
    this.#is(entry, column, is, from, to);
    // What happened to all of them together has this tick for ever.
    if (times.every(({ after, by }) => after === from - 1 && by === to))
      for (const when of times) [when.after, when.by] = [is - 1, is];
  }

  #is(entry: EntryId, column: string, is: number, from: number, to: number): void {
    require(entriesLaw, is >= from && is <= to, () => {
      return `${column} of entry ${entry} is ${is}, expected ${from === to ? from : `${from} to ${to}`}`;
    });
  }

  #now(): When {
    return { after: this.#lastTick, by: this.#cache.entries.tick };
  }

  #numberOf(ask: WorldRequest, place: number): number {
    const content = this.#model.contentOf(ask, place);
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
