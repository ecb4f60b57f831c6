import { assert, InputError } from "../core/errors.ts";
import type { Trace } from "../core/trace/trace.ts";

export interface PromptTokensOptions {
  /** Maps token ids outside the vocabulary to id modulo vocabulary; without it they are an error. */
  readonly fold?: boolean;
}

/**
 * The prompt of a request as token ids of a model. A trace of token ids contains them. In a trace of content ids each block
 * is expanded to pseudo-random tokens that depend on its id alone, so that equal prefixes have equal tokens in every run and
 * on every machine. A partial last block has the first tokens of its content.
 *
 *   keys     [    a    ] [    b    ] [  c  ]          unit 4, 10 input tokens
 *   tokens    a0 a1 a2 a3 b0 b1 b2 b3 c0 c1
 *
 * The result is a view of the start of `into` if that is given and long enough; otherwise a new array.
 *
 * @throws InputError if a token id of the trace is not below `vocabulary`, without `fold`
 */
export function promptTokens(
  trace: Trace,
  row: number,
  vocabulary: number,
  options: PromptTokensOptions = {},
  into?: Int32Array,
): Int32Array {
  const { unitTokens, keys, keyStart } = trace;
  const count = trace.inputTokens[row];
  const start = keyStart[row];
  const units = keyStart[row + 1] - start;
  // Of content ids, a partial last unit may have none.
  const covered = unitTokens === 1 ? units : (units + 1) * unitTokens - 1;
  assert(covered >= count, `${units} keys of ${unitTokens} tokens for a prompt of ${count}`);
  const tokens = into && into.length >= count ? into.subarray(0, count) : new Int32Array(count);
  if (unitTokens === 1) {
    for (let i = 0; i < count; i++) tokens[i] = ownToken(keys[start + i], row, vocabulary, options.fold === true);
  } else {
    for (let from = 0, unit = 0; from < count; from += unitTokens, unit++) {
      // Tokens without a content id are the request's own.
      const id = unit < units ? keys[start + unit] : ~row >>> 0;
      contentTokens(id, vocabulary, tokens, from, Math.min(unitTokens, count - from));
    }
  }
  return tokens;
}

/**
 * Writes the first `count` tokens of a content to `into`, starting at index `from`.
 *
 * A SplitMix generator (Steele et al. 2014) seeded with the content id. At equal offsets the states of two contents differ, so
 * that their tokens are equal only by chance: at one of `vocabulary` offsets, and practically never in a whole block.
 */
export function contentTokens(id: number, vocabulary: number, into: Int32Array, from: number, count: number): void {
  let state = mixed(id ^ 0x5bf03635);
  for (let i = from; i < from + count; i++) {
    state = (state + 0x9e3779b9) | 0;
    // The high bits of the product: a 32-bit number scaled to 0 .. vocabulary − 1, exact in a double.
    into[i] = Math.floor(((mixed(state) >>> 0) * vocabulary) / 2 ** 32);
  }
}

/** A bijection of 32-bit numbers in which every bit depends on every other (the constants are Chris Wellons'). */
function mixed(x: number): number {
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return x ^ (x >>> 15);
}

function ownToken(token: number, row: number, vocabulary: number, fold: boolean): number {
  if (token < vocabulary) return token;
  if (fold) return token % vocabulary;
  throw new InputError(
    `request ${row} has token ${token}, expected one below ${vocabulary}, the model's vocabulary (--fold maps token ids modulo the vocabulary)`,
  );
}
