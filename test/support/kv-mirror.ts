import { expect } from "vitest";
import type { KvCache } from "../../core/cache/kv-cache.ts";
import type { Request } from "../../core/cache/request.ts";
import type { KvEventReader } from "../../core/log/kv-events.ts";
import type { Match } from "../../core/plugins/index.ts";

/** What a reader of KV events believes is cached: a content for each block, and nothing else. */
export class KvMirror {
  /** By block that the events say is stored: the content in it. */
  readonly contentOf = new Map<number, number>();
  readonly #cache: KvCache;
  readonly #reader: KvEventReader;
  readonly #requests: readonly Request[];
  /** By content, the one before it in every prompt that has it; undefined at the beginning of prompts. */
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

  /** Whole prefixes, each by itself. */
  get isWhole(): boolean {
    return this.#cache.index.oldest !== undefined;
  }

  /** Reads what has been told since the last time. */
  catchUp(): void {
    for (const event of this.#reader.take()) {
      if (event.type === "cleared") {
        expect(event.blocks, "blocks that a reset clears").toBe(this.contentOf.size);
        this.contentOf.clear();
        continue;
      }
      expect(event.contents.length).toBe(event.blocks.length);
      if (event.type === "removed") {
        event.blocks.forEach((block, i) => {
          expect(this.contentOf.get(block), `content of block ${block}, which is removed`).toBe(event.contents[i]);
          this.contentOf.delete(block);
        });
        continue;
      }
      let parent = event.parent;
      event.contents.forEach((content, i) => {
        expect(this.#parentOf.get(content), `what comes before content ${content}`).toBe(parent);
        expect(this.contentOf.has(event.blocks[i]), `block ${event.blocks[i]} is stored twice`).toBe(false);
        this.contentOf.set(event.blocks[i], content);
        parent = content;
      });
    }
  }

  /** All that any request could find is what the events tell, and the other way round. */
  compare(): void {
    const { index } = this.#cache;
    expect(sorted(this.contentOf.keys()), "blocks that events tell of").toEqual(sorted(index.blocks()));
    const found = new Set<number>();
    for (const request of this.#requests) {
      const { keys, table } = this.#lookUp(request, this.#lookedUp(request));
      keys.forEach((key, i) => {
        if (table[i] < 0) return;
        expect(this.contentOf.get(table[i]), `what block ${table[i]} is found as`).toBe(key);
        found.add(key);
      });
    }
    expect(sorted(found), "contents that are found").toEqual(sorted(new Set(this.contentOf.values())));
  }

  /** The blocks of a prompt's whole blocks if all are stored. */
  found(request: Request): number[] | undefined {
    const count = this.#lookedUp(request, request.promptBlocks);
    if (count < request.promptBlocks || count === 0) return undefined;
    const { table, match } = this.#lookUp(request, count);
    return match === count ? table : undefined;
  }

  /** All blocks with the same content as this one. */
  alike(block: number): number[] {
    const content = this.contentOf.get(block);
    return [...this.contentOf].filter(([, other]) => other === content).map(([other]) => other);
  }

  /** What has to go with a prefix that is found in these blocks: worked out from contents and holders alone. */
  goesWith(request: Request, blocks: readonly number[], isHeld: (block: number) => boolean): number[] {
    if (this.isWhole) return [...blocks];
    const keys = keysOf(request, request.promptBlocks);
    const isTree = this.#cache.rules.victims === "leaf" || this.#cache.index.leaves !== undefined || this.#hangs();
    const goes = new Set<number>();
    if (!isTree) {
      // Equal contents go together; what somebody uses stays, and with it what comes before it.
      for (let i = keys.length - 1; i >= 0; i--) {
        const same = this.alike(blocks[i]);
        if (same.some(isHeld)) break;
        for (const block of same) goes.add(block);
      }
      return [...goes];
    }
    const end = keys[keys.length - 1];
    for (const [block, content] of this.contentOf) if (this.#isBelow(content, end)) goes.add(block);
    for (let i = keys.length - 2; i >= 0 && !isHeld(blocks[i]); i--) {
      const others = [...this.contentOf].some(
        ([block, content]) => this.#parentOf.get(content) === keys[i] && !goes.has(block),
      );
      if (others) break;
      goes.add(blocks[i]);
    }
    return [...goes];
  }

  /** Whether the index knows what extends a block. */
  #hangs(): boolean {
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
