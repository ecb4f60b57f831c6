// Batches of attention over a paged pool: on the device, and by definition in float64.
import { seededRandom } from "../../../../core/random.ts";
import { mergeThreads, prefillSharedBytes } from "../../../../engine/cuda/launches.ts";
import { type Device, float, type Parameter } from "./device.ts";
import { floats, randomBfloat16 } from "./numbers.ts";

export interface SequenceShape {
  readonly cached: number;
  readonly queries: number;
}

export interface AttentionShape {
  readonly sequences: readonly SequenceShape[];
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly blockTokens: number;
  /** 0: none. */
  readonly window?: number;
  readonly alibi?: boolean;
  /** Selects the physical blocks; contents do not depend on it. */
  readonly placement?: number;
  /** Sequence i has the contents of number contents[i]; i by default. */
  readonly contents?: readonly number[];
}

const tileQueries = 64;

/** Contents of a sequence: keys, values and queries by position, so that they are the same in any chunk. */
function contentsOf(shape: AttentionShape, sequence: number) {
  const { heads, kvHeads, headDim } = shape;
  const { cached, queries } = shape.sequences[sequence];
  const seed = 1000 * ((shape.contents?.[sequence] ?? sequence) + 1);
  const context = cached + queries;
  const width = heads * headDim;
  return {
    queries: randomBfloat16(context * width, seed + 1).subarray(cached * width),
    keys: randomBfloat16(context * kvHeads * headDim, seed + 2),
    values: randomBfloat16(context * kvHeads * headDim, seed + 3),
  };
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0);
const slopesOf = (heads: number) => Float32Array.from({ length: heads }, (_, head) => 2 ** ((-8 * (head + 1)) / heads));
export const scaleOf = (shape: AttentionShape) => Math.fround(1 / Math.sqrt(shape.headDim));

/** The batch's arrays on a device, with its sequences in random blocks of a pool whose other blocks are NaN. */
export class AttentionBatch {
  readonly shape: AttentionShape;
  readonly #device: Device;
  readonly #rows: number;
  readonly #stride: number;
  readonly #common: readonly Parameter[];
  readonly #queries: bigint;
  readonly #keys: bigint;
  readonly #values: bigint;
  readonly #cuSeqlens: bigint;
  readonly #contexts: bigint;
  readonly #tables: bigint;

