import { reset } from "../../core/cache/operations.ts";
import type { Sequence } from "../../core/cache/request.ts";
import type { BlockId } from "../../core/plugins/index.ts";
import { noIndex } from "../../policies/index/none.ts";
import { sglang } from "../../policies/presets/sglang.ts";
import { list, shown, Unsupported } from "../values.ts";
import { DrivenCache, likePreset } from "./driven-cache.ts";

export interface TreeOptions {
  readonly pageTokens: number;
  /** Enough blocks for all insertions. */
  readonly pages: number;
  readonly disabled?: boolean;
  readonly unit: "node" | "tail";
  /** Whether the use of a part of a node updates the last use of the whole node. */
  readonly renewsNodes?: boolean;
}

interface Use {
  readonly tokens: readonly number[];
  readonly namespace: unknown;
  readonly tick: number;
}

/** The tokens with which a page was stored, and the page's end in them. */
interface Path {
  readonly tokens: readonly number[];
  readonly end: number;
}

/**
 * A radix tree whose pages are identified by labels: one per token, or one per page. It is a cache with a radix tree index: an
 * insertion is a request that computes the missing pages, and a lookup is a request that computes nothing.
 */
export class LabelledTree {
  readonly #driven: DrivenCache;
  readonly #pageTokens: number;
  readonly #disabled: boolean;
  readonly #renewsNodes: boolean;
  /** By stored page: its label and its path. */
  readonly #labels = new Map<BlockId, readonly unknown[]>();
  readonly #paths = new Map<BlockId, Path>();
  /** Lookups and insertions, with their times. */
  readonly #uses: Use[] = [];
  readonly #locks = new Map<string, { readonly sequence: Sequence; readonly tick: number }>();

  constructor({ pageTokens, pages, disabled = false, unit, renewsNodes: renewsRuns = false }: TreeOptions) {
    this.#renewsNodes = renewsRuns;
    this.#pageTokens = pageTokens;
    this.#disabled = disabled;
    const size = { blockTokens: pageTokens, blocks: Math.max(1, pages) };
    // A completely cached prompt computes nothing: in the original, the caller looks up one token less.
    const rules = { "match-limit": "all", "full-hit": "stored-logits" } as const;
    // Cases call single operations of a tree, each with the amount to be evicted; `renewsNodes` renews.
    const own = { "victim-unit": unit, "node-match": "split", "evict-amount": "missing" } as const;
    const parts = likePreset(sglang, { ...size, rules: { ...rules, ...own } });
    this.#driven = new DrivenCache(disabled ? { ...parts, index: noIndex, rules } : parts);
  }

