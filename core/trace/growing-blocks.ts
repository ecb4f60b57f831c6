import { grown } from "../grown.ts";
import type { BlockColumns, PromptBlocks } from "./content.ts";
import type { Trace } from "./trace.ts";

/**
 * The blocks of one request that is being served. A block of output tokens has a content id when its last token is known, which is
 * before its KV is computed. When the request has ended, the content ids are those that `BlockKeys.of` returns for the whole output.
 *
 *   keys   [ prompt blocks ] [ blocks of output tokens ] [ not known yet ]
 *   tail                                                  [ known tokens ... )
 */
export class GrowingBlocks {
  readonly columns: BlockColumns;
  /** Blocks with a content id so far. */
  knownBlocks: number;
  /** One more than the largest id so far. */
  distinct: number;
  readonly #prompt: PromptBlocks;
  /** Known tokens after the last known block; the first `#filled` elements. */
  readonly #tail: Uint32Array;
  #filled = 0;
  /** Blocks of output tokens follow a whole last block of the prompt only. */
  readonly #grows: boolean;

  constructor({ inputTokens, maxOutputTokens, keys }: Trace, prompt: PromptBlocks) {
    const { columns, generated, storedTails } = prompt;
    const { blockTokens, plainKeys } = columns;
    const promptBlocks = columns.promptBlocks[0];
    const end = promptBlocks * blockTokens;
    const length = Math.ceil((inputTokens[0] + maxOutputTokens[0]) / blockTokens) + 1;
    this.#prompt = prompt;
    this.#grows = generated && end <= inputTokens[0];
    this.#tail = new Uint32Array(blockTokens);
    if (this.#grows) for (let at = end; at < inputTokens[0]; at++) this.#tail[this.#filled++] = keys[at];
    this.knownBlocks = promptBlocks;
    this.distinct = columns.distinct;
    const whole = (column: Uint32Array) => grown(column.subarray(0, promptBlocks), Math.max(length, promptBlocks));
    this.columns = {
      ...columns,
      keys: whole(columns.keys),
      ...(plainKeys && { plainKeys: whole(plainKeys) }),
      start: Float64Array.of(0, promptBlocks),
      ...(generated && { generated: true }),
      ...(storedTails && { storedTails: true }),
    };
  }

  /** An output token that is not the last one. @returns whether it completes a block, which is known from now on */
  add(token: number): boolean {
    if (!this.#grows) return false;
    this.#tail[this.#filled++] = token;
    if (this.#filled < this.columns.blockTokens) return false;
    this.#append(this.#filled);
    this.#filled = 0;
    return true;
  }

  /** The request ends after the tokens so far and one more, whose KV is never computed. @returns as `add` */
  end(): boolean {
    if (!this.#grows || !this.#prompt.storedTails || this.#filled === 0) return false;
    this.#append(this.#filled);
    this.#filled = 0;
    return true;
  }

  /** The token that was added last is the last one. */
  endHere(): boolean {
    if (!this.#grows || !this.#prompt.storedTails) return false;
    if (this.#filled === 0) {
      this.knownBlocks--;
      this.#filled = this.columns.blockTokens;
    }
    this.#filled--;
    this.end();
    return true;
  }

  #append(count: number): void {
    const { keys, plainKeys } = this.columns;
    const at = this.knownBlocks++;
    const above = at === 0 ? undefined : keys[at - 1];
    const plainAbove = at === 0 ? undefined : plainKeys?.[at - 1];
    const { key, plainKey, distinct } = this.#prompt.intern(above, plainAbove, this.#tail, count);
    keys[at] = key;
    if (plainKeys && plainKey !== undefined) plainKeys[at] = plainKey;
    this.distinct = distinct;
  }
}
