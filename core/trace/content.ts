import { assert, InputError } from "../errors.ts";
import { grown } from "../grown.ts";
import { Sessions } from "./sessions.ts";
import type { Trace } from "./trace.ts";

/**
 * The blocks of every request as content ids: two blocks have the same id if and only if their tokens, all tokens before
 * them and their namespaces are equal. Indexes, policies, counters and the optimum compare content ids only, never tokens.
 */
export interface BlockColumns {
  readonly blockTokens: number;
  /** Content id of each block; the blocks of request r are `keys[start[r] .. start[r + 1])`. */
  readonly keys: Uint32Array;
  readonly start: Float64Array;
  /** By request: number of prompt blocks (in content-id traces including a partial last one). */
  readonly promptBlocks: Uint32Array;
  /** One more than the largest id so far. */
  readonly distinct: number;
  /**
   * Content ids computed without namespaces, to detect misses that are caused by a namespace; only if the trace has namespaces.
   */
  readonly plainKeys?: Uint32Array;
  /** The tokens of the blocks, for partial matches; only with the rule `partial`. */
  readonly contents?: BlockContents;
  /** By request: content id of the prompt's tokens after its last whole block, or `noTail`; with `contents`. */
  readonly tails?: Uint32Array;
  /** Blocks of output tokens have content ids, too. */
  readonly generated?: boolean;
  /** The incomplete last block of a finished request has a content id too (rule `store-tail`). */
  readonly storedTails?: boolean;
}

export const noTail = 0xffff_ffff;

export interface BlockContents {
  /** Number of leading tokens that two blocks have in common; 0 if the tokens before the blocks differ. */
  commonTokens(a: number, b: number): number;
}

/** Chained hash of a block: replaces the state of its prefix in `lanes` by the state that includes the block's tokens. */
export type ChainHash = (lanes: Int32Array, tokens: Uint32Array, from: number, count: number) => void;

/**
 * Four independent 32-bit multiply-xor lanes, mixed at the end of the block. Fast, because the lanes run in parallel in the
 * processor, and well distributed, but not safe against an adversary: therefore equal hashes are confirmed by content.
 */
export const fourLanes: ChainHash = (lanes, tokens, from, count) => {
  let a = lanes[0];
  let b = lanes[1];
  let c = lanes[2];
  let d = lanes[3];
  const end = (from + count) | 0;
  let i = from | 0;
  for (const whole = end - 3; i < whole; i += 4) {
    a = Math.imul(a ^ tokens[i], 0x9e3779b1);
    b = Math.imul(b ^ tokens[i + 1], 0x85ebca77);
    c = Math.imul(c ^ tokens[i + 2], 0xc2b2ae3d);
    d = Math.imul(d ^ tokens[i + 3], 0x27d4eb2f);
    a ^= a >>> 15;
    b ^= b >>> 13;
    c ^= c >>> 16;
    d ^= d >>> 14;
  }
  for (; i < end; i++) {
    a = Math.imul(a ^ tokens[i], 0x9e3779b1);
    a ^= a >>> 15;
    const first = a;
    a = b;
    b = c;
    c = d;
    d = first;
  }
  // Every lane depends on all four and on the block's length.
  let all = a ^ (b << 7) ^ (c << 13) ^ (d << 19) ^ b ^ c ^ d ^ count;
  all = Math.imul(all ^ (all >>> 15), 0x165667b1);
  all ^= all >>> 13;
  a = Math.imul(a ^ all, 0x9e3779b1);
  b = Math.imul(b ^ all, 0x85ebca77);
  c = Math.imul(c ^ all, 0xc2b2ae3d);
  d = Math.imul(d ^ all, 0x27d4eb2f);
  lanes[0] = a ^ (a >>> 16);
  lanes[1] = b ^ (b >>> 15);
  lanes[2] = c ^ (c >>> 14);
  lanes[3] = d ^ (d >>> 17);
};