  get #cache() {
    return this.#driven.cache;
  }

  /** Number of stored tokens. */
  get total(): number {
    return this.#cache.index.blockCount * this.#pageTokens;
  }
  get evictable(): number {
    return this.#cache.index.evictableBlocks * this.#pageTokens;
  }

  /** Stores full pages; returns the number of tokens that were stored before. */
  insert(tokens: readonly number[], values: unknown, namespace: unknown): number {
    const labels = this.#labelsOf(tokens, values);
    if (this.#renewsNodes) this.#renewNode(tokens, namespace);
    const sequence = this.#arrive(tokens, namespace);
    if (!this.#cache.admit(sequence, tokens.length, this.#driven.now)) throw new Unsupported("the cache is too small");
    const blocks = this.#driven.blocksOf(sequence);
    const matched = sequence.cachedBlocks;
    this.#driven.compute(sequence);
    this.#driven.finish(sequence);
    this.#recordUse(tokens, namespace);
    for (let i = matched; i < blocks.length && !this.#disabled; i++) {
      this.#labels.set(blocks[i], labels[i]);
      this.#paths.set(blocks[i], { tokens, end: (i + 1) * this.#pageTokens });
    }
    return matched * this.#pageTokens;
  }

  /** Labels of the longest match, whose last use is updated. */
  match(tokens: readonly number[], namespace: unknown): unknown[] {
    if (this.#renewsNodes) this.#renewNode(tokens, namespace);
    return this.#labelled(this.#use(tokens, namespace));
  }

  /** Labels of the longest match. The node in which it ends is not split, and its last use is updated as a whole. */
  find(tokens: readonly number[]): unknown[] {
    const found = this.#stored(tokens, undefined);
    this.#renewNode(tokens, undefined);
    return this.#labelled(found);
  }

  /** Updates the last use of the whole node in which the longest match ends. */
  #renewNode(tokens: readonly number[], namespace: unknown): void {
    const last = this.#stored(tokens, namespace).at(-1);
    if (last !== undefined) this.#use(this.#pathOf(this.#cache.index.entryOf(last)), namespace);
  }

  /** Locks the matched path against eviction. */
  lock(handle: string, tokens: readonly number[], namespace: unknown): void {
    if (this.#locks.has(handle)) throw new Unsupported(`handle ${shown(handle)} is locked already`);
    if (this.#renewsNodes) this.#renewNode(tokens, namespace);
    this.#locks.set(handle, { sequence: this.#reference(tokens, namespace), tick: this.#cache.entries.tick });
  }

  /**
   * In the original the age of an unlocked path counts from its last use, in a cache from its release. So the path is
   * released at the time when it was locked, and all later uses are repeated at their times.
   */
  unlock(handle: string): void {
    const lock = this.#locks.get(handle);
    if (lock === undefined) throw new Unsupported(`handle ${shown(handle)} is not locked`);
    this.#locks.delete(handle);
    const { entries } = this.#cache;
    const { tick: latest } = entries;
    this.#finishAt(lock.sequence, lock.tick);
    for (const { tokens, namespace, tick } of this.#uses) {
      if (tick <= lock.tick) continue;
      const sequence = this.#arrive(tokens, namespace);
      this.#cache.admit(sequence, 0, this.#driven.now);
      this.#finishAt(sequence, tick);
    }
    entries.tick = latest;
  }

  /** Evicts; returns the labels of the evicted pages, in order. */
  evict(tokens: number): unknown[] {
    const victims = this.#disabled ? [] : this.#driven.evict(Math.ceil(tokens / this.#pageTokens));
    const labels = this.#labelled(victims.flat());
    for (const page of victims.flat()) {
      this.#labels.delete(page);
      this.#paths.delete(page);
    }
    return labels;
  }

  /** Removes all entries and locks. */
  reset(): void {
    for (const { sequence } of this.#locks.values()) this.#driven.finish(sequence);
    this.#locks.clear();
    this.#uses.length = 0;
    this.#labels.clear();
    this.#paths.clear();
    if (!reset(this.#cache, this.#driven.now)) throw new Unsupported("a reset while entries are referenced");
  }

  /** The node in which the longest match ends; undefined if there is no match. No side effects. */
  nodeOf(tokens: readonly number[]): number | undefined {
    const last = this.#stored(tokens, undefined).at(-1);
    return last === undefined ? undefined : this.#cache.index.entryOf(last);
  }

  /** Pages of the longest match. */
  #stored(tokens: readonly number[], namespace: unknown): BlockId[] {
    const sequence = this.#arrive(tokens, namespace);
    sequence.blocks.reserve(sequence.request.promptBlocks);
    return [...sequence.table.subarray(0, this.#cache.lookup.match(sequence))];
  }

  /** The tokens up to the end of a node. */
  #pathOf(run: number): readonly number[] {
    let longest: Path = { tokens: [], end: 0 };
    for (const [page, path] of this.#paths)
      if (path.end > longest.end && this.#cache.index.entryOf(page) === run) longest = path;
    return longest.tokens.slice(0, longest.end);
  }

  #arrive(tokens: readonly number[], namespace: unknown): Sequence {
    const whole = Math.floor(tokens.length / this.#pageTokens) * this.#pageTokens;
    return this.#driven.arrive({ prompt: tokens.slice(0, whole), namespace });
  }

  /** References and releases the match of the tokens, which updates its last use. */
  #use(tokens: readonly number[], namespace: unknown): BlockId[] {
    const sequence = this.#reference(tokens, namespace);
    const found = this.#driven.blocksOf(sequence);
    this.#driven.finish(sequence);
    return found;
  }

  #reference(tokens: readonly number[], namespace: unknown): Sequence {
    const sequence = this.#arrive(tokens, namespace);
    this.#cache.admit(sequence, 0, this.#driven.now);
    this.#recordUse(tokens, namespace);
    return sequence;
  }

  #recordUse(tokens: readonly number[], namespace: unknown): void {
    this.#uses.push({ tokens, namespace, tick: this.#cache.entries.tick });
  }

  #finishAt(sequence: Sequence, tick: number): void {
    this.#cache.entries.tick = tick - 1;
    this.#driven.finish(sequence);
  }

  #labelled(pages: readonly BlockId[]): unknown[] {
    return pages.flatMap((page) => this.#labels.get(page) ?? []);
  }

  /** Labels of each page; by default the token ids. */
  #labelsOf(tokens: readonly number[], values: unknown): (readonly unknown[])[] {
    const labels = values === undefined || values === null ? tokens : list(values, "values");
    const pages = Math.floor(tokens.length / this.#pageTokens);
    const perPage = labels.length === tokens.length ? this.#pageTokens : 1;
    if (labels.length !== tokens.length && labels.length !== pages)
      throw new Unsupported(`${labels.length} values for ${tokens.length} tokens`);
    return Array.from({ length: pages }, (_, i) => labels.slice(i * perPage, (i + 1) * perPage));
  }
}
