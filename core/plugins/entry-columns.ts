import { PolicyError } from "../errors.ts";
import { grown } from "../grown.ts";
import { nearest } from "../nearest.ts";
import type { Rules } from "./rules.ts";

/**
 * An entry of an index, which a policy orders: a block in a hash table or block trie, a run of blocks in a radix tree, a
 * whole prompt in a prompt table. Numbered from 0; numbers are reused after an eviction.
 */
export type EntryId = number;
/** A physical block of the KV cache (or a single-token slot, at block size 1). */
export type BlockId = number;

/** Argument of `PrefixIndex.insert`: keys and blocks of a request, and the output `replacements`. Reused between calls. */
export interface Insertion {
  readonly keys: Uint32Array;
  readonly start: number;
  readonly table: Int32Array;
  readonly from: number;
  readonly to: number;
  /** Blocks before this index are prompt blocks; block i of them ends at token `min((i + 1) * blockTokens, promptTokens)`. */
  readonly promptBlocks: number;
  readonly promptTokens: number;
  /** Largest end of the blocks from `promptBlocks` on, in tokens. */
  readonly lastTokens: number;
  /** The request has finished and references its blocks no longer after the insertion. */
  readonly finishes: boolean;
  /** Index of the prompt's partial last block, to which output tokens may be added; it stays private. −1 = none. */
  readonly partialAt: number;
  /**
   * Output: element `i − from` is the block that the request uses at place i of its block table; −1 if the index does not store
   * that content.
   */
  readonly replacements: Int32Array;
}

/**
 * The attention of a token to this many context tokens costs as much as the token's matrix products: 2 · 8.03e9 FLOP per
 * token against 4 · 32 layers · 32 heads · 128 dimensions FLOP per token and context token (Llama-3.1-8B, config.json).
 */
const contextTokensPerToken = (2 * 8.03e9) / (4 * 32 * 32 * 128);

/** The columns that a policy may declare and read; `key` is always kept. */
export const columnNames = [
  "key",
  "lastAccess",
  "createdAt",
  "accessCount",
  "depth",
  "tokens",
  "releaseOrder",
  "recomputeCost",
] as const;
/** The columns that a plug-in may declare and read. */
export type ColumnName = (typeof columnNames)[number];

/** The columns that an eviction policy reads; they may depend on the rules. */
export type ColumnNeeds = readonly ColumnName[] | ((rules: Rules) => readonly ColumnName[]);

/** Checks a column name, for plug-ins in plain JavaScript. @throws PolicyError with the most similar name. */
export function columnNamed(name: string): ColumnName {
  const found = columnNames.find((column) => column === name);
  if (found !== undefined) return found;
  const near = nearest(name, columnNames);
  throw new PolicyError(
    `no column "${name}"${near ? `: did you mean "${near}"?` : `, expected one of ${columnNames.join(", ")}`}`,
  );
}

/**
 * Properties of entries, one typed array per property, indexed by entry. Policies read them, only the cache writes them.
 * Times are ticks of a counter that every operation of the cache advances: all entries of one operation have the same tick,
 * and no order depends on a clock.
 *
 * `key` is always kept. Each of the others costs a write per block, so only the columns that the policy declares are kept.
 */
export class EntryColumns {
  /** Content id at the entry's end; equal content has an equal key, also after an eviction. */
  key: Uint32Array;
  /** Rule `free-order=forward`: of entries with the same tick the first in the prompt is evicted first. */
  readonly forward: boolean;
  readonly #reader: string;
  #depth: Uint32Array | undefined;
  #lastAccess: Uint32Array | undefined;
  #createdAt: Uint32Array | undefined;
  #accessCount: Uint32Array | undefined;
  #tokens: Uint32Array | undefined;
  #releaseOrder: Int32Array | undefined;
  #recomputeCost: Float64Array | undefined;

  /** `reader` names the policy in messages. @throws PolicyError if a declared column does not exist. */
  constructor(
    entryCount: number,
    freeOrder: "reverse" | "forward",
    declared: Iterable<ColumnName> = [],
    reader = "the eviction policy",
  ) {
    this.key = new Uint32Array(entryCount);
    this.forward = freeOrder === "forward";
    this.#reader = reader;
    for (const name of declared) this.keep(columnNamed(name));
  }

  /** Keeps the column; called before the first entry is created. */
  keep(name: ColumnName): void {
    const length = this.key.length;
    if (name === "depth") this.#depth ??= new Uint32Array(length);
    else if (name === "lastAccess") this.#lastAccess ??= new Uint32Array(length);
    else if (name === "createdAt") this.#createdAt ??= new Uint32Array(length);
    else if (name === "accessCount") this.#accessCount ??= new Uint32Array(length);
    else if (name === "tokens") this.#tokens ??= new Uint32Array(length);
    else if (name === "releaseOrder") this.#releaseOrder ??= new Int32Array(length);
    else if (name === "recomputeCost") this.#recomputeCost ??= new Float64Array(length);
  }

  /** Keeps every column: for audits. */
  keepAll(): void {
    for (const name of columnNames) this.keep(name);
  }

  get keepsDepth(): boolean {
    return this.#depth !== undefined;
  }

