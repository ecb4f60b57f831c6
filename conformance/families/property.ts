import { audit } from "../../core/cache/audit.ts";
import type { Sequence } from "../../core/cache/request.ts";
import { assert } from "../../core/errors.ts";
import type { BlockId } from "../../core/plugins/index.ts";
import { type Random, seededRandom } from "../../core/random.ts";
import { DrivenCache } from "../caches/driven-cache.ts";
import { tgiCache } from "../caches/tgi.ts";
import type { Family } from "../family.ts";
import { isKnownInvariant } from "../invariants.ts";
import { meanings } from "../phrases.ts";
import { type Fields, integer, isRecord, list, name, recordOf, shown, Unsupported } from "../values.ts";
import { reservedOf } from "./radix-block-allocator.ts";

/**
 * TGI v3: prompts from a short text, which therefore share prefixes, are admitted until no more fit, and all or some of them
 * finish; repeatedly. Each time the cache is audited, and the content of hits is compared with the content that was stored. A
 * broken invariant is an error of the program.
 */
export const property: Family = {
  name: "property",
  configKeys: [
    "block_size",
    "data_len",
    "decode_len",
    "free_modes",
    "iterations",
    "num_blocks",
    "prefill_len",
    "reserved_blocks",
    "vocab",
  ],
  ops: { property: { inputs: ["invariants"], expects: {}, claims: ["invariants"] } },
  start(config) {
    const sizes = sizesOf(config);
    const modes = config["free_modes"] === undefined ? ["all"] : list(config["free_modes"], "free_modes");
    const frees = modes.flatMap((mode) => [...meanings(mode, "a mode of free_modes", freeing)]);
    return {
      run(_, { invariants }) {
        for (const invariant of invariants === undefined ? [] : list(invariants, "invariants"))
          checkKnown(invariant, config["reserved_blocks"]);
        for (const mode of frees) new Trial(sizes, mode === "all").run();
        return {};
      },
    };
  },
};

const freeing = {
  all: /^(?:(?:remove|free|release) )?(?:all|everything)(?: of them)?$/,
  some: /^(?:(?:remove|free|release) )?(?:an? |the )?(?:random )?(?:some|subset|random|half|part|partial|mixed|some at random)$/,
} as const;

/** Every known invariant is checked in every trial. @throws Unsupported for any other. */
function checkKnown(invariant: unknown, reserved: unknown): void {
  const sentence = name(invariant, "an invariant");
  // Reserved blocks are not in the pool, so that they cannot be allocated.
  const isEmpty = /reserved/i.test(sentence) && reservedOf(reserved) === 0;
  if (!isKnownInvariant(sentence) || isEmpty) throw new Unsupported(`the invariant ${shown(invariant)} is not known`);
}

interface Sizes {
  readonly blockTokens: number;
  readonly blocks: number;
  readonly vocabulary: number;
  readonly dataTokens: number;
  /** Lengths are random in [from, to). */
  readonly prefill: readonly [number, number];
  readonly decode: readonly [number, number];
  readonly iterations: number;
}

const maxIterations = 1e6;
const maxTokens = 1e4;
/** Total number of audited blocks, about ten seconds. */
const maxAuditedBlocks = 1e8;

function sizesOf(config: Fields): Sizes {
  const { block_size, num_blocks, reserved_blocks, vocab, data_len, prefill_len, decode_len, iterations } = config;
  const times = integer(iterations, "iterations", 1);
  if (times > maxIterations) throw new Unsupported(`iterations is ${times}`);
  const blocks = integer(num_blocks, "num_blocks", 1) - reservedOf(reserved_blocks);
  if (times * blocks > maxAuditedBlocks) throw new Unsupported(`${times} iterations over ${blocks} blocks`);
  return {
    blockTokens: integer(block_size ?? 1, "block_size", 1),
    blocks,
    vocabulary: integer(vocab, "vocab", 1),
    dataTokens: lengths(data_len, "data_len")[1],
    prefill: lengths(prefill_len, "prefill_len"),
    decode: lengths(decode_len, "decode_len"),
    iterations: times,
  };
}

/** `[from, to)`, as a list or as a range, or one number: from 0 up to it. */
function lengths(value: unknown, what: string): readonly [number, number] {
  if (isRecord(value)) return lengths(recordOf(value, what, ["range"])["range"], what);
  const [from, to] = Array.isArray(value) ? value : [0, value];
  const range = [integer(from, what), integer(to, what, 1)] as const;
  if (range[1] > maxTokens) throw new Unsupported(`${what} is ${shown(value)}, expected at most ${maxTokens}`);
  if (range[1] <= range[0] || (Array.isArray(value) && value.length !== 2))
    throw new Unsupported(`${what} is ${shown(value)}, expected [a, b) or a number`);
  return range;
}

