import { assert } from "../../core/errors.ts";

/**
 * Content of a prompt: the tokens of `before`, then tokens of its own. Prompts that extend the same prompt share its whole
 * blocks and nothing else. Content ids are assigned when a request first sends the prompt, so that ids are dense in order
 * of first appearance.
 *
 *     before   [whole blocks ............) [partial block)
 *     own                                   [tokens that complete it) [whole blocks) [partial block)
 *     ids of   before                      this prompt
 */
export class Prompt {
  readonly before: Prompt | undefined;
  /** Length in tokens, with those of `before`. */
  readonly tokens: number;
  /** Id of the first whole block that ends in its own tokens; the others follow. −1 = not sent so far. */
  firstKey = -1;
  /** Id of the partial last block. −1 = not sent as a whole prompt so far. */
  partialKey = -1;

  constructor(before: Prompt | undefined, ownTokens: number) {
    this.before = before;
    this.tokens = (before?.tokens ?? 0) + ownTokens;
  }

  /** This prompt and new content after it. */
  extend(tokens: number): Prompt {
    return tokens === 0 ? this : new Prompt(this, tokens);
  }
}

/** Assigns the content ids of one trace. */
export class PromptKeys {
  readonly #unitTokens: number;
  #distinct = 0;
  #keys = new Uint32Array(1024);
  readonly #path: Prompt[] = [];

  constructor(unitTokens: number) {
    this.#unitTokens = unitTokens;
  }

  /** Content ids of a prompt's blocks; the array is reused by the next call. */
  of(prompt: Prompt): Uint32Array {
    const unit = this.#unitTokens;
    assert(prompt.tokens > 0, "a prompt has no tokens");
    const length = Math.ceil(prompt.tokens / unit);
    if (length > this.#keys.length) this.#keys = new Uint32Array(2 * length);
    const keys = this.#keys;
    const path = this.#path;
    path.length = 0;
    for (let at: Prompt | undefined = prompt; at; at = at.before) path.push(at);
    let block = 0;
    for (let i = path.length - 1; i >= 0; i--) {
      const part = path[i];
      const end = Math.floor(part.tokens / unit);
      if (part.firstKey < 0) {
        part.firstKey = this.#distinct;
        this.#distinct += end - block;
      }
      for (let key = part.firstKey; block < end; block++) keys[block] = key++;
    }
    if (block < length) {
      if (prompt.partialKey < 0) prompt.partialKey = this.#distinct++;
      keys[block] = prompt.partialKey;
    }
    return keys.subarray(0, length);
  }
}