  /** The entry's end, in tokens from the beginning of the prompt. */
  get depth(): Uint32Array {
    return this.#depth ?? this.#undeclared("depth");
  }
  /** Tick at which the last request that used the entry released it. */
  get lastAccess(): Uint32Array {
    return this.#lastAccess ?? this.#undeclared("lastAccess");
  }
  /** Tick at which it was inserted. */
  get createdAt(): Uint32Array {
    return this.#createdAt ?? this.#undeclared("createdAt");
  }
  /** Number of requests that have matched it since it was inserted. */
  get accessCount(): Uint32Array {
    return this.#accessCount ?? this.#undeclared("accessCount");
  }
  /** Its length in tokens. */
  get tokens(): Uint32Array {
    return this.#tokens ?? this.#undeclared("tokens");
  }
  /** Breaks ties of ticks: the entry with the smallest value is evicted first. The depth, negated for `free-order=reverse`. */
  get releaseOrder(): Int32Array {
    return this.#releaseOrder ?? this.#undeclared("releaseOrder");
  }
  /** Cost of recomputing the entry: its tokens and their attention to the context, in units of one token's matrix products. */
  get recomputeCost(): Float64Array {
    return this.#recomputeCost ?? this.#undeclared("recomputeCost");
  }

  /** Sets the columns of a new entry. */
  created(entry: EntryId, tick: number, depth: number, tokens: number, key: number): void {
    this.key[entry] = key;
    if (this.#createdAt !== undefined) this.#createdAt[entry] = tick;
    if (this.#accessCount !== undefined) this.#accessCount[entry] = 0;
    this.setExtent(entry, depth, tokens);
  }

  /** `created` for blocks `[from, to)` of an insertion, which are entries of their own; `key` is written already. */
  createdBlocks(insertion: Insertion, from: number, to: number, tick: number, blockTokens: number): void {
    const { table } = insertion;
    if (this.#measures) {
      for (let i = from; i < to; i++) {
        const end = blockEnd(insertion, i, blockTokens);
        this.setExtent(table[i], end, end - i * blockTokens);
      }
    }
    const createdAt = this.#createdAt;
    if (createdAt !== undefined) for (let i = from; i < to; i++) createdAt[table[i]] = tick;
    const accessCount = this.#accessCount;
    if (accessCount !== undefined) for (let i = from; i < to; i++) accessCount[table[i]] = 0;
  }

  /** Whether a kept column depends on the ends of entries. */
  get #measures(): boolean {
    return (
      this.#depth !== undefined ||
      this.#tokens !== undefined ||
      this.#releaseOrder !== undefined ||
      this.#recomputeCost !== undefined
    );
  }

  /** The entry's end and length have changed. */
  setExtent(entry: EntryId, depth: number, tokens: number): void {
    if (this.#depth !== undefined) this.#depth[entry] = depth;
    if (this.#tokens !== undefined) this.#tokens[entry] = tokens;
    if (this.#releaseOrder !== undefined) this.#releaseOrder[entry] = this.forward ? depth : -depth;
    if (this.#recomputeCost !== undefined) {
      this.#recomputeCost[entry] = tokens * (1 + (depth - tokens / 2) / contextTokensPerToken);
    }
  }

  /** After a split the upper entry has the times and counts of the lower one. */
  inherited(upper: EntryId, lower: EntryId): void {
    for (const column of [this.#lastAccess, this.#createdAt, this.#accessCount])
      if (column) column[upper] = column[lower];
  }

  /** The entry was released at this tick. */
  touched(entry: EntryId, tick: number): void {
    if (this.#lastAccess !== undefined) this.#lastAccess[entry] = tick;
  }

  /** `touched` for `entries[0 .. count)`. */
  touchedMany(entries: Int32Array, count: number, tick: number): void {
    const lastAccess = this.#lastAccess;
    if (lastAccess === undefined) return;
    for (let i = 0; i < count; i++) lastAccess[entries[i]] = tick;
  }

  get countsHits(): boolean {
    return this.#accessCount !== undefined;
  }

  /** Adds a hit. */
  hit(entry: EntryId): void {
    if (this.#accessCount !== undefined) this.#accessCount[entry]++;
  }

  /** Grows all columns; arrays that were read before are stale. */
  grow(entryCount: number): void {
    const larger = <T extends Uint32Array | Int32Array | Float64Array>(column: T | undefined) =>
      column && grown(column, entryCount);
    this.key = grown(this.key, entryCount);
    this.#depth = larger(this.#depth);
    this.#lastAccess = larger(this.#lastAccess);
    this.#createdAt = larger(this.#createdAt);
    this.#accessCount = larger(this.#accessCount);
    this.#tokens = larger(this.#tokens);
    this.#releaseOrder = larger(this.#releaseOrder);
    this.#recomputeCost = larger(this.#recomputeCost);
  }

  #undeclared(name: ColumnName): never {
    throw new PolicyError(
      `${this.#reader} reads columns.${name}, which it does not declare: add columns: ["${name}"] to the plug-in`,
    );
  }
}

/** End of block i of a request, in tokens; the last block of the prompt and the last stored block may be partial. */
export function blockEnd(
  { promptBlocks, promptTokens, lastTokens }: Pick<Insertion, "promptBlocks" | "promptTokens" | "lastTokens">,
  i: number,
  blockTokens: number,
): number {
  const end = (i + 1) * blockTokens;
  const limit = i < promptBlocks ? promptTokens : lastTokens;
  return end > limit ? limit : end;
}