  constructor(device: Device, shape: AttentionShape) {
    this.shape = shape;
    this.#device = device;
    const { heads, kvHeads, headDim, blockTokens, sequences, placement = 0 } = shape;
    const random = seededRandom(placement);
    const blocksOf = sequences.map(({ cached, queries }) => Math.ceil((cached + queries) / blockTokens));
    const blockCount = sum(blocksOf) + 3;
    const order = Array.from({ length: blockCount }, (_, block) => block);
    for (let i = blockCount - 1; i > 0; i--) {
      const j = random.below(i + 1);
      [order[i], order[j]] = [order[j], order[i]];
    }
    const maxBlocks = Math.max(...blocksOf) + 1;
    // Entries past a sequence's last block are never read.
    const tables = new Int32Array(sequences.length * maxBlocks).fill(0x3fffffff);
    const width = kvHeads * headDim;
    const pool = blockCount * blockTokens * width;
    const [keys, values] = [new Uint16Array(pool).fill(0x7fff), new Uint16Array(pool).fill(0x7fff)];
    this.#rows = sum(sequences.map(({ queries }) => queries));
    // Rows of queries are wider than their heads, as in the product of queries, keys and values.
    this.#stride = (heads + 2 * kvHeads) * headDim;
    const queries = new Uint16Array(this.#rows * this.#stride).fill(0x7fff);
    const cuSeqlens = [0];
    for (const [s, { cached, queries: count }] of sequences.entries()) {
      const contents = contentsOf(shape, s);
      const table = order.splice(0, blocksOf[s]);
      tables.set(table, s * maxBlocks);
      for (let key = 0; key < cached + count; key++) {
        const slot = table[Math.floor(key / blockTokens)] * blockTokens + (key % blockTokens);
        keys.set(contents.keys.subarray(key * width, (key + 1) * width), slot * width);
        values.set(contents.values.subarray(key * width, (key + 1) * width), slot * width);
      }
      for (let i = 0; i < count; i++) {
        const row = contents.queries.subarray(i * heads * headDim, (i + 1) * heads * headDim);
        queries.set(row, (cuSeqlens[s] + i) * this.#stride);
      }
      cuSeqlens.push(cuSeqlens[s] + count);
    }
    this.#queries = device.upload(queries);
    this.#keys = device.upload(keys);
    this.#values = device.upload(values);
    this.#cuSeqlens = device.upload(Int32Array.from(cuSeqlens));
    this.#contexts = device.upload(Int32Array.from(sequences, ({ cached, queries: count }) => cached + count));
    this.#tables = device.upload(tables);
    const slopes = shape.alibi ? device.upload(slopesOf(heads)) : null;
    this.#common = [float(scaleOf(shape)), shape.window ?? 0, slopes];
    this.#layout = [this.#tables, maxBlocks, { tokens: blockTokens }, heads, kvHeads];
  }

  readonly #layout: readonly Parameter[];

  /** Output bits of all rows, [rows, heads · head dim], by the prefill kernel. */
  prefill(): Uint16Array {
    const { heads, headDim, sequences } = this.shape;
    const tiles = sequences.flatMap(({ queries }, s) =>
      Array.from({ length: Math.ceil(queries / tileQueries) }, (_, i) => [s, i * tileQueries]),
    );
    const out = this.#device.allocate(this.#rows * heads * headDim * 2);
    const parameters = [
      ...[
        out,
        this.#queries,
        this.#stride,
        this.#keys,
        this.#values,
        this.#device.upload(Int32Array.from(tiles.flat())),
      ],
      ...[this.#cuSeqlens, this.#contexts, ...this.#layout, ...this.#common],
    ];
    const sharedBytes = prefillSharedBytes(headDim);
    this.#device.run(`attention_prefill_d${headDim}`, [heads, tiles.length], 128, parameters, sharedBytes);
    return this.#device.download(new Uint16Array(this.#rows * heads * headDim), out);
  }

  /** Output bits of the sequences with one query, by the decode kernel with G queries a block and its merge. */
  decode(splits: number, G: number): Uint16Array {
    const { heads, kvHeads, headDim, sequences } = this.shape;
    const decodes = [...sequences.keys()].filter((s) => sequences[s].queries === 1);
    const partial = this.#device.allocate(decodes.length * heads * splits * headDim * 4);
    const maxSum = this.#device.allocate(decodes.length * heads * splits * 8);
    const list = this.#device.upload(Int32Array.from(decodes));
    const parameters = [
      ...[partial, maxSum, this.#queries, this.#stride, this.#keys, this.#values, list, this.#cuSeqlens],
      ...[this.#contexts, ...this.#layout, splits, ...this.#common],
    ];
    const groups = Math.ceil(heads / kvHeads / G);
    const grid = [decodes.length, kvHeads * groups, splits];
    this.#device.run(`attention_decode_d${headDim}_g${G}`, grid, 128, parameters);
    const out = this.#device.upload(new Uint16Array(this.#rows * heads * headDim));
    const merged = [out, partial, maxSum, list, this.#cuSeqlens, heads, headDim, splits];
    this.#device.run("attention_merge", [decodes.length, heads], mergeThreads(headDim, splits), merged);
    return this.#device.download(new Uint16Array(this.#rows * heads * headDim), out);
  }

  /** The definition, in float64. */
  expected(): Float64Array {
    const { heads, headDim, sequences } = this.shape;
    const out = new Float64Array(this.#rows * heads * headDim);
    let row = 0;
    for (let s = 0; s < sequences.length; s++) {
      const contents = contentsOf(this.shape, s);
      const [queries, keys, values] = [contents.queries, contents.keys, contents.values].map(floats);
      for (let i = 0; i < sequences[s].queries; i++, row++)
        for (let head = 0; head < heads; head++) {
          const query = queries.subarray((i * heads + head) * headDim, (i * heads + head + 1) * headDim);
          out.set(attend(this.shape, s, i, head, query, keys, values), (row * heads + head) * headDim);
        }
    }
    return out;
  }
}

function attend(
  shape: AttentionShape,
  sequence: number,
  i: number,
  head: number,
  query: Float64Array,
  keys: Float64Array,
  values: Float64Array,
): Float64Array {
  const { heads, kvHeads, headDim, window = 0, alibi } = shape;
  const position = shape.sequences[sequence].cached + i;
  const kvHead = Math.floor(head / (heads / kvHeads));
  const at = (key: number) => (key * kvHeads + kvHead) * headDim;
  const slope = alibi ? slopesOf(heads)[head] : 0;
  const first = window ? Math.max(0, position - window + 1) : 0;
  const scores: number[] = [];
  for (let key = first; key <= position; key++) {
    let score = 0;
    for (let j = 0; j < headDim; j++) score += query[j] * keys[at(key) + j];
    scores.push(score * scaleOf(shape) + slope * (key - position));
  }
  const most = Math.max(...scores);
  const weights = scores.map((score) => Math.exp(score - most));
  const total = sum(weights);
  const out = new Float64Array(headDim);
  for (const [n, weight] of weights.entries())
    for (let j = 0; j < headDim; j++) out[j] += (weight / total) * values[at(first + n) + j];
  return out;
}
