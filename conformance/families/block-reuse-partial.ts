import type { Sequence } from "../../core/cache/request.ts";
import { appendedTokens, isOn, lookUp } from "../caches/case-inputs.ts";
import { DrivenCache } from "../caches/driven-cache.ts";
import { trtLlmCache } from "../caches/trt-llm.ts";
import type { Operation } from "../case.ts";
import type { Family, Found, Instance } from "../family.ts";
import { meanings } from "../phrases.ts";
import { type Fields, integer, name, shown, tokens, Unsupported } from "../values.ts";

/**
 * TensorRT-LLM: full blocks are shared; a partially matching one is reused in place if it is an idle leaf, otherwise copied.
 */
export const blockReusePartial: Family = {
  name: "block-reuse-partial",
  configKeys: ["block_size", "copy_on_partial", "num_blocks", "partial_reuse", "store"],
  ops: {
    add: { inputs: ["req", "tokens"], expects: { blocks: "blocks", prepopulated_tokens: "plain" } },
    append: { inputs: ["req", "tokens"], expects: {} },
    release: { inputs: ["req"], expects: {} },
  },
  start: (config, ops) => new Manager(config, ops),
};

/** Spellings of the time at which blocks are stored, and of the tokens that are not stored. */
const storing = {
  release:
    /^(?:(?:at|on|upon|after) (?:the )?(?:release|finish|free|end)(?: of (?:a|the|each) (?:request|sequence))?|release|(?:when|once) (?:released|finished|freed)|when (?:a|the) (?:request|sequence) (?:ends|finishes|is released|is freed|is finished))$/,
  "but the last token":
    /^(?:all )?(?:but|without|except|excluding) (?:for )?(?:the )?last token$|^(?:the )?last token (?:is )?(?:excluded|never stored|not stored|left out)$/,
} as const;

class Manager implements Instance {
  readonly #driven: DrivenCache;
  readonly #ops: readonly Operation[];
  readonly #sequences = new Map<string, Sequence>();
  #done = 0;

  constructor(config: Fields, ops: readonly Operation[]) {
    const { block_size, copy_on_partial, num_blocks, partial_reuse, store } = config;
    if (store !== undefined && !meanings(store, "store", storing).has("release"))
      throw new Unsupported(`store is ${shown(store)}, expected: at the release`);
    const copies = isOn(copy_on_partial, "copy_on_partial", true);
    const partial = !isOn(partial_reuse, "partial_reuse", true) ? "none" : copies ? "steal" : "steal-only";
    const parts = trtLlmCache(integer(block_size, "block_size", 1), integer(num_blocks, "num_blocks", 1), {
      partial,
    });
    this.#driven = new DrivenCache(parts);
    this.#ops = ops;
  }

  run(op: string, inputs: Fields): Found {
    const found = this.#run(op, name(inputs["req"], "req"), inputs);
    this.#done++;
    return found;
  }

  #run(op: string, id: string, inputs: Fields): Found {
    if (op === "add") return this.#add(id, tokens(inputs["tokens"]));
    const sequence = lookUp(this.#sequences, id, "req");
    if (op === "append") {
      sequence.generatedTokens += tokens(inputs["tokens"]).length;
      this.#compute(sequence);
      return {};
    }
    this.#sequences.delete(id);
    this.#driven.finish(sequence);
    return {};
  }

  #add(id: string, prompt: readonly number[]): Found {
    if (this.#sequences.has(id)) throw new Unsupported(`req ${shown(id)} already has blocks`);
    if (prompt.length === 0) throw new Unsupported("a prompt without tokens");
    const { cache } = this.#driven;
    const sequence = this.#driven.arrive({ prompt });
    if (!cache.admit(sequence, prompt.length, this.#driven.now)) return { blocks: null, prepopulated_tokens: null };
    const prepopulated = sequence.cachedTokens;
    const blocks = this.#driven.blocksOf(sequence);
    // The last token is never stored, also of a prompt: it is treated as the first output token.
    const added = appendedTokens(this.#ops, this.#done, "req", id, ["add"]);
    const output = [prompt[prompt.length - 1], ...added].slice(0, added.length);
    sequence.request = this.#driven.arrive({ prompt: prompt.slice(0, -1), output }).request;
    sequence.generatedTokens = 1;
    this.#compute(sequence);
    this.#sequences.set(id, sequence);
    return { blocks, prepopulated_tokens: prepopulated };
  }

  /** Computes all tokens but the last, which the next step would compute. */
  #compute(sequence: Sequence): void {
    const end = sequence.knownTokens - 1;
    if (!this.#driven.cache.extend(sequence, end, this.#driven.now)) throw new Unsupported("no block is free");
    this.#driven.compute(sequence, end);
  }
}
