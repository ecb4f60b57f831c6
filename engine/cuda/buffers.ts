import type { DecoderConfig } from "../model/decoder.ts";
import type { Device, DeviceMemory, PinnedMemory } from "./device.ts";
import type { StepSize } from "./step-inputs.ts";

/** Addresses of the activations of a step. */
export interface Activations {
  /** The residual stream, fp32 [tokens, hidden]. */
  readonly x: bigint;
  /** Input of the next projection, bf16 [tokens, hidden]. */
  readonly normed: bigint;
  /** Queries, keys and values, bf16 [tokens, (heads + 2 · kvHeads) · headDim]. */
  readonly qkv: bigint;
  /** bf16 [tokens, heads · headDim]. */
  readonly attended: bigint;
  /** Output of attention or of the feed-forward network, bf16 [tokens, hidden]. */
  readonly projected: bigint;
  /** bf16 [tokens, ffn], or gate and up, [tokens, 2 · ffn]. */
  readonly up: bigint;
  /** bf16 [tokens, ffn]; without a gate it is `up`. */
  readonly inner: bigint;
  /** Cosines and sines, fp32 pairs [tokens, headDim / 2]. */
  readonly rope: bigint;
  /** fp32 [logits, vocabulary]. */
  readonly logits: bigint;
  /** Sampled tokens, int [logits]. */
  readonly sampled: bigint;
  /** Attention of each split, fp32 [decodes, heads, splits, headDim], and its maximum and sum, fp32 pairs. */
  readonly partial: bigint;
  readonly partialMaxSum: bigint;
}

/** Bytes of a step's activations. */
export function activationBytes(config: DecoderConfig, size: StepSize, splits: number): number {
  return layoutOf(config, size, splits).bytes;
}

/**
 * The activations of a step in one allocation, and pinned memory for its results. Both grow to the largest step so far; equal sizes
 * have equal addresses until they do.
 */
export class Buffers {
  readonly #device: Device;
  readonly #config: DecoderConfig;
  #memory: DeviceMemory | undefined;
  #results: PinnedMemory;
  #resultBytes: number;

  constructor(device: Device, config: DecoderConfig) {
    this.#device = device;
    this.#config = config;
    this.#resultBytes = 2 ** 16;
    this.#results = device.allocatePinned(this.#resultBytes);
  }

  /** Makes room for steps of this size. @returns whether addresses have changed */
  reserve(size: StepSize, splits: number): boolean {
    const { bytes } = layoutOf(this.#config, size, splits);
    if (this.#memory && bytes <= this.#memory.bytes) return false;
    this.#memory?.free();
    this.#memory = undefined;
    this.#memory = this.#device.allocate(grownBytes(bytes), `a step of ${size.tokens} tokens`);
    return true;
  }

  activations(size: StepSize, splits: number): Activations {
    return layoutOf(this.#config, size, splits).at(this.#memory?.address ?? 0n);
  }

  /** Pinned memory for at least `bytes` of results. */
  results(bytes: number): PinnedMemory {
    if (bytes > this.#resultBytes) {
      this.#results.free();
      this.#resultBytes = 2 ** Math.ceil(Math.log2(bytes));
      this.#results = this.#device.allocatePinned(this.#resultBytes);
    }
    return this.#results;
  }
}

const alignment = 256;

/** Buffers grow rarely: to a power of two, or from 256 MiB on to a multiple of that. */
function grownBytes(bytes: number): number {
  const unit = 2 ** 28;
  return bytes < unit ? 2 ** Math.ceil(Math.log2(bytes)) : Math.ceil(bytes / unit) * unit;
}

function layoutOf(config: DecoderConfig, { tokens, logits, decodes }: StepSize, splits: number) {
  const { hidden, heads, kvHeads, headDim, ffn, vocabulary, feedForward } = config;
  let bytes = 0;
  const place = (elements: number, elementBytes: number) => {
    const at = bytes;
    bytes += Math.ceil((elements * elementBytes) / alignment) * alignment;
    return at;
  };
  const isGated = feedForward === "silu-gated";
  const x = place(tokens * hidden, 4);
  const normed = place(tokens * hidden, 2);
  const qkv = place(tokens * (heads + 2 * kvHeads) * headDim, 2);
  const attended = place(tokens * heads * headDim, 2);
  const projected = place(tokens * hidden, 2);
  const up = place(tokens * ffn * (isGated ? 2 : 1), 2);
  const inner = isGated ? place(tokens * ffn, 2) : up;
  const rope = place(tokens * headDim, 4);
  const logitsAt = place(logits * vocabulary, 4);
  const sampled = place(logits, 4);
  const partial = place(decodes * heads * splits * headDim, 4);
  const partialMaxSum = place(decodes * heads * splits, 8);
  const at = (base: bigint): Activations => {
    const address = (offset: number) => base + BigInt(offset);
    return {
      ...{ x: address(x), normed: address(normed), qkv: address(qkv), attended: address(attended) },
      ...{ projected: address(projected), up: address(up), inner: address(inner), rope: address(rope) },
      ...{ logits: address(logitsAt), sampled: address(sampled) },
      ...{ partial: address(partial), partialMaxSum: address(partialMaxSum) },
    };
  };
  return { bytes, at };
}
