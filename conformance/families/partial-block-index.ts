import { EntryColumns, type Insertion } from "../../core/plugins/entry-columns.ts";
import type { IndexHost, Match, PartialMatch, PrefixIndex } from "../../core/plugins/index.ts";
import { resolveRules } from "../../core/plugins/rules.ts";
import { ContentIds } from "../../core/trace/content.ts";
import { blockTrie } from "../../policies/index/block-trie.ts";
import type { Family, Found, Instance } from "../family.ts";
import { type Fields, integer, list, name, shown, tokens, Unsupported } from "../values.ts";

/**
 * TurboMind 2026: an index of blocks that may be partial. `find` returns an equal block, `search` the longest block that is a
 * prefix of the given one; the fingerprints of images that start in a block are part of its content. The lookups are `match`
 * and
 * `matchPartial` of the block trie.
 */
export const partialBlockIndex: Family = {
  name: "partial-block-index",
  configKeys: ["block_size"],
  ops: {
    index: { inputs: ["id", "image_fps", "parent", "tokens"], expects: {} },
    find: { inputs: ["image_fps", "parent", "tokens"], expects: { hit: "plain" } },
    search: { inputs: ["fp_pos", "image_fps", "parent", "tokens"], expects: { hit: "plain", matched_tokens: "plain" } },
  },
  start: ({ block_size }, ops) => new PartialBlocks(integer(block_size, "block_size", 1), ops.length),
};

/** A block that was inserted into the index. */
interface Block {
  readonly id: unknown;
  /** Number of its physical block. */
  readonly block: number;
  /** Content ids of the path to it and of itself. */
  readonly path: readonly number[];
  readonly tokens: number;
  readonly images: readonly string[];
}

/** Images are keys after the tokens of a block, numbered from this one, which is above all token ids. */
const firstImage = 2 ** 31;
const maxBlockTokens = 2 ** 12;
/** A fingerprint that was not computed: it is equal to no other, and not to itself. */
const noFingerprint = "";

class PartialBlocks implements Instance {
  readonly #blockTokens: number;
  readonly #ids: ContentIds;
  readonly #trie: PrefixIndex;
  readonly #columns: EntryColumns;
  readonly #blocks: Block[] = [];
  readonly #named = new Map<string, Block | "not stored">();
  readonly #imageNumbers = new Map<string, number>();

  constructor(blockTokens: number, maxBlocks: number) {
    if (blockTokens > maxBlockTokens) throw new Unsupported(`block_size is ${blockTokens}`);
    this.#blockTokens = blockTokens;
    this.#ids = new ContentIds({ blockKeys: 2 * blockTokens, keepContents: true });
    const rules = resolveRules(blockTrie.defaults ?? {});
    this.#columns = new EntryColumns(maxBlocks, rules["free-order"]);
    this.#trie = blockTrie.create({ host: hostOf(this.#columns), rules, blockTokens }, maxBlocks);
  }

