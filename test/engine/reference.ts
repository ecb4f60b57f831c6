import type { DecoderConfig, LayerTensor, WeightSource } from "../../engine/model/decoder.ts";

type Matrix = number[][];

/**
 * A decoder by the definitions of the papers: 64-bit floats, one token and one head at a time, no cache, no paging, no batches.
 *
 * @param first the first token whose logits are returned
 * @returns logits after each token from that one on, [tokens][vocabulary]
 */
export function referenceLogits(
  config: DecoderConfig,
  weights: WeightSource,
  tokens: ArrayLike<number>,
  first = 0,
): Matrix {
  const { hidden, vocabulary, layers, positions } = config;
  const embedding = matrix(weights.model("embedding"), hidden);
  const head = config.tiedEmbeddings ? transposed(embedding) : matrix(weights.model("head"), vocabulary);
  let x = Array.from(tokens, (token) => embedding[token]);
  if (positions.kind === "learned") {
    const table = matrix(weights.model("positions"), hidden);
    x = x.map((row, position) => add(row, table[position]));
  }
  if (config.embeddingNorm) {
    const [weight, bias] = [weights.model("embeddingNorm.weight"), weights.model("embeddingNorm.bias")];
    x = x.map((row) => layerNorm(row, weight, bias, config.norm.epsilon));
  }
  for (let layer = 0; layer < layers; layer++) {
    const of = (tensor: LayerTensor) => weights.layer(layer, tensor);
    const norm = (row: number[], which: "attentionNorm" | "ffnNorm") =>
      normed(config, row, of(`${which}.weight`), () => of(`${which}.bias`));
    const from = layer === layers - 1 ? first : 0;
    const normedRows = x.map((row) => norm(row, "attentionNorm"));
    const attended = attention(config, of, normedRows, from);
    x = x.slice(from).map((row, i) => add(row, attended[i]));
    x = x.map((row) => add(row, feedForward(config, of, norm(row, "ffnNorm"))));
  }
  const final = x.map((row) => normed(config, row, weights.model("norm.weight"), () => weights.model("norm.bias")));
  return final.map((row) => times(row, head));
}

/** Largest difference, relative to the largest expected number. */
export function relativeError(found: ArrayLike<number>, expected: ArrayLike<number>): number {
  let difference = 0;
  let largest = 0;
  for (let i = 0; i < expected.length; i++) {
    difference = Math.max(difference, Math.abs(found[i] - expected[i]));
    largest = Math.max(largest, Math.abs(expected[i]));
  }
  return found.length === expected.length ? difference / largest : Number.NaN;
}

/** Attention outputs of the rows from `from` on, with all earlier rows as context. */
function attention(config: DecoderConfig, of: (tensor: LayerTensor) => Float32Array, x: Matrix, from: number): Matrix {
  const { heads, kvHeads, headDim, window, positions, biases } = config;
  const projected = (tensor: "query" | "key" | "value", count: number) => {
    const weight = matrix(of(tensor), count * headDim);
    return x.map((row) => {
      let wide = times(row, weight);
      if (biases.qkv) wide = add(wide, [...of(`${tensor}.bias`)]);
      return Array.from({ length: count }, (_, head) => wide.slice(head * headDim, (head + 1) * headDim));
    });
  };
  const placed = (tensor: "query" | "key", count: number) =>
    projected(tensor, count).map((ofHeads, position) =>
      ofHeads.map((vector) => {
        const own = config.qkNorm ? rmsNorm(vector, of(`${tensor}Norm`), config.norm.epsilon) : vector;
        return positions.kind === "rope" ? rotated(own, position, positions) : own;
      }),
    );
  const queries = placed("query", heads);
  const keys = placed("key", kvHeads);
  const values = projected("value", kvHeads);
  const output = matrix(of("output"), config.hidden);
  return x.slice(from).map((_, i) => {
    const at = from + i;
    const first = window === undefined ? 0 : Math.max(0, at - window + 1);
    const joined: number[] = [];
    for (let head = 0; head < heads; head++) {
      const shared = Math.floor((head * kvHeads) / heads);
      const scores: number[] = [];
      for (let other = first; other <= at; other++) {
        let score = dot(queries[at][head], keys[other][shared]) / Math.sqrt(headDim);
        if (positions.kind === "alibi") score += bloomSlope(head, heads) * other;
        scores.push(score);
      }
      const top = Math.max(...scores);
      const exps = scores.map((score) => Math.exp(score - top));
      const total = exps.reduce((sum, exp) => sum + exp, 0);
      for (let i = 0; i < headDim; i++) {
        let sum = 0;
        exps.forEach((exp, j) => {
          sum += (exp / total) * values[first + j][shared][i];
        });
        joined.push(sum);
      }
    }
    const out = times(joined, output);
    return biases.output ? add(out, [...of("output.bias")]) : out;
  });
}

