import { median } from "../../core/serving/distribution.ts";
import { BlockPool } from "../../engine/cuda/block-pool.ts";
import { type Activations, Buffers } from "../../engine/cuda/buffers.ts";
import { Cublas } from "../../engine/cuda/cublas.ts";
import { Device, type DeviceMemory } from "../../engine/cuda/device.ts";
import { loadKernels } from "../../engine/cuda/kernel-image.ts";
import { Launches } from "../../engine/cuda/launches.ts";
import { splitsOf } from "../../engine/cuda/paged-decoder.ts";
import { StepInputs, type StepSize, sizeOf } from "../../engine/cuda/step-inputs.ts";
import type { BatchStep } from "../../engine/executor.ts";
import type { DecoderConfig } from "../../engine/model/decoder.ts";
import { blockTokens } from "../../lab/calibrate/profile/batch-steps.ts";

/** Least time of a measured graph, and the most launches that it has. */
const leastGraphMs = 0.5;
const mostRepetitions = 50;
/** Graphs that are measured; the median counts. */
const graphs = 5;

/** A step that is on the device, with its activations. */
interface Placed {
  readonly size: StepSize;
  readonly splits: number;
  readonly at: Activations;
  readonly inputs: ReturnType<StepInputs["addresses"]>;
}

/** Times of one product of a layer by the layout of its weights. */
export interface WeightLayoutTimes {
  readonly layer: string;
  readonly bytes: number;
  readonly us: number;
  readonly transposedUs: number;
}

/** One layer of a model on the device, whose operators are timed one by one. Weights and pool have random contents. */
export class Operators {
  readonly device = Device.open();
  readonly cublas = Cublas.open(this.device);
  readonly #config: DecoderConfig;
  readonly #launches: Launches;
  readonly #pool: BlockPool;
  readonly #poolBlocks: number;
  readonly #weights: DeviceMemory;
  readonly #buffers: Buffers;
  readonly #inputs: StepInputs;