export interface ContentIdsOptions {
  /** Keys in a full block: tokens, or units of a content-id trace. */
  readonly blockKeys: number;
  readonly hash?: ChainHash;
  /** `compare`: equal hashes are confirmed by content. `trust`: equal 128-bit hashes count as equal content. */
  readonly collision?: "compare" | "trust";
  /** Keep the keys of the blocks for `commonKeys`, even where hashes are trusted. */
  readonly keepContents?: boolean;
}

/** A power of two; columns double. */
const initialContents = 128;
const noParent = 0xffff_ffff;
/** Stands for the first output token that is not in the trace; above all token ids. */
const firstUnknownToken = 2 ** 31;
/** Namespace of output blocks whose tokens are not in the trace. */
const unknownNamespace = 0x7fff_ffff;

/**
 * Numbers distinct prefixes of whole blocks. A prefix is found by its chained hash and confirmed by its parent's id and the
 * tokens of its last block: by induction the whole prefix is compared, at the cost of one block.
 */
export class ContentIds {
  /** Ids so far: 0 .. count − 1. */
  count = 0;
  readonly #blockKeys: number;
  readonly #hash: ChainHash;
  readonly #compare: boolean;
  readonly #keeps: boolean;
  #parent = new Uint32Array(initialContents);
  #length = new Uint16Array(initialContents);
  #lanes = new Int32Array(4 * initialContents);
  #tokens: Uint32Array;
  /** Open addressing: id + 1, 0 = empty; never more than half full. */
  #slots = new Uint32Array(2 * initialContents);
  readonly #scratch = new Int32Array(4);

  constructor(options: ContentIdsOptions) {
    this.#blockKeys = options.blockKeys;
    this.#hash = options.hash ?? fourLanes;
    this.#compare = options.collision !== "trust";
    this.#keeps = this.#compare || options.keepContents === true;
    this.#tokens = new Uint32Array(this.#keeps ? initialContents * options.blockKeys : 0);
  }

