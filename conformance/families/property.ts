import { audit } from "../../core/audit.ts";
import { assert } from "../../core/errors.ts";
import type { BlockId } from "../../core/plugins.ts";
import { type Random, seededRandom } from "../../core/random.ts";
import type { Sequence } from "../../core/request.ts";
import { DrivenCache } from "../caches/driven-cache.ts";
import { tgiCache } from "../caches/tgi.ts";
import type { Family } from "../family.ts";
import { type Fields, integer, isRecord, list, name, oneOf, recordOf, shown, Unsupported } from "../values.ts";
import { reservedOf } from "./radix-block-allocator.ts";

/**
 * TGI v3: requests over little text, which therefore share much, are admitted until nothing fits, and all or some of them
 * end; again and again. Everything is audited each time, and what is found is what was written there. A broken invariant
 * is an error of the program.
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
    const frees = modes.map((mode) => {
      const said = name(mode, "a mode of free_modes");
      if (/all/.test(said)) return "all";
      return /some|subset|random|half|part|prob|each|mixed/.test(said)
        ? "some"
        : oneOf(said, "a mode of free_modes", ["all", "some"]);
    });
    return {
      run(_, { invariants }) {
        for (const invariant of invariants === undefined ? [] : list(invariants, "invariants"))
          name(invariant, "an invariant");
        for (const mode of frees) new Trial(sizes, mode === "all").run();
        return {};
      },
    };
  },
};

interface Sizes {
  readonly blockTokens: number;
  readonly blocks: number;
  readonly vocabulary: number;
  readonly dataTokens: number;
  /** Lengths are drawn from [from, to). */
  readonly prefill: readonly [number, number];
  readonly decode: readonly [number, number];
  readonly iterations: number;
}

const mostIterations = 1e6;
const mostTokens = 1e4;

function sizesOf(config: Fields): Sizes {
  const { block_size, num_blocks, reserved_blocks, vocab, data_len, prefill_len, decode_len, iterations } = config;
  const times = integer(iterations, "iterations", 1);
  if (times > mostIterations) throw new Unsupported(`iterations is ${times}`);
  return {
    blockTokens: integer(block_size ?? 1, "block_size", 1),
    blocks: integer(num_blocks, "num_blocks", 1) - reservedOf(reserved_blocks),
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
  if (range[1] > mostTokens) throw new Unsupported(`${what} is ${shown(value)}, expected at most ${mostTokens}`);
  if (range[1] <= range[0] || (Array.isArray(value) && value.length !== 2))
    throw new Unsupported(`${what} is ${shown(value)}, expected [a, b) or a number`);
  return range;
}

class Trial {
  readonly #sizes: Sizes;
  readonly #all: boolean;
  readonly #random: Random = seededRandom(20251121);
  readonly #driven: DrivenCache;
  readonly #data: readonly number[];
  readonly #held: { readonly sequence: Sequence; readonly prompt: readonly number[] }[] = [];
  /** The text whose end each block holds. */
  readonly #written = new Map<BlockId, string>();

  constructor(sizes: Sizes, all: boolean) {
    this.#sizes = sizes;
    this.#all = all;
    this.#driven = new DrivenCache(tgiCache(sizes.blockTokens, sizes.blocks));
    this.#data = Array.from({ length: sizes.dataTokens }, () => this.#below(sizes.vocabulary));
  }

  run(): void {
    for (let iteration = 0; iteration < this.#sizes.iterations; iteration++) {
      while (this.#allocate());
      this.#audit();
      this.#free();
      this.#audit();
      this.#driven.log.keepLast(0);
    }
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
    const sequence = this.#driven.arrive({ prompt, maxOutputTokens: this.#length(decode) + 1 });
    if (!this.#driven.cache.admit(sequence, prompt.length, this.#driven.now)) return false;
    this.#check(sequence, prompt, sequence.cachedBlocks);
    for (let i = sequence.cachedBlocks; i < sequence.blockCount; i++)
      this.#written.set(sequence.table[i], this.#textTo(prompt, i));
    this.#driven.compute(sequence);
    this.#held.push({ sequence, prompt });
    return true;
  }

  /** The first blocks of a request hold its prompt. */
  #check(sequence: Sequence, prompt: readonly number[], blocks: number): void {
    for (let i = 0; i < blocks; i++) {
      const text = this.#textTo(prompt, i);
      const is = this.#written.get(sequence.table[i]);
      assert(is === text, () => `block ${sequence.table[i]} holds ${is ?? "nothing"}, expected ${text}`);
    }
  }

  #textTo(prompt: readonly number[], i: number): string {
    return prompt.slice(0, (i + 1) * this.#sizes.blockTokens).join(" ");
  }

  #free(): void {
    const kept = this.#held.filter(({ sequence, prompt }) => {
      if (!this.#all && this.#random.below(2) === 0) return true;
      this.#check(sequence, prompt, Math.ceil(prompt.length / this.#sizes.blockTokens));
      this.#driven.finish(sequence);
      return false;
    });
    this.#held.splice(0, this.#held.length, ...kept);
  }

  #audit(): void {
    audit(
      this.#driven.cache,
      this.#held.map(({ sequence }) => sequence),
    );
  }
}