  /** @param poolBlocks blocks of the pool, which has one layer */
  constructor(model: DecoderConfig, poolBlocks: number) {
    const { hidden, vocabulary } = model;
    this.#config = { ...model, layers: 1 };
    this.#poolBlocks = poolBlocks;
    this.#launches = new Launches(this.device, loadKernels(this.device), this.#config, blockTokens);
    this.#pool = new BlockPool(this.device, this.#launches, this.#config, poolBlocks, blockTokens);
    const poolElements = poolBlocks * blockTokens * model.kvHeads * model.headDim;
    for (const address of [this.#pool.keys(0), this.#pool.values(0)])
      this.#launches.fillRandom(address, poolElements, 1, 0, 1);
    // The largest matrix is that of the head, or of gate and up.
    const elements = hidden * Math.max(vocabulary, 2 * model.ffn, (model.heads + 2 * model.kvHeads) * model.headDim);
    this.#weights = this.device.allocate(2 * elements, "a matrix");
    this.#launches.fillRandom(this.#weights.address, elements, 2, 0, 1 / Math.sqrt(hidden));
    this.#buffers = new Buffers(this.device, this.#config);
    this.#inputs = new StepInputs(this.device);
  }

  /**
   * Time of one launch of `work` on the device, in µs. Repeated launches are captured in one graph, because single launches of short
   * kernels would measure the host.
   *
   * @param work gets the number of the repetition, so that it can read other memory than the one before
   */
  time(work: (repetition: number) => void): number {
    work(0);
    const onceMs = this.device.timed(() => work(0));
    const repetitions = Math.min(mostRepetitions, Math.max(1, Math.ceil(leastGraphMs / onceMs)));
    const graph = this.device.capture(() => {
      for (let i = 0; i < repetitions; i++) work(i);
    });
    graph.launch();
    const us = Array.from({ length: graphs }, () => (1000 * this.device.timed(() => graph.launch())) / repetitions);
    graph.free();
    return median(us);
  }

  /** Bytes per second that a copy reads and writes. */
  copyBandwidth(bytes: number): number {
    const [source, target] = [0, 1].map(() => this.device.allocate(bytes, "a copy"));
    const us = this.time(() => this.device.copy(target.address, source.address, bytes));
    for (const each of [source, target]) each.free();
    return (2 * bytes) / (us / 1e6);
  }

  /** Bytes per second that a kernel reads, which writes almost nothing. */
  readBandwidth(bytes: number): number {
    // Four resident blocks a multiprocessor, or fewer if fewer threads read all with four loads each.
    const blocks = Math.min(4 * this.device.multiprocessors, Math.ceil(bytes / (16 * 4 * 512)));
    const [source, out] = [bytes, 4 * blocks].map((size) => this.device.allocate(size, "a read"));
    this.#launches.fillRandom(source.address, bytes / 2, 5, 0, 1);
    const us = this.time(() => this.#launches.readAll(out.address, source.address, bytes, blocks));
    for (const each of [source, out]) each.free();
    return bytes / (us / 1e6);
  }

  /** FLOP per second of the product of two square matrices of random numbers, by cuBLAS and by our own kernel. */
  matrixRates(n: number): { readonly cublas: number | null; readonly own: number } {
    const [A, B, C] = [0, 1, 2].map(() => this.device.allocate(2 * n * n, "a product"));
    for (const each of [A, B]) this.#launches.fillRandom(each.address, n * n, 3, 0, 1);
    const rate = (by: Pick<Launches, "multiply">) =>
      (2 * n ** 3) / (this.time(() => by.multiply(C.address, A.address, B.address, n, n, n, false, false)) / 1e6);
    const rates = { cublas: this.cublas ? rate(this.cublas) : null, own: rate(this.#launches) };
    for (const each of [A, B, C]) each.free();
    return rates;
  }

  /**
   * Attention of one layer, of the prefills and the decodes of a step. Consecutive repetitions use other blocks of the pool, as
   * layers do, so that keys and values are not in the L2 cache.
   */
  attention(step: BatchStep): number {
    const { size, splits, at, inputs } = this.#place(step);
    const { kvHeads, headDim } = this.#config;
    const blocks = step.blockTables.reduce((most, block) => Math.max(most, block), 0) + 1;
    const copies = Math.floor(this.#poolBlocks / blocks);
    return this.time((repetition) => {
      const offset = BigInt((repetition % copies) * blocks * blockTokens * kvHeads * headDim * 2);
      const [keys, values] = [this.#pool.keys(0) + offset, this.#pool.values(0) + offset];
      if (size.tiles > 0) this.#launches.attentionPrefill(at.attended, at.qkv, keys, values, inputs, 0n, size);
      if (size.decodes > 0)
        this.#launches.attentionDecode(
          ...([at.attended, at.partial, at.partialMaxSum, at.qkv, keys, values, inputs, 0n, size, splits] as const),
        );
    });
  }

  /** Operators of each token, µs of one launch by name. */
  dense(step: BatchStep): ReadonlyMap<string, number> {
    const { feedForward } = this.#config;
    const { size, at, inputs } = this.#place(step);
    const { tokens } = size;
    const weights = this.#weights.address;
    const norm = { weight: weights, bias: weights };
    const { qkv_proj, o_proj, gate_up_proj, down_proj } = this.#products(at, tokens);
    const isGated = feedForward === "silu-gated";
    const store = { bias: 0n, queryNorm: 0n, keyNorm: 0n };
    const [keys, values] = [this.#pool.keys(0), this.#pool.values(0)];
    const operators: Readonly<Record<string, (repetition: number) => void>> = {
      embedding: () => this.#launches.embed(at.x, inputs, weights, 0n, tokens),
      layernorm: () => this.#launches.norm(at.normed, at.x, at.projected, 0n, norm, 0n, tokens),
      qkv_proj: qkv_proj.run(false),
      rotary_emb: () => this.#launches.qkvStore(at.qkv, store, at.rope, inputs.slots, keys, values, tokens),
      o_proj: o_proj.run(false),
      gate_up_proj: gate_up_proj.run(false),
      act_fn: () =>
        isGated ? this.#launches.siluGate(at.inner, at.up, tokens) : this.#launches.gelu(at.up, weights, tokens),
      down_proj: down_proj.run(false),
      final_layernorm: () => this.#launches.norm(at.normed, at.x, at.projected, 0n, norm, 0n, tokens),
    };
    return new Map(Object.entries(operators).map(([name, work]) => [name, this.time(work)]));
  }

  /** Products of a layer: bytes of the weights, and µs with weights as [inputs, outputs] and as [outputs, inputs]. */
  weightLayouts(step: BatchStep): readonly WeightLayoutTimes[] {
    const { size, at } = this.#place(step);
    return Object.entries(this.#products(at, size.tokens)).map(([layer, { elements, run }]) => {
      return { layer, bytes: 2 * elements, us: this.time(run(false)), transposedUs: this.time(run(true)) };
    });
  }

  /** The matrix products of a layer by name. */
  #products(at: Activations, tokens: number) {
    const { hidden, heads, kvHeads, headDim, ffn, feedForward } = this.#config;
    const product = (C: bigint, A: bigint, N: number, K: number) => ({
      elements: N * K,
      run: (isTransposed: boolean) => (repetition: number) =>
        (this.cublas ?? this.#launches).multiply(
          ...([C, A, this.#matrix(N * K, repetition), tokens, N, K, isTransposed, false] as const),
        ),
    });
    return {
      qkv_proj: product(at.qkv, at.normed, (heads + 2 * kvHeads) * headDim, hidden),
      o_proj: product(at.projected, at.attended, hidden, heads * headDim),
      gate_up_proj: product(at.up, at.normed, feedForward === "silu-gated" ? 2 * ffn : ffn, hidden),
      down_proj: product(at.projected, at.inner, hidden, ffn),
    };
  }

  /** Operators of each sequence, µs by name, for the rows of logits of a step. */
  perSequence(step: BatchStep): ReadonlyMap<string, number> {
    const { hidden, vocabulary } = this.#config;
    const { size, at } = this.#place(step);
    const products = this.cublas ?? this.#launches;
    const elements = vocabulary * hidden;
    return new Map([
      [
        "lm_head",
        this.time((i) =>
          products.multiply(
            ...([at.logits, at.normed, this.#matrix(elements, i)] as const),
            ...([size.logits, vocabulary, hidden, false, true] as const),
          ),
        ),
      ],
      ["sampler", this.time(() => this.#launches.argmaxRows(at.sampled, at.logits, size.logits))],
    ]);
  }

  /** A matrix of random weights; consecutive repetitions have different ones, as layers have, so that none is in the L2 cache. */
  #matrix(elements: number, repetition: number): bigint {
    const matrices = Math.max(1, Math.floor(this.#weights.bytes / (2 * elements)));
    return this.#weights.address + BigInt(2 * elements * (repetition % matrices));
  }

  close(): void {
    this.cublas?.close();
    this.device.close();
  }

  /** Puts a step on the device; its activations are random. */
  #place(step: BatchStep): Placed {
    const size = sizeOf(step);
    const splits = size.decodes > 0 ? splitsOf(size, this.#config, this.#launches, this.device) : 1;
    this.#inputs.reserve(size);
    this.#buffers.reserve(size, splits);
    this.#inputs.upload(this.#inputs.pack(step, size));
    const at = this.#buffers.activations(size, splits);
    const { hidden, heads, kvHeads, headDim, ffn, feedForward } = this.#config;
    const random = (address: bigint, elements: number) => this.#launches.fillRandom(address, elements, 4, 0, 1);
    random(at.x, 2 * size.tokens * hidden);
    random(at.normed, size.tokens * hidden);
    random(at.qkv, size.tokens * (heads + 2 * kvHeads) * headDim);
    random(at.attended, size.tokens * heads * headDim);
    random(at.projected, size.tokens * hidden);
    random(at.up, size.tokens * (feedForward === "silu-gated" ? 2 : 1) * ffn);
    random(at.inner, size.tokens * ffn);
    random(at.rope, 2 * size.tokens * headDim);
    // The inputs of the next step use the same pinned memory.
    this.device.synchronize();
    return { size, splits, at, inputs: this.#inputs.addresses(size) };
  }
}