  run(op: string, inputs: Fields): Found {
    const above = this.#parent(inputs["parent"]);
    const span = tokens(inputs["tokens"]);
    if (span.length === 0 || span.length > this.#blockTokens)
      throw new Unsupported(`a block of ${span.length} tokens, expected 1 to ${this.#blockTokens}`);
    const images = list(inputs["image_fps"] ?? [], "image_fps").map(fingerprint);
    if (op === "index") {
      this.#index(inputs["id"], above, span, images);
      return {};
    }
    if (op === "find") return { hit: named(this.#find(above, span, images)) };
    const starts = list(inputs["fp_pos"] ?? [], "fp_pos").map((each) => integer(each, "a place in fp_pos"));
    const hit = this.#search(above, span, images, starts);
    return { hit: named(hit), matched_tokens: hit?.tokens ?? 0 };
  }

  /** Inserts a block; of equal blocks the first is kept. */
  #index(id: unknown, above: Block | undefined, span: readonly number[], images: readonly string[]): void {
    const label = name(id, "id");
    if (this.#named.has(label)) throw new Unsupported(`id ${shown(id)} already exists`);
    const path = [...(above?.path ?? []), this.#contentOf(above, span, images)];
    const own: Block = { id, block: this.#blocks.length, path, tokens: span.length, images };
    const at = path.length - 1;
    const table = new Int32Array(path.length);
    if (above !== undefined) table[at - 1] = above.block;
    table[at] = own.block;
    const insertion: Insertion = {
      keys: Uint32Array.from(path),
      start: 0,
      table,
      from: at,
      to: at + 1,
      promptBlocks: path.length,
      promptTokens: path.length * this.#blockTokens,
      lastTokens: path.length * this.#blockTokens,
      partialAt: -1,
      finishes: false,
      replacements: new Int32Array(1),
    };
    this.#trie.expectKeys(this.#ids.count);
    const isStored = this.#trie.insert(insertion) || insertion.replacements[0] === own.block;
    if (isStored) this.#blocks.push(own);
    this.#named.set(label, isStored ? own : "not stored");
  }

  #find(above: Block | undefined, span: readonly number[], images: readonly string[]): Block | undefined {
    if (images.includes(noFingerprint)) return undefined;
    const path = Uint32Array.from([...(above?.path ?? []), this.#contentOf(above, span, images)]);
    const table = new Int32Array(path.length);
    const found: Match = { blocks: 0, absent: 0, evicted: 0 };
    this.#trie.expectKeys(this.#ids.count);
    this.#trie.match(path, 0, path.length, table, found);
    return found.blocks === path.length ? this.#blocks[table[path.length - 1]] : undefined;
  }

  #search(
    above: Block | undefined,
    span: readonly number[],
    images: readonly string[],
    starts: readonly number[],
  ): Block | undefined {
    const key = this.#contentOf(above, span, []);
    const contents = { commonTokens: (a: number, b: number) => this.#ids.commonKeys(a, b) };
    const maxTokens = Math.min(span.length, this.#blockTokens - 1);
    const isUsable = (block: number) => {
      const { tokens: count, images: own } = this.#blocks[block];
      // All tokens of the stored block must match, and its images those that start within these tokens.
      if (count > maxTokens || contents.commonTokens(this.#columns.key[block], key) !== count) return false;
      return sameImages(own, startingIn(count, images, starts));
    };
    const found: PartialMatch = { block: -1, tokens: 0, maxTokens, isUsable };
    this.#trie.expectKeys(this.#ids.count);
    this.#trie.matchPartial?.(above?.block ?? -1, key, contents, found);
    return found.tokens > 0 ? this.#blocks[found.block] : undefined;
  }

  #contentOf(above: Block | undefined, span: readonly number[], images: readonly string[]): number {
    if (images.length > this.#blockTokens) throw new Unsupported(`${images.length} images in one block`);
    if (span.some((token) => token >= firstImage)) throw new Unsupported("a token is 2^31 or more");
    const row = Uint32Array.from([...span, ...images.map((image) => this.#numberOf(image))]);
    return this.#ids.intern(above?.path.at(-1), 0, row, 0, row.length);
  }

  #numberOf(image: string): number {
    const known = this.#imageNumbers.get(image);
    if (known !== undefined) return known;
    const number = firstImage + this.#imageNumbers.size;
    this.#imageNumbers.set(image, number);
    return number;
  }

  #parent(value: unknown): Block | undefined {
    if (value === undefined || value === null) return undefined;
    if (value === "root" && !this.#named.has("root")) return undefined;
    const found = this.#named.get(name(value, "parent"));
    if (found !== undefined && found !== "not stored") return found;
    throw new Unsupported(`parent ${shown(value)} is ${found ?? "unknown"}`);
  }
}

/** The block's id or null; an expected boolean is compared with whether there is one. */
const named = (hit: Block | undefined) => (expected: unknown) =>
  typeof expected === "boolean" ? hit !== undefined : (hit?.id ?? null);

/** Text, or a number except 0; an empty text is a fingerprint that was not computed. */
function fingerprint(value: unknown): string {
  if (value === null || value === "") return noFingerprint;
  if (value === 0) throw new Unsupported("a fingerprint is 0, expected a name");
  return name(value, "a fingerprint");
}

/** The images, in their order, up to the first that does not start in the first `count` tokens. */
function startingIn(count: number, images: readonly string[], starts: readonly number[]): readonly string[] {
  let within = 0;
  while (within < images.length && within < starts.length && starts[within] < count) within++;
  return images.slice(0, within);
}

const sameImages = (a: readonly string[], b: readonly string[]) =>
  a.length === b.length && a.every((image, i) => image !== noFingerprint && image === b[i]);

const nothing = () => {};

/** A host that ignores all callbacks: all blocks are referenced, so that none is evicted. */
const hostOf = (columns: EntryColumns): IndexHost => ({
  columns,
  countsHits: false,
  isIdle: () => false,
  isPinned: () => false,
  created: nothing,
  createdBlocks: nothing,
  hit: nothing,
  touch: nothing,
  evictable: nothing,
  touchMany: nothing,
  released: nothing,
  blocked: nothing,
  dropped: nothing,
  split: nothing,
  resized: nothing,
  evicted: nothing,
  blockDropped: nothing,
});