/** A prompt, and its offset in the data. */
interface Text {
  readonly offset: number;
  readonly prompt: readonly number[];
}

class Trial {
  readonly #sizes: Sizes;
  readonly #all: boolean;
  readonly #random: Random = seededRandom(20251121);
  readonly #driven: DrivenCache;
  readonly #data: readonly number[];
  #running: (Text & { readonly sequence: Sequence })[] = [];
  /** By block: offset of its prompt in the data, and the block's index in the request. */
  readonly #written = new Map<BlockId, { readonly offset: number; readonly block: number }>();

  constructor(sizes: Sizes, all: boolean) {
    this.#sizes = sizes;
    this.#all = all;
    this.#driven = new DrivenCache(tgiCache(sizes.blockTokens, sizes.blocks));
    this.#data = Array.from({ length: sizes.dataTokens }, () => this.#below(sizes.vocabulary));
  }

  run(): void {
    for (let iteration = 0; iteration < this.#sizes.iterations; iteration++) {
      // The limit is for requests that need no private block, which could be admitted without end.
      for (let count = 0; count < 2 * this.#sizes.blocks && this.#allocate(); count++);
      this.#audit();
      this.#free(this.#all);
      this.#audit();
      this.#driven.log.keepLast(0);
    }
    this.#free(true);
    this.#audit();
  }

  #below(limit: number): number {
    return this.#random.below(limit);
  }

  #length([from, to]: readonly [number, number]): number {
    return from + this.#below(to - from);
  }

  #allocate(): boolean {
    const { prefill, decode } = this.#sizes;
    const offset = this.#below(this.#data.length);
    const prompt = this.#data.slice(offset, offset + this.#length(prefill));
    const outputTokens = this.#length(decode);
    const sequence = this.#driven.arrive({ prompt, maxOutputTokens: outputTokens + 1 });
    if (!this.#driven.cache.admit(sequence, prompt.length, this.#driven.now)) return false;
    const { cachedTokens, cachedBlocks, blockCount } = sequence;
    const size = this.#sizes.blockTokens;
    assert(cachedTokens <= prompt.length, () => `a prefix of ${cachedTokens} tokens, of ${prompt.length}`);
    assert(
      cachedTokens === cachedBlocks * size,
      () => `a prefix of ${cachedTokens} tokens is not a multiple of the block size`,
    );
    const needed = Math.ceil((prompt.length + outputTokens) / size);
    assert(blockCount === needed, () => `${blockCount} blocks where ${needed} are needed`);
    this.#check(sequence, { offset, prompt }, cachedBlocks);
    for (let i = cachedBlocks; i < blockCount; i++) this.#written.set(sequence.table[i], { offset, block: i });
    this.#driven.compute(sequence);
    this.#running.push({ sequence, offset, prompt });
    return true;
  }

  /**
   * Checks that the first blocks of a request contain its prompt: each was written for the same tokens after the same prefix.
   */
  #check(sequence: Sequence, { offset, prompt }: Text, blocks: number): void {
    /** By offset of the prompt for which a block was written: number of leading tokens in common with this prompt. */
    const common = new Map<number, number>();
    for (let i = 0; i < blocks; i++) {
      const written = this.#written.get(sequence.table[i]);
      const end = Math.min(prompt.length, (i + 1) * this.#sizes.blockTokens);
      const from = written?.offset ?? 0;
      let same = common.get(from) ?? 0;
      while (same < end && this.#data[from + same] === this.#data[offset + same]) same++;
      common.set(from, same);
      const isSame = written?.block === i && same >= end;
      assert(
        isSame,
        () => `block ${sequence.table[i]} does not contain the tokens before ${end} of the prompt at ${offset}`,
      );
    }
  }

  #free(all: boolean): void {
    this.#running = this.#running.filter(({ sequence, ...text }) => {
      if (!all && this.#random.below(2) === 0) return true;
      this.#check(sequence, text, Math.ceil(text.prompt.length / this.#sizes.blockTokens));
      this.#driven.finish(sequence);
      return false;
    });
    const { availableBlocks } = this.#driven.cache;
    const { blocks } = this.#sizes;
    const isWhole = this.#running.length > 0 || availableBlocks === blocks;
    assert(isWhole, () => `${availableBlocks} of ${blocks} blocks are left when all have ended`);
  }

  #audit(): void {
    audit(
      this.#driven.cache,
      this.#running.map(({ sequence }) => sequence),
    );
  }
}
