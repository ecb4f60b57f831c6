import { InputError } from "../../core/errors.ts";
import type { DecoderConfig } from "../model/decoder.ts";
import type { Device } from "./device.ts";
import { Kernel } from "./kernel.ts";
import type { StepAddresses } from "./step-inputs.ts";

/** Head dimensions with kernels. */
export const headDimensions: readonly number[] = [16, 32, 48, 64, 80, 96, 128, 256];

/** A row of a norm is in the registers of 1,024 threads; sampling adds weights of equal leading bits in 32 bits. */
const [mostHidden, mostVocabulary] = [16_384, 524_288];

/** Query heads that share a key, as attention_decode processes them in one block. */
const groupSizes = [1, 2, 4, 8] as const;
const residentDecodeBlocks = { 1: 5, 2: 4, 4: 3, 8: 2 } as const;

/** The parameter lists of the kernels, as in their sources. Names that end with `_` stand for several instances. */
export const kernelParameters = {
  embed: "float* x, const int* tokens, const int* positions, const bf16* table, const bf16* positionTable, int H",
  rms_norm:
    "bf16* out, float* x, const bf16* add, const bf16* addBias, const bf16* weight, const int* rows, int H, float eps",
  layer_norm:
    "bf16* out, float* x, const bf16* add, const bf16* addBias, const bf16* weight, const bf16* bias, const int* rows, int H, float eps",
  rope_table: "float2* table, const int* positions, const double* inverseFrequencies, float factor, int T, int D",
  qkv_store:
    "bf16* qkv, const bf16* bias, const bf16* queryNorm, const bf16* keyNorm, const float2* rope, const int* slots, bf16* keys, bf16* values, int Hq, int Hkv, int D, float eps",
  attention_prefill_:
    "bf16* out, const bf16* q, int qStride, const bf16* keys, const bf16* values, const int2* tiles, const int* cuSeqlensQ, const int* contextLens, const int* tables, int tableStride, BlockSize size, int Hq, int Hkv, float scale, int window, const float* slopes",
  attention_decode_:
    "float* partial, float2* partialMaxSum, const bf16* q, int qStride, const bf16* keys, const bf16* values, const int* sequences, const int* cuSeqlensQ, const int* contextLens, const int* tables, int tableStride, BlockSize size, int Hq, int Hkv, int splits, float scale, int window, const float* slopes",
  attention_merge:
    "bf16* out, const float* partial, const float2* partialMaxSum, const int* sequences, const int* cuSeqlensQ, int Hq, int D, int splits",
  silu_gate: "bf16* out, const bf16* gateUp, int F",
  gelu: "bf16* x, const bf16* bias, int F, int tanhApproximation",
  copy_blocks: "bf16* keys, bf16* values, const int2* pairs, size_t blockElements, size_t layerElements",
  gather_blocks:
    "bf16* staging, const bf16* keys, const bf16* values, const int* blocks, size_t blockElements, size_t layerElements, int layers",
  scatter_blocks:
    "const bf16* staging, bf16* keys, bf16* values, const int* blocks, size_t blockElements, size_t layerElements, int layers",
  argmax_rows: "int* out, const float* logits, int V",
  sample_rows: "int* out, const float* logits, const SamplingRow* rows, int V",
  gemm: "void* C, const bf16* A, const bf16* B, int M, int N, int K, int transposedB, int outFloat",
  fill_random: "bf16* out, size_t count, unsigned seed, float mean, float scale",
  xor_words: "unsigned* out, const uint4* words, size_t count",
} as const;

/**
 * Launches of all kernels for one model: the only place with their parameters, grids, blocks and shared memory. Optional addresses
 * are 0 if absent.
 */
export class Launches {
  readonly #config: DecoderConfig;
  readonly #blockSize: bigint;
  readonly #kernels: Readonly<Record<keyof typeof kernelParameters, Kernel>>;
  /** Query heads of a block of attention_decode, and its blocks for a sequence and a split. */
  readonly #group: (typeof groupSizes)[number];
  readonly #decodeBlocks: number;

