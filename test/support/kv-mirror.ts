import { expect } from "vitest";
import type { KvCache } from "../../core/cache/kv-cache.ts";
import type { Request } from "../../core/cache/request.ts";
import type { KvEventReader } from "../../core/log/kv-events.ts";
import type { Match } from "../../core/plugins/index.ts";

/** The cached blocks and their contents, derived from KV events alone. */
export class KvMirror {
  /** By stored block: its content id. */
  readonly contentOf = new Map<number, number>();
  readonly #cache: KvCache;
  readonly #reader: KvEventReader;
  readonly #requests: readonly Request[];
  /** By content id: the content before it in every prompt that contains it; undefined at the beginning of prompts. */
  readonly #parentOf = new Map<number, number | undefined>();
  readonly #match: Match = { blocks: 0, absent: 0, evicted: 0 };

  constructor(cache: KvCache, reader: KvEventReader, requests: readonly Request[]) {
    this.#cache = cache;
    this.#reader = reader;
    this.#requests = requests;
    for (const request of requests) {
      const keys = keysOf(request, request.knownBlocks);
      keys.forEach((key, i) => {
        const parent = i === 0 ? undefined : keys[i - 1];
        expect(this.#parentOf.get(key) ?? parent, "a content has one parent").toBe(parent);
        this.#parentOf.set(key, parent);
      });
    }
  }

  /** Whether the index stores whole prompts or marked prefixes, each on its own. */
  get storesWholePrompts(): boolean {
    return this.#cache.index.oldest !== undefined;
  }

  /** Applies the KV events since the last call. */
  readEvents(): void {
    for (const event of this.#reader.take()) {
      if (event.type === "cleared") {
        expect(event.blocks, "blocks that a reset clears").toBe(this.contentOf.size);
        this.contentOf.clear();
        continue;
      }
      expect(event.contents.length).toBe(event.blocks.length);
      if (event.type === "removed") {
        event.blocks.forEach((block, i) => {
          expect(this.contentOf.get(block), `content of block ${block}, in a removed event`).toBe(event.contents[i]);
          this.contentOf.delete(block);
        });
        continue;
      }
      let parent = event.parent;
      event.contents.forEach((content, i) => {
        expect(this.#parentOf.get(content), `parent of content ${content}`).toBe(parent);
        expect(this.contentOf.has(event.blocks[i]), `block ${event.blocks[i]} is stored twice`).toBe(false);
        this.contentOf.set(event.blocks[i], content);
        parent = content;
      });
    }
  }

  /** The blocks stored by the events are those that lookups of all requests match. */
  compareWithIndex(): void {
    const { index } = this.#cache;
    expect(sorted(this.contentOf.keys()), "blocks stored according to the events").toEqual(sorted(index.blocks()));
    const found = new Set<number>();
    for (const request of this.#requests) {
      const { keys, table } = this.#lookUp(request, this.#lookedUp(request));
      keys.forEach((key, i) => {
        if (table[i] < 0) return;
        expect(this.contentOf.get(table[i]), `content of the matched block ${table[i]}`).toBe(key);
        found.add(key);
      });
    }
    expect(sorted(found), "matched contents").toEqual(sorted(new Set(this.contentOf.values())));
  }

  /** The physical blocks of a prompt; undefined if not all of them are stored. */
  found(request: Request): number[] | undefined {
    const count = this.#lookedUp(request, request.promptBlocks);
    if (count < request.promptBlocks || count === 0) return undefined;
    const { table, match } = this.#lookUp(request, count);
    return match === count ? table : undefined;
  }

  /** All stored blocks with the content of this one. */
  blocksWithSameContent(block: number): number[] {
    const content = this.contentOf.get(block);
    return [...this.contentOf].filter(([, other]) => other === content).map(([other]) => other);
  }

  /** The blocks that a deletion of this prefix must delete, derived from contents and reference counts alone. */
  blocksDeletedWith(request: Request, blocks: readonly number[], isReferenced: (block: number) => boolean): number[] {
    if (this.storesWholePrompts) return [...blocks];
    const keys = keysOf(request, request.promptBlocks);
    const isTree =
      this.#cache.rules.victims === "leaf" || this.#cache.index.leaves !== undefined || this.#storesChildren();
    const deleted = new Set<number>();
    if (!isTree) {
      // Blocks of equal content are deleted together; a referenced block stays, and so do the blocks before it.
      for (let i = keys.length - 1; i >= 0; i--) {
        const same = this.blocksWithSameContent(blocks[i]);
        if (same.some(isReferenced)) break;
        for (const block of same) deleted.add(block);
      }
      return [...deleted];
    }
    const end = keys[keys.length - 1];
    for (const [block, content] of this.contentOf) if (this.#isBelow(content, end)) deleted.add(block);
    for (let i = keys.length - 2; i >= 0 && !isReferenced(blocks[i]); i--) {
      const others = [...this.contentOf].some(
        ([block, content]) => this.#parentOf.get(content) === keys[i] && !deleted.has(block),
      );
      if (others) break;
      deleted.add(blocks[i]);
    }
    return [...deleted];
  }

  /** Whether the index stores which blocks extend a block. */
  #storesChildren(): boolean {
    return this.#cache.index.isLeaf !== undefined || this.#cache.index.cut !== undefined;
  }

  #isBelow(content: number, above: number): boolean {
    for (let at: number | undefined = content; at !== undefined; at = this.#parentOf.get(at))
      if (at === above) return true;
    return false;
  }

  #lookedUp(request: Request, blocks = request.knownBlocks): number {
    return Math.min(blocks, this.#cache.index.stores?.(request) ?? blocks);
  }

  #lookUp(request: Request, count: number) {
    const table = new Int32Array(count);
    this.#cache.index.match(request.keys, request.keyStart, count, table, this.#match);
    return { keys: keysOf(request, count), table: [...table], match: this.#match.blocks };
  }
}

const keysOf = ({ keys, keyStart }: Request, count: number) => [...keys.subarray(keyStart, keyStart + count)];
const sorted = (numbers: Iterable<number>) => [...numbers].sort((a, b) => a - b);