function feedForward(config: DecoderConfig, of: (tensor: LayerTensor) => Float32Array, x: number[]): number[] {
  const { ffn, hidden, feedForward: kind, biases } = config;
  let up = times(x, matrix(of("up"), ffn));
  if (biases.ffn) up = add(up, [...of("up.bias")]);
  let inner: number[];
  if (kind === "silu-gated") {
    const gate = times(x, matrix(of("gate"), ffn));
    inner = up.map((value, i) => (gate[i] / (1 + Math.exp(-gate[i]))) * value);
  } else if (kind === "gelu-tanh") {
    inner = up.map((v) => 0.5 * v * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3))));
  } else {
    inner = up.map((v) => 0.5 * v * (1 + erf(v / Math.SQRT2)));
  }
  const down = times(inner, matrix(of("down"), hidden));
  return biases.ffn ? add(down, [...of("down.bias")]) : down;
}

/** The two halves of a head's vector are the two coordinates of its pairs (as in GPT-NeoX and the transformers library). */
function rotated(
  vector: number[],
  position: number,
  { inverseFrequencies, factor }: { inverseFrequencies: Float64Array; factor: number },
): number[] {
  const half = vector.length / 2;
  return vector.map((value, i) => {
    const angle = position * inverseFrequencies[i % half];
    const other = i < half ? -vector[i + half] : vector[i - half];
    return factor * (value * Math.cos(angle) + other * Math.sin(angle));
  });
}

/** ALiBi slopes as in BLOOM's code: a base for the next lower power of two, and one for the heads beyond. */
function bloomSlope(head: number, heads: number): number {
  let power = 1;
  while (power * 2 <= heads) power *= 2;
  if (head < power) return (2 ** -(2 ** -(Math.log2(power) - 3))) ** (head + 1);
  return (2 ** -(2 ** -(Math.log2(2 * power) - 3))) ** (2 * (head - power) + 1);
}

/** The error function by its Taylor series, which is exact to the last bits for the small arguments used here. */
function erf(x: number): number {
  if (Math.abs(x) > 5) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; n < 120; n++) {
    term *= (-x * x) / n;
    sum += term / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}

function normed(config: DecoderConfig, x: number[], weight: Float32Array, bias: () => Float32Array): number[] {
  const { kind, epsilon } = config.norm;
  return kind === "rms" ? rmsNorm(x, weight, epsilon) : layerNorm(x, weight, bias(), epsilon);
}

function rmsNorm(x: number[], weight: Float32Array, epsilon: number): number[] {
  const size = Math.sqrt(dot(x, x) / x.length + epsilon);
  return x.map((value, i) => (value / size) * weight[i]);
}

function layerNorm(x: number[], weight: Float32Array, bias: Float32Array, epsilon: number): number[] {
  const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
  const centered = x.map((value) => value - mean);
  const deviation = Math.sqrt(dot(centered, centered) / x.length + epsilon);
  return centered.map((value, i) => (value / deviation) * weight[i] + bias[i]);
}

function matrix(values: Float32Array, columns: number): Matrix {
  return Array.from({ length: values.length / columns }, (_, row) => [
    ...values.subarray(row * columns, (row + 1) * columns),
  ]);
}

function transposed(rows: Matrix): Matrix {
  return rows[0].map((_, column) => rows.map((row) => row[column]));
}

function times(x: number[], weight: Matrix): number[] {
  const result = new Array<number>(weight[0].length).fill(0);
  x.forEach((value, i) => {
    const row = weight[i];
    for (let column = 0; column < row.length; column++) result[column] += value * row[column];
  });
  return result;
}

function dot(a: number[], b: number[]): number {
  return a.reduce((sum, value, i) => sum + value * b[i], 0);
}

function add(a: number[], b: number[]): number[] {
  return a.map((value, i) => value + b[i]);
}