  /**
   * @param find address of a kernel of the loaded module
   * @throws InputError if there is no kernel for the model
   */
  constructor(device: Device, find: (name: string) => bigint, config: DecoderConfig, blockTokens: number) {
    const { heads, kvHeads, headDim, hidden, vocabulary } = config;
    if (!headDimensions.includes(headDim))
      throw new InputError(
        `${config.name} has heads of ${headDim} dimensions, expected one of ${headDimensions.join(", ")} on this backend`,
      );
    for (const [name, size, most] of [
      ["hidden size", hidden, mostHidden],
      ["vocabulary", vocabulary, mostVocabulary],
    ] as const)
      if (size > most)
        throw new InputError(`${config.name} has a ${name} of ${size}, expected at most ${most} on this backend`);
    const shared = heads / kvHeads;
    this.#config = config;
    this.#group = groupSizes.find((size) => size >= shared) ?? 8;
    this.#decodeBlocks = kvHeads * Math.ceil(shared / this.#group);
    this.#blockSize = packedBlockSize(blockTokens);
    const kernel = (name: keyof typeof kernelParameters, instance: string = name, sharedBytes = 0) =>
      new Kernel(device, find, instance, kernelParameters[name], sharedBytes);
    this.#kernels = {
      embed: kernel("embed"),
      rms_norm: kernel("rms_norm"),
      layer_norm: kernel("layer_norm"),
      rope_table: kernel("rope_table"),
      qkv_store: kernel("qkv_store"),
      attention_prefill_: kernel("attention_prefill_", `attention_prefill_d${headDim}`, prefillSharedBytes(headDim)),
      attention_decode_: kernel("attention_decode_", `attention_decode_d${headDim}_g${this.#group}`),
      attention_merge: kernel("attention_merge"),
      silu_gate: kernel("silu_gate"),
      gelu: kernel("gelu"),
      copy_blocks: kernel("copy_blocks"),
      gather_blocks: kernel("gather_blocks"),
      scatter_blocks: kernel("scatter_blocks"),
      argmax_rows: kernel("argmax_rows"),
      sample_rows: kernel("sample_rows"),
      gemm: kernel("gemm"),
      fill_random: kernel("fill_random"),
      xor_words: kernel("xor_words"),
    };
  }

  /** x = embeddings of the tokens, plus those of their positions. */
  embed(x: bigint, step: StepAddresses, table: bigint, positionTable: bigint, tokens: number): void {
    const { hidden } = this.#config;
    const { embed } = this.#kernels;
    embed.launch([tokens, 1, 1], warps(hidden, 256), x, step.tokens, step.positions, table, positionTable, hidden);
  }

  /** x += add + addBias; out = the norm of x, of the rows `rows` or of all. Without `out`, x is normalised in place. */
  norm(
    out: bigint,
    x: bigint,
    add: bigint,
    addBias: bigint,
    { weight, bias }: { readonly weight: bigint; readonly bias: bigint },
    rows: bigint,
    rowCount: number,
    kind: "rms" | "layer" = this.#config.norm.kind,
  ): void {
    const { hidden, norm } = this.#config;
    const threads = warps(hidden / 8, 1024);
    const grid = [rowCount, 1, 1] as const;
    const { rms_norm, layer_norm } = this.#kernels;
    if (kind === "rms") rms_norm.launch(grid, threads, out, x, add, addBias, weight, rows, hidden, norm.epsilon);
    else layer_norm.launch(grid, threads, out, x, add, addBias, weight, bias, rows, hidden, norm.epsilon);
  }

  /** Cosines and sines of all rows, which all layers use. */
  ropeTable(table: bigint, positions: bigint, frequencies: bigint, factor: number, tokens: number): void {
    const { headDim } = this.#config;
    const blocks = Math.ceil((tokens * headDim) / 2 / 256);
    this.#kernels.rope_table.launch([blocks, 1, 1], 256, table, positions, frequencies, factor, tokens, headDim);
  }

  /** Finishes queries, keys and values, and stores keys and values in their slots. */
  qkvStore(
    qkv: bigint,
    { bias, queryNorm, keyNorm }: { readonly bias: bigint; readonly queryNorm: bigint; readonly keyNorm: bigint },
    rope: bigint,
    slots: bigint,
    keys: bigint,
    values: bigint,
    tokens: number,
  ): void {
    const { heads, kvHeads, headDim, norm } = this.#config;
    const grid = [tokens, Math.ceil((heads + 2 * kvHeads) / 4), 1] as const;
    this.#kernels.qkv_store.launch(
      ...([grid, 128, qkv, bias, queryNorm, keyNorm, rope, slots, keys, values] as const),
      ...[heads, kvHeads, headDim, norm.epsilon],
    );
  }

  /** Attention of the sequences with several tokens. */
  attentionPrefill(
    out: bigint,
    qkv: bigint,
    keys: bigint,
    values: bigint,
    step: StepAddresses,
    slopes: bigint,
    { tiles, tableStride }: { readonly tiles: number; readonly tableStride: number },
  ): void {
    const { heads, kvHeads } = this.#config;
    this.#kernels.attention_prefill_.launch(
      ...([[heads, tiles, 1], 128, out, qkv, this.#queryStride, keys, values, step.tiles] as const),
      ...[step.cuSeqlensQ, step.contextLens, step.tables, tableStride, this.#blockSize],
      ...[heads, kvHeads, this.#scale, this.#window, slopes],
    );
  }

  /** Attention of the sequences with one token; `partial` and `maxSum` have an element range for each split. */
  attentionDecode(
    out: bigint,
    partial: bigint,
    maxSum: bigint,
    qkv: bigint,
    keys: bigint,
    values: bigint,
    step: StepAddresses,
    slopes: bigint,
    { decodes, tableStride }: { readonly decodes: number; readonly tableStride: number },
    splits: number,
  ): void {
    const { heads, kvHeads, headDim } = this.#config;
    this.#kernels.attention_decode_.launch(
      ...([[decodes, this.#decodeBlocks, splits], 128, partial, maxSum, qkv, this.#queryStride, keys, values] as const),
      ...[step.decodeSequences, step.cuSeqlensQ, step.contextLens, step.tables, tableStride, this.#blockSize],
      ...[heads, kvHeads, splits, this.#scale, this.#window, slopes],
    );
    this.#kernels.attention_merge.launch(
      ...([[decodes, heads, 1], mergeThreads(headDim, splits), out, partial, maxSum] as const),
      ...[step.decodeSequences, step.cuSeqlensQ, heads, headDim, splits],
    );
  }

  /** Blocks of attention_decode for one sequence and one split. */
  get decodeBlocks(): number {
    return this.#decodeBlocks;
  }

  /** Blocks of attention_decode that are resident on a multiprocessor at once, by their registers (docs/cuda.md). */
  get decodeBlocksPerMultiprocessor(): number {
    return residentDecodeBlocks[this.#group];
  }

  /** out = silu(gate) ⊙ up. */
  siluGate(out: bigint, gateUp: bigint, tokens: number): void {
    const { ffn } = this.#config;
    this.#kernels.silu_gate.launch([tokens, Math.ceil(ffn / 1024), 1], 128, out, gateUp, ffn);
  }

  /** x = gelu(x + bias). */
  gelu(x: bigint, bias: bigint, tokens: number): void {
    const { ffn, feedForward } = this.#config;
    const isTanh = feedForward === "gelu-tanh" ? 1 : 0;
    this.#kernels.gelu.launch([tokens, Math.ceil(ffn / 1024), 1], 128, x, bias, ffn, isTanh);
  }

  copyBlocks(
    keys: bigint,
    values: bigint,
    pairs: bigint,
    blockElements: number,
    layerElements: number,
    pairCount: number,
    layers: number,
  ): void {
    const threads = warps(blockElements / 8, 256);
    const grid = [pairCount, layers, 1] as const;
    this.#kernels.copy_blocks.launch(grid, threads, keys, values, pairs, blockElements, layerElements);
  }

  /** Copies blocks of the pool to the staging buffer, or back. */
  moveBlocks(
    direction: "gather" | "scatter",
    staging: bigint,
    keys: bigint,
    values: bigint,
    blocks: bigint,
    blockElements: number,
    layerElements: number,
    layers: number,
    blockCount: number,
  ): void {
    const kernel = this.#kernels[`${direction}_blocks`];
    const threads = warps(blockElements / 8, 256);
    const grid = [blockCount, layers, 1] as const;
    kernel.launch(grid, threads, staging, keys, values, blocks, blockElements, layerElements, layers);
  }

  argmaxRows(out: bigint, logits: bigint, rows: number): void {
    const { vocabulary } = this.#config;
    this.#kernels.argmax_rows.launch([rows, 1, 1], warps(vocabulary / 4, 1024), out, logits, vocabulary);
  }

  sampleRows(out: bigint, logits: bigint, sampling: bigint, rows: number): void {
    const { vocabulary } = this.#config;
    this.#kernels.sample_rows.launch([rows, 1, 1], warps(vocabulary / 4, 1024), out, logits, sampling, vocabulary);
  }

  /** C = A · B as `Cublas.multiply`, with our own tensor-core kernel. */
  multiply(
    C: bigint,
    A: bigint,
    B: bigint,
    M: number,
    N: number,
    K: number,
    transposed: boolean,
    isFloat: boolean,
  ): void {
    const grid = [Math.ceil(N / 64), Math.ceil(M / 64), 1] as const;
    this.#kernels.gemm.launch(grid, 128, C, A, B, M, N, K, transposed ? 1 : 0, isFloat ? 1 : 0);
  }

  /** out = mean + scale · u, with u a function of the seed and the index, uniform in [−1, 1). */
  fillRandom(out: bigint, count: number, seed: number, mean: number, scale: number): void {
    const blocks = Math.min(4096, Math.ceil(count / 1024));
    this.#kernels.fill_random.launch([blocks, 1, 1], 256, out, count, seed, mean, scale);
  }

  /** Reads `bytes`, a multiple of 16. @param out a number for each of `blocks` thread blocks */
  readAll(out: bigint, from: bigint, bytes: number, blocks: number): void {
    this.#kernels.xor_words.launch([blocks, 1, 1], 512, out, from, bytes / 16);
  }

  get #queryStride(): number {
    const { heads, kvHeads, headDim } = this.#config;
    return (heads + 2 * kvHeads) * headDim;
  }

  get #scale(): number {
    return 1 / Math.sqrt(this.#config.headDim);
  }

  get #window(): number {
    return this.#config.window ?? 0;
  }
}

/** Threads in whole warps: at least one warp, at most `most` threads. */
const warps = (threads: number, most: number): number => Math.min(most, Math.max(1, Math.ceil(threads / 32)) * 32);

/** Threads of attention_merge: headDim / 4 for each split that it reads at once. */
export const mergeThreads = (headDim: number, splits: number): number => warps((headDim / 4) * splits, 256);

/** Queries above 128 dimensions are in shared memory beside the tiles of keys and values; slots of two tiles follow. */
export function prefillSharedBytes(headDim: number): number {
  const tileBytes = 2 * 64 * (headDim + 8);
  return (headDim > 128 ? 3 : 2) * tileBytes + 2 * 64 * 4;
}

/** `BlockSize` of platform.cuh: the tokens of a block, and floor(2^32 / tokens) + 1, or 0 for one token, in the upper half. */
function packedBlockSize(blockTokens: number): bigint {
  const reciprocal = blockTokens === 1 ? 0 : Math.floor(2 ** 32 / blockTokens) + 1;
  return BigInt(blockTokens) | (BigInt(reciprocal) << 32n);
}
