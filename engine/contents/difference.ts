import type { BlockData } from "../executor.ts";
import { fromBfloat16 } from "../model/floats.ts";

/**
 * Largest relative errors of contents that another batch recomputes. The error of a row is its largest difference, divided by the
 * largest magnitude of the recomputed row.
 */
export interface ContentsTolerance {
  /** Of a row of keys or of values: one token in one layer. */
  readonly keysAndValues: number;
  /** Of a row of logits: one token. */
  readonly logits: number;
}

/** Two different numbers at the same place of a row: of all such places the one with the largest error. */
export interface RowDifference {
  readonly engine: number;
  readonly recomputed: number;
  /** The difference of the two, divided by the largest magnitude of the recomputed row; not finite if that is 0 or NaN. */
  readonly relativeError: number;
}

export interface BlockDifference extends RowDifference {
  readonly what: "keys" | "values";
  readonly layer: number;
  /** Index of the token in the block. */
  readonly token: number;
}

/**
 * The first row of the leading tokens of two blocks whose difference is not accepted, ordered by layer, keys before values, and
 * token.
 *
 * @param tokens number of tokens of the block that are compared
 * @param isAccepted called with the difference of each row that is not bit-identical
 */
export function blockDifference(
  engine: BlockData,
  recomputed: BlockData,
  { layers, blockTokens }: { readonly layers: number; readonly blockTokens: number },
  tokens: number,
  isAccepted: (difference: RowDifference) => boolean,
): BlockDifference | undefined {
  const width = engine.keys.length / (layers * blockTokens);
  for (let layer = 0; layer < layers; layer++)
    for (const what of ["keys", "values"] as const) {
      const from = layer * blockTokens * width;
      const to = from + tokens * width;
      if (isSame(engine[what].subarray(from, to), recomputed[what].subarray(from, to))) continue;
      for (let token = 0; token < tokens; token++) {
        const row = (block: BlockData) =>
          floats(block[what].subarray(from + token * width, from + (token + 1) * width));
        const difference = rowDifference(row(engine), row(recomputed));
        if (difference && !isAccepted(difference)) return { what, layer, token, ...difference };
      }
    }
  return undefined;
}

/** Undefined if the rows are bit-identical. */
export function rowDifference(engine: Float32Array, recomputed: Float32Array): RowDifference | undefined {
  const scale = recomputed.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  let largest: RowDifference | undefined;
  for (let i = 0; i < recomputed.length; i++) {
    if (Object.is(engine[i], recomputed[i])) continue;
    const isSameNumber = engine[i] === recomputed[i];
    const relativeError = isSameNumber ? 0 : Math.abs(engine[i] - recomputed[i]) / scale;
    const difference = { engine: engine[i], recomputed: recomputed[i], relativeError };
    if (Number.isNaN(relativeError)) return difference;
    if (largest === undefined || relativeError > largest.relativeError) largest = difference;
  }
  return largest;
}

function floats(row: BlockData["keys"]): Float32Array {
  if (row instanceof Float32Array) return row;
  const all = new Float32Array(row.length);
  fromBfloat16(row, all);
  return all;
}

function isSame(a: BlockData["keys"], b: BlockData["keys"]): boolean {
  return Buffer.from(a.buffer, a.byteOffset, a.byteLength).equals(Buffer.from(b.buffer, b.byteOffset, b.byteLength));
}