  /** The id of `tokens[from .. from + count)` after the prefix `parent` (undefined: at the start of `namespace`). */
  intern(parent: number | undefined, namespace: number, tokens: Uint32Array, from: number, count: number): number {
    const lanes = this.#scratch;
    if (parent === undefined) {
      lanes[0] = Math.imul(namespace, 0x2545f491) ^ 0x6a09e667;
      lanes[1] = namespace ^ 0x3c6ef372;
      lanes[2] = 0x1f83d9ab;
      lanes[3] = 0x5be0cd19;
    } else {
      for (let lane = 0; lane < 4; lane++) lanes[lane] = this.#lanes[parent * 4 + lane];
    }
    // The root of a namespace is a parent, too: numbered from the largest integer downwards, which no id reaches.
    const above = parent ?? noParent - namespace;
    this.#hash(lanes, tokens, from, count);
    const mask = this.#slots.length - 1;
    for (let slot = lanes[0] & mask; ; slot = (slot + 1) & mask) {
      const id = this.#slots[slot] - 1;
      if (id < 0) return this.#add(slot, above, tokens, from, count);
      if (this.#sameHash(id) && (!this.#compare || this.#sameContent(id, above, tokens, from, count))) return id;
    }
  }

  /** Number of leading keys that two contents have in common; 0 if their parents differ. */
  commonKeys(a: number, b: number): number {
    if (this.#parent[a] !== this.#parent[b]) return 0;
    const [first, second] = [a * this.#blockKeys, b * this.#blockKeys];
    const end = Math.min(this.#length[a], this.#length[b]);
    let count = 0;
    while (count < end && this.#tokens[first + count] === this.#tokens[second + count]) count++;
    return count;
  }

  #sameHash(id: number): boolean {
    const lanes = this.#scratch;
    const at = id * 4;
    return (
      this.#lanes[at] === lanes[0] &&
      this.#lanes[at + 1] === lanes[1] &&
      this.#lanes[at + 2] === lanes[2] &&
      this.#lanes[at + 3] === lanes[3]
    );
  }

  #sameContent(id: number, parent: number, tokens: Uint32Array, from: number, count: number): boolean {
    if (this.#parent[id] !== parent || this.#length[id] !== count) return false;
    const at = id * this.#blockKeys;
    for (let i = 0; i < count; i++) if (this.#tokens[at + i] !== tokens[from + i]) return false;
    return true;
  }

  #add(slot: number, parent: number, tokens: Uint32Array, from: number, count: number): number {
    const id = this.count++;
    if (id === this.#parent.length) this.#grow();
    this.#parent[id] = parent;
    this.#length[id] = count;
    this.#lanes.set(this.#scratch, id * 4);
    if (this.#keeps) {
      const at = id * this.#blockKeys;
      for (let i = 0; i < count; i++) this.#tokens[at + i] = tokens[from + i];
    }
    this.#slots[slot] = id + 1;
    if (this.count * 2 > this.#slots.length) this.#rehash();
    return id;
  }

  #grow(): void {
    const length = this.#parent.length * 2;
    this.#parent = grown(this.#parent, length);
    this.#length = grown(this.#length, length);
    this.#lanes = grown(this.#lanes, length * 4);
    if (this.#keeps) this.#tokens = grown(this.#tokens, length * this.#blockKeys);
  }

  #rehash(): void {
    this.#slots = new Uint32Array(this.#slots.length * 2);
    const mask = this.#slots.length - 1;
    for (let id = 0; id < this.count; id++) {
      let slot = this.#lanes[id * 4] & mask;
      while (this.#slots[slot] !== 0) slot = (slot + 1) & mask;
      this.#slots[slot] = id + 1;
    }
  }
}

/** A batch has namespaces and the first one has none. The trace can be run in one batch, or with `lateNamespaces`. */
export class LateNamespaces extends InputError {
  constructor() {
    super("the first requests of the trace have no namespaces and later ones have");
  }
}

export interface BlockKeysOptions {
  readonly unitTokens: number;
  readonly blockTokens: number;
  /** Assign content ids to blocks of output tokens too (rule `cache-generated`). */
  readonly generated?: boolean;
  /** Provide `contents` and `tails` too (rule `partial`). */
  readonly partial?: boolean;
  /** A prompt's partial last block is one of its blocks, as it always is in traces of content ids. */
  readonly wholePrompts?: boolean;
  /** Assign a content id to the incomplete last block of a finished request too (rule `store-tail`). */
  readonly storedTails?: boolean;
  /** Batches may have namespaces although the first one has none. Content ids of all batches are then assigned here. */
  readonly lateNamespaces?: boolean;
  /** Every session is a separate namespace (rule `share=session`), and so is every request without a session. */
  readonly bySession?: boolean;
  readonly hash?: ChainHash;
  readonly collision?: "compare" | "trust";
}

/** The blocks of a prompt, and what the ids of its output's blocks are assigned by. */
export interface PromptBlocks {
  readonly columns: BlockColumns;
  /** Blocks of output tokens have content ids. */
  readonly generated: boolean;
  /** So has the incomplete last block of a finished request. */
  readonly storedTails: boolean;
  /** The content id of `tokens[0, count)` after the block with the ids `above` and `plainAbove`; undefined: at the start. */
  intern(
    above: number | undefined,
    plainAbove: number | undefined,
    tokens: Uint32Array,
    count: number,
  ): { readonly key: number; readonly plainKey: number | undefined; readonly distinct: number };
}

/** Converts the batches of a trace to content ids at one block size. */
export class BlockKeys implements BlockContents {
  readonly blockTokens: number;
  readonly #unitTokens: number;
  readonly #unitsPerBlock: number;
  readonly #generated: boolean;
  readonly #partial: boolean;
  readonly #wholePrompts: boolean;
  readonly #storedTails: boolean;
  readonly #sessions: Sessions | undefined;
  readonly #ids: ContentIds;
  readonly #plainIds: ContentIds;
  #row = new Uint32Array(1024);
  #distinct = 0;
  #idOfTraceId: Uint32Array = new Uint32Array(0);
  #unknownOutputs = 0;
  /** Whether the first batch has namespaces, or later ones may: it determines for all batches whether content ids are assigned here. */
  #hasNamespaces: boolean | undefined;

  /** @throws InputError if the block size is not a multiple of the trace's unit. */
  constructor(options: BlockKeysOptions) {
    const { unitTokens, blockTokens } = options;
    if (!Number.isInteger(blockTokens) || blockTokens <= 0 || blockTokens % unitTokens !== 0) {
      throw new InputError(
        `block size is ${blockTokens}, expected a multiple of the trace's unit, ${unitTokens} tokens`,
      );
    }
    this.blockTokens = blockTokens;
    this.#unitTokens = unitTokens;
    this.#unitsPerBlock = blockTokens / unitTokens;
    if (this.#unitsPerBlock > 0xffff)
      throw new InputError(`block size is ${this.#unitsPerBlock} units of the trace, expected at most 65535`);
    this.#generated = options.generated ?? false;
    this.#partial = options.partial ?? false;
    this.#wholePrompts = options.wholePrompts ?? false;
    this.#storedTails = options.storedTails ?? false;
    this.#sessions = options.bySession ? new Sessions() : undefined;
    if (options.lateNamespaces) this.#hasNamespaces = true;
    const { hash, collision } = options;
    const ids = { blockKeys: this.#unitsPerBlock, ...(hash && { hash }), ...(collision && { collision }) };
    this.#ids = new ContentIds({ ...ids, keepContents: this.#partial });
    this.#plainIds = new ContentIds(ids);
  }

  /** Distinct contents that have an id. */
  get distinct(): number {
    return Math.max(this.#distinct, this.#ids.count);
  }

  commonTokens(a: number, b: number): number {
    return this.#ids.commonKeys(a, b) * this.#unitTokens;
  }

  /** The block columns of one trace or batch; the trace's own arrays if the block size is the trace's unit. */
  of(trace: Trace): BlockColumns {
    assert(trace.unitTokens === this.#unitTokens, `a trace of unit ${trace.unitTokens}, expected ${this.#unitTokens}`);
    const hasNamespaces = this.#sessions !== undefined || trace.optional.namespace !== undefined;
    this.#hasNamespaces ??= hasNamespaces;
    if (hasNamespaces && !this.#hasNamespaces) throw new LateNamespaces();
    const interns = trace.unitTokens === 1 || this.#hasNamespaces || this.#partial;
    const numbered = trace.lengthsOnly
      ? this.#fromLengths(trace)
      : interns
        ? this.#interned(trace, this.#namespacesOf(trace))
        : this.#fromContentIds(trace);
    const columns = {
      ...numbered,
      ...(this.#generated && { generated: true }),
      ...(this.#storedTails && { storedTails: true }),
    };
    assert(
      columns.keys.length < 2 ** 31,
      "a batch has more blocks than a 32-bit index can address; read it in smaller ones",
    );
    return columns;
  }

  /** The prompt blocks of one request of token ids, whose output tokens become known one by one (`GrowingBlocks`). */
  promptOf(trace: Trace): PromptBlocks {
    assert(trace.unitTokens === 1 && trace.requestCount === 1, "one request of token ids");
    this.#hasNamespaces ??= this.#sessions !== undefined || trace.optional.namespace !== undefined;
    const namespace = this.#namespacesOf(trace);
    const columns = this.#interned({ ...trace, outputTokens: new Uint32Array(1) }, namespace);
    return {
      ...{ columns, generated: this.#generated, storedTails: this.#storedTails },
      intern: (above, plainAbove, tokens, count) => ({
        key: this.#ids.intern(above, namespace?.[0] ?? 0, tokens, 0, count),
        plainKey: columns.plainKeys && this.#plainIds.intern(plainAbove, 0, tokens, 0, count),
        distinct: this.#ids.count,
      }),
    };
  }

  /** Columns of a trace without keys: every block is new content. */
  #fromLengths(trace: Trace): BlockColumns {
    const n = trace.requestCount;
    const promptBlocks = new Uint32Array(n);
    const start = new Float64Array(n + 1);
    for (let r = 0; r < n; r++) {
      const blocks = trace.inputTokens[r] / this.blockTokens;
      promptBlocks[r] = this.#wholePrompts ? Math.ceil(blocks) : Math.floor(blocks);
      start[r + 1] = start[r] + Math.max(promptBlocks[r], this.#allBlocks(trace, r));
    }
    const keys = new Uint32Array(start[n]);
    for (let i = 0; i < keys.length; i++) keys[i] = this.#distinct++;
    return { blockTokens: this.blockTokens, keys, start, promptBlocks, distinct: this.#distinct };
  }

  /** Columns of a content-id trace: a block's id is that of the last unit in it. */
  #fromContentIds(trace: Trace): BlockColumns {
    const m = this.#unitsPerBlock;
    if (!this.#generated) this.#distinct = Math.max(this.#distinct, trace.distinctKeys);
    const n = trace.requestCount;
    const promptBlocks = new Uint32Array(n);
    for (let r = 0; r < n; r++) promptBlocks[r] = this.#contentIdBlocks(trace, r);
    const { blockTokens } = this;
    if (m === 1 && !this.#generated) {
      return { blockTokens, keys: trace.keys, start: trace.keyStart, promptBlocks, distinct: this.#distinct };
    }
    const start = new Float64Array(n + 1);
    for (let r = 0; r < n; r++) start[r + 1] = start[r] + Math.max(promptBlocks[r], this.#allBlocks(trace, r));
    const keys = new Uint32Array(start[n]);
    const numbered = this.#generated ? this.#numbersOf(trace) : undefined;
    for (let r = 0; r < n; r++) {
      const end = trace.keyStart[r + 1] - 1;
      for (let i = 0; i < promptBlocks[r]; i++) {
        const key = trace.keys[Math.min(trace.keyStart[r] + (i + 1) * m - 1, end)];
        keys[start[r] + i] = numbered ? numbered[key] : key;
      }
      // The trace has no ids of output tokens: every output block gets a new content id.
      for (let at = start[r] + promptBlocks[r]; at < start[r + 1]; at++) keys[at] = this.#distinct++;
    }
    return { blockTokens, keys, start, promptBlocks, distinct: this.#distinct };
  }

  /** Number of prompt blocks of a content-id trace: without a last block that contains tokens without an id. */
  #contentIdBlocks(trace: Trace, r: number): number {
    const units = trace.keyStart[r + 1] - trace.keyStart[r];
    const isCovered = units * this.#unitTokens >= trace.inputTokens[r];
    return isCovered ? Math.ceil(units / this.#unitsPerBlock) : Math.floor(units / this.#unitsPerBlock);
  }

  /**
   * By id of the trace: its content id. Ids are renumbered, because those of output blocks must not collide with ids of later
   * batches.
   */
  #numbersOf(trace: Trace): Uint32Array {
    const known = this.#idOfTraceId.length;
    if (trace.distinctKeys > known) {
      const larger = grown(this.#idOfTraceId, trace.distinctKeys);
      for (let id = known; id < larger.length; id++) larger[id] = this.#distinct++;
      this.#idOfTraceId = larger;
    }
    return this.#idOfTraceId;
  }

  /** Number of blocks of the prompt and of the output without its last token: full ones, or with `storedTails` all. */
  #allBlocks(trace: Trace, r: number): number {
    const blocks = knownTokens(trace, r, this.#generated) / this.blockTokens;
    if (this.#storedTails) return Math.ceil(blocks);
    return this.#generated ? Math.floor(blocks) : 0;
  }

  /** By request: the namespace; undefined if the first batch has none. */
  #namespacesOf(trace: Trace): Uint32Array | undefined {
    if (this.#sessions) return this.#sessions.of(trace);
    return this.#hasNamespaces ? (trace.optional.namespace ?? new Uint32Array(trace.requestCount)) : undefined;
  }

  #interned(trace: Trace, namespace: Uint32Array | undefined): BlockColumns {
    const { generatedKeys, generatedStart } = trace.optional;
    const tokens = trace.unitTokens === 1;
    const m = this.#unitsPerBlock;
    const n = trace.requestCount;
    const promptBlocks = new Uint32Array(n);
    const start = new Float64Array(n + 1);
    const hasOutput = this.#generated && tokens && generatedKeys !== undefined && generatedStart !== undefined;
    const isOutputUnknown = this.#generated && !hasOutput;
    for (let r = 0; r < n; r++) {
      const units = trace.keyStart[r + 1] - trace.keyStart[r];
      if (!tokens) promptBlocks[r] = this.#contentIdBlocks(trace, r);
      else promptBlocks[r] = this.#wholePrompts ? Math.ceil(units / m) : Math.floor(units / m);
      start[r + 1] = start[r] + Math.max(promptBlocks[r], this.#allBlocks(trace, r));
    }
    const keys = new Uint32Array(start[n]);
    const plainKeys = namespace ? new Uint32Array(start[n]) : undefined;
    const tails = this.#partial ? new Uint32Array(n).fill(noTail) : undefined;
    for (let r = 0; r < n; r++) {
      const units = trace.keyStart[r + 1] - trace.keyStart[r];
      const outputUnits = hasOutput ? generatedStart[r + 1] - generatedStart[r] : 0;
      if (units + outputUnits >= this.#row.length) this.#row = new Uint32Array(2 * (units + outputUnits) + 1);
      this.#row.set(trace.keys.subarray(trace.keyStart[r], trace.keyStart[r + 1]));
      if (hasOutput) this.#row.set(generatedKeys.subarray(generatedStart[r], generatedStart[r + 1]), units);
      // Units whose KV is computed: that of the last output token never is.
      const known = tokens
        ? Math.min(units + outputUnits, knownTokens(trace, r, this.#generated))
        : units + outputUnits;
      const count = isOutputUnknown ? promptBlocks[r] : start[r + 1] - start[r];
      const rest = units - promptBlocks[r] * m;
      let above: number | undefined;
      let plainAbove: number | undefined;
      for (let i = 0; i < count; i++) {
        if (tails && i === promptBlocks[r] && rest > 0) tails[r] = this.#tail(namespace?.[r], above, i * m, rest);
        const length = Math.min(m, (i < promptBlocks[r] ? units : known) - i * m);
        above = this.#ids.intern(above, namespace ? namespace[r] : 0, this.#row, i * m, length);
        keys[start[r] + i] = above;
        if (plainKeys)
          plainKeys[start[r] + i] = plainAbove = this.#plainIds.intern(plainAbove, 0, this.#row, i * m, length);
      }
      if (tails && count === promptBlocks[r] && rest > 0) tails[r] = this.#tail(namespace?.[r], above, count * m, rest);
      let at = start[r] + count;
      // The block that contains the end of the prompt and output tokens that are not in the trace.
      if (tails && isOutputUnknown && rest > 0 && at < start[r + 1]) {
        this.#row[units] = firstUnknownToken + this.#unknownOutputs++;
        keys[at] = this.#ids.intern(above, namespace ? namespace[r] : 0, this.#row, count * m, rest + 1);
        if (plainKeys) plainKeys[at] = this.#plainIds.intern(plainAbove, 0, this.#row, count * m, rest + 1);
        at++;
      }
      // Output tokens that the trace does not have: unique content.
      for (; at < start[r + 1]; at++) {
        this.#row[0] = this.#unknownOutputs++;
        keys[at] = this.#ids.intern(undefined, unknownNamespace, this.#row, 0, 1);
        if (plainKeys) plainKeys[at] = this.#plainIds.intern(undefined, unknownNamespace, this.#row, 0, 1);
      }
    }
    const columns = { blockTokens: this.blockTokens, keys, start, promptBlocks, distinct: this.#ids.count };
    return { ...columns, ...(plainKeys && { plainKeys }), ...(tails && { tails, contents: this }) };
  }

  /** Content id of a prompt's tokens after its last whole block. */
  #tail(namespace: number | undefined, above: number | undefined, from: number, count: number): number {
    return this.#ids.intern(above, namespace ?? 0, this.#row, from, count);
  }
}

/** Tokens of a finished request whose KV may be cached: the prompt and, with `generated`, the output without its last token. */
export function knownTokens(trace: Trace, r: number, generated: boolean): number {
  return trace.inputTokens[r] + (generated ? Math.max(0, trace.outputTokens[r] - 1) : 0);
}
