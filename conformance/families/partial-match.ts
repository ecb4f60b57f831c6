import type { BlockId } from "../../core/plugins/index.ts";
import { isOn, lookUp } from "../caches/case-inputs.ts";
import { DrivenCache } from "../caches/driven-cache.ts";
import { trtLlmCache } from "../caches/trt-llm.ts";
import type { Operation } from "../case.ts";
import type { Family, Found, Instance } from "../family.ts";
import { type Fields, integer, name, shown, tokens, Unsupported } from "../values.ts";

/** TensorRT-LLM: of the blocks after one prefix, the one with the most leading tokens in common with a key. */
export const partialMatch: Family = {
  name: "partial-match",
  configKeys: ["block_size"],
  ops: {
    child: { inputs: ["block", "referenced", "tokens"], expects: { inserted: "plain" } },
    reference: { inputs: ["block"], expects: {} },
    partial: { inputs: ["copy", "tokens"], expects: { block: "plain", matched: "plain" } },
  },
  start: ({ block_size }, ops) => new Children(integer(block_size, "block_size", 1), ops),
};

interface Child {
  readonly id: unknown;
  readonly block: BlockId;
}

/** Two caches with the same blocks: in one a referenced block may be copied, in the other it is not used. */
class Children implements Instance {
  readonly #blockTokens: number;
  readonly #copying: DrivenCache;
  readonly #stealing: DrivenCache;
  readonly #children = new Map<string, Child>();

  constructor(blockTokens: number, ops: readonly Operation[]) {
    this.#blockTokens = blockTokens;
    const rules = { "match-limit": "all", "full-hit": "stored-logits" } as const;
    this.#copying = new DrivenCache(trtLlmCache(blockTokens, ops.length + 1, { ...rules, partial: "steal" }));
    this.#stealing = new DrivenCache(trtLlmCache(blockTokens, ops.length + 1, { ...rules, partial: "steal-only" }));
  }

  run(op: string, inputs: Fields): Found {
    if (op === "partial") return this.#partial(isOn(inputs["copy"], "copy", true), this.#key(inputs["tokens"]));
    if (op === "reference") {
      this.#reference(lookUp(this.#children, inputs["block"], "block").block);
      return {};
    }
    const isReferenced = isOn(inputs["referenced"], "referenced");
    const label = name(inputs["block"], "block");
    if (this.#children.has(label)) throw new Unsupported(`block ${shown(inputs["block"])} already exists`);
    const key = this.#key(inputs["tokens"]);
    const block = this.#store(this.#copying, key);
    this.#store(this.#stealing, key);
    if (block === undefined) return { inserted: false };
    this.#children.set(label, { id: inputs["block"], block });
    if (isReferenced) this.#reference(block);
    return { inserted: true };
  }

  #key(value: unknown): number[] {
    const key = tokens(value);
    if (key.length > 0 && key.length <= this.#blockTokens) return key;
    throw new Unsupported(`a block of ${key.length} tokens, expected 1 to ${this.#blockTokens}`);
  }

  /** Stores a block by a request without hits; undefined if an equal block is stored already. */
  #store(driven: DrivenCache, prompt: readonly number[]): BlockId | undefined {
    const sequence = driven.arrive({ prompt });
    sequence.maxHitBlocks = 0;
    if (!driven.cache.admit(sequence, prompt.length, driven.now)) throw new Unsupported("the cache is too small");
    const [block] = driven.blocksOf(sequence);
    driven.compute(sequence);
    driven.finish(sequence);
    return [...driven.cache.index.blocks()].includes(block) ? block : undefined;
  }

  #reference(block: BlockId): void {
    this.#copying.cache.refs.reference(block);
    this.#stealing.cache.refs.reference(block);
  }

  #partial(copies: boolean, prompt: readonly number[]): Found {
    const driven = copies ? this.#copying : this.#stealing;
    const sequence = driven.arrive({ prompt });
    const { hitBlocks, hitTokens, partialTokens, partialBlock } = driven.cache.lookup.planAdmission(sequence, 0);
    const found = hitBlocks > 0 ? sequence.table[0] : partialTokens > 0 ? partialBlock : undefined;
    const child = [...this.#children.values()].find(({ block }) => block === found);
    return { block: child?.id ?? null, matched: hitTokens };
  }
}
