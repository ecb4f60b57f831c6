import type { BlockId } from "../../core/plugins/index.ts";
import { isOn, known } from "../caches/asked.ts";
import { DrivenCache } from "../caches/driven-cache.ts";
import { trtLlmCache } from "../caches/trt-llm.ts";
import type { Operation } from "../case.ts";
import type { Family, Found, Instance } from "../family.ts";
import { type Fields, integer, name, shown, tokens, Unsupported } from "../values.ts";

/** TensorRT-LLM: of the blocks behind one prefix, the one that has most tokens from its beginning in common with a key. */
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

/** Two caches with the same blocks: in one a block in use may be copied, in the other it is left alone. */
class Children implements Instance {
  readonly #blockTokens: number;
  readonly #copying: DrivenCache;
  readonly #leaving: DrivenCache;
  readonly #children = new Map<string, Child>();

  constructor(blockTokens: number, ops: readonly Operation[]) {
    this.#blockTokens = blockTokens;
    const rules = { "match-limit": "all", "full-hit": "stored-logits" } as const;
    this.#copying = new DrivenCache(trtLlmCache(blockTokens, ops.length + 1, { ...rules, partial: "steal" }));
    this.#leaving = new DrivenCache(trtLlmCache(blockTokens, ops.length + 1, { ...rules, partial: "steal-only" }));
  }

  run(op: string, inputs: Fields): Found {
    if (op === "partial") return this.#partial(isOn(inputs["copy"], "copy", true), this.#key(inputs["tokens"]));
    if (op === "reference") {
      this.#hold(known(this.#children, inputs["block"], "block").block);
      return {};
    }
    const isHeld = isOn(inputs["referenced"], "referenced");
    const called = name(inputs["block"], "block");
    if (this.#children.has(called)) throw new Unsupported(`block ${shown(inputs["block"])} is there already`);
    const key = this.#key(inputs["tokens"]);
    const block = this.#store(this.#copying, key);
    this.#store(this.#leaving, key);
    if (block === undefined) return { inserted: false };
    this.#children.set(called, { id: inputs["block"], block });
    if (isHeld) this.#hold(block);
    return { inserted: true };
  }

  #key(value: unknown): number[] {
    const key = tokens(value);
    if (key.length > 0 && key.length <= this.#blockTokens) return key;
    throw new Unsupported(`a block of ${key.length} tokens, expected 1 to ${this.#blockTokens}`);
  }

  /** A request whose only block this is, and which uses nothing that is there; undefined if its equal is stored. */
  #store(driven: DrivenCache, prompt: readonly number[]): BlockId | undefined {
    const sequence = driven.arrive({ prompt });
    sequence.maxHitBlocks = 0;
    if (!driven.cache.admit(sequence, prompt.length, driven.now)) throw new Unsupported("more than fits");
    const [block] = driven.blocksOf(sequence);
    driven.compute(sequence);
    driven.finish(sequence);
    return [...driven.cache.index.blocks()].includes(block) ? block : undefined;
  }

  #hold(block: BlockId): void {
    this.#copying.cache.refs.reference(block);
    this.#leaving.cache.refs.reference(block);
  }

  #partial(copies: boolean, prompt: readonly number[]): Found {
    const driven = copies ? this.#copying : this.#leaving;
    const sequence = driven.arrive({ prompt });
    const {
      hitBlocks,
      hitTokens,
      partialTokens: partTokens,
      partialBlock: part,
    } = driven.cache.lookup.planAdmission(sequence, 0);
    const found = hitBlocks > 0 ? sequence.table[0] : partTokens > 0 ? part : undefined;
    const child = [...this.#children.values()].find(({ block }) => block === found);
    return { block: child?.id ?? null, matched: hitTokens };
  }
}
