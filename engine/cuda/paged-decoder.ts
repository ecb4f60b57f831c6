import { WallClock } from "../clock.ts";
import { type BatchResult, type BatchStep, type BlockData, ExecutorError } from "../executor.ts";
import type { DecoderConfig, WeightDistribution } from "../model/decoder.ts";
import type { BlockCopy, WorkerDecoder } from "../worker/protocol.ts";
import { BlockPool } from "./block-pool.ts";
import { Buffers } from "./buffers.ts";
import { Cublas } from "./cublas.ts";
import { Device, type DeviceMemory, type PinnedMemory } from "./device.ts";
import { Forward, positionConstants } from "./forward.ts";
import { Graphs, paddedDecodes } from "./graphs.ts";
import { loadKernels } from "./kernel-image.ts";
import { Launches } from "./launches.ts";
import { checkStep, StepInputs, type StepSize, sizeOf } from "./step-inputs.ts";
import { weightLayout } from "./weights.ts";

export interface PagedDecoderOptions {
  readonly config: DecoderConfig;
  readonly blockCount: number;
  readonly blockTokens: number;
  /** Whether steps of decodes are captured as graphs; true by default. */
  readonly graphs?: boolean;
}

export interface RandomElements extends WeightDistribution {
  readonly count: number;
}

/** Bytes of the pinned buffer through which weights are uploaded. */
const uploadBytes = 32 * 2 ** 20;

/** Keys that a split of a decode has at least: a thread block reads 32 keys at once. */
const leastSplitKeys = 64;

/**
 * A decoder and its pool of keys and values on a CUDA device, in the calling thread. A step is one upload of its inputs, the
 * launches of the forward pass, and one download of logits or sampled tokens.
 */
export class PagedDecoder implements WorkerDecoder {
  readonly #options: PagedDecoderOptions;
  readonly #device: Device;
  readonly #launches: Launches;
  readonly #cublas: Cublas | undefined;
  readonly #weights: DeviceMemory;
  readonly #pool: BlockPool;
  readonly #inputs: StepInputs;
  readonly #buffers: Buffers;
  readonly #forward: Forward;
  readonly #graphs: Graphs;
  readonly #clock = new WallClock();
  #upload: PinnedMemory | undefined;

  /**
   * Allocates weights and pool; the weights are written by `writeWeights`.
   *
   * @throws InputError if no kernel supports the model
   * @throws UnavailableError if there is no device, or ExecutorError if there is not enough memory
   */
  static open(options: PagedDecoderOptions): PagedDecoder {
    const device = Device.open();
    try {
      return new PagedDecoder(options, device);
    } catch (error) {
      device.close();
      throw error;
    }
  }

  private constructor(options: PagedDecoderOptions, device: Device) {
    const { config, blockCount, blockTokens } = options;
    this.#options = options;
    this.#device = device;
    this.#launches = new Launches(this.#device, loadKernels(this.#device, config.headDim), config, blockTokens);
    this.#cublas = Cublas.open(this.#device);
    const layout = weightLayout(config);
    this.#weights = this.#device.allocate(layout.bytes, `the weights of ${config.name}`);
    this.#pool = new BlockPool(this.#device, this.#launches, config, blockCount, blockTokens);
    const constantBytes = positionConstants(config);
    const constants = this.#device.allocate(constantBytes.byteLength, "constants of positions");
    this.#write(constants.address, constantBytes);
    const products = this.#cublas ?? this.#launches;
    this.#forward = new Forward(config, this.#launches, this.#pool, products, this.#weights, layout, constants);
    this.#inputs = new StepInputs(this.#device);
    this.#buffers = new Buffers(this.#device, config);
    this.#graphs = new Graphs(this.#device);
  }

  /** Writes a tensor at a byte offset from the start of the weights. */
  writeWeights(offset: number, elements: Uint16Array): void {
    this.#write(
      this.#weights.address + BigInt(offset),
      new Uint8Array(elements.buffer, elements.byteOffset, elements.byteLength),
    );
  }

  /** Fills a tensor with random elements, which are generated on the device. */
  generateWeights(offset: number, { count, seed, mean, scale }: RandomElements): void {
    this.#launches.fillRandom(this.#weights.address + BigInt(offset), count, seed, mean, scale);
  }

  /** Frees the buffers that only loading needs. */
  loaded(): void {
    this.#upload?.free();
    this.#upload = undefined;
  }

  executeStep(step: BatchStep): BatchResult {
    const startNs = this.#clock.now();
    const { config, blockCount, blockTokens } = this.#options;
    const { sampling } = step;
    const { vocabulary } = config;
    checkStep(step, config, blockCount * blockTokens);
    const isGreedy = sampling?.every(({ temperature }) => temperature === 0) ?? false;
    const exact = sizeOf(step);
    const decodes = this.#options.graphs === false ? undefined : paddedDecodes(exact);
    const size = decodes ?? exact;
    const splits = size.decodes > 0 ? splitsOf(size, config, this.#launches, this.#device) : 1;
    const hasMoved = [this.#inputs.reserve(size), this.#buffers.reserve(size, splits)].includes(true);
    if (hasMoved) this.#graphs.clear();
    const addresses = this.#inputs.addresses(size);
    const at = this.#buffers.activations(size, splits);
    const rows = step.logitsIndices.length;
    const resultBytes = 4 * rows * (sampling ? 1 : vocabulary);
    const results = this.#buffers.results(resultBytes);
    const work = () => {
      this.#forward.run(addresses, size, at, splits);
      if (!sampling) return;
      if (isGreedy) this.#launches.argmaxRows(at.sampled, at.logits, size.logits);
      else this.#launches.sampleRows(at.sampled, at.logits, addresses.sampling, size.logits);
    };
    const inputBytes = this.#inputs.pack(step, size);
    const kind = sampling ? (isGreedy ? "greedy" : "sampled") : "logits";
    // A graph is captured before the measured time, because a capture is work of the host.
    const launch = decodes
      ? this.#graphs.prepare(`${size.sequences} ${size.tableStride} ${splits} ${kind}`, work)
      : work;
    const deviceMs = this.#device.timed(() => {
      this.#inputs.upload(inputBytes);
      launch();
      if (rows > 0) this.#device.download(results.address, sampling ? at.sampled : at.logits, resultBytes);
    });
    const logits = new Float32Array(sampling ? 0 : rows * vocabulary);
    if (!sampling) logits.set(new Float32Array(results.buffer, 0, logits.length));
    const tokens = sampling && new Int32Array(results.buffer.slice(0, 4 * rows));
    if (tokens?.includes(-1)) throw new ExecutorError("the model's largest logit is not finite: activations overflow");
    const hostMs = Math.max(0, (this.#clock.now() - startNs) / 1e6 - deviceMs);
    return { logits, ...(tokens && { tokens }), timing: { deviceMs, hostMs } };
  }

  copyBlocks(pairs: readonly BlockCopy[]): void {
    this.#pool.copy(pairs);
  }

  readBlocks(blocks: readonly number[]): BlockData[] {
    return this.#pool.read(blocks);
  }

  writeBlocks(blocks: readonly number[], data: readonly BlockData[]): void {
    this.#pool.write(blocks, data);
  }

  /** Number of steps' graphs that have been captured. */
  get graphCount(): number {
    return this.#graphs.count;
  }

  close(): void {
    this.#cublas?.close();
    this.#device.close();
  }

  #write(address: bigint, bytes: Uint8Array): void {
    this.#upload ??= this.#device.allocatePinned(uploadBytes);
    const staged = new Uint8Array(this.#upload.buffer);
    for (let from = 0; from < bytes.length; from += uploadBytes) {
      const part = bytes.subarray(from, from + uploadBytes);
      staged.set(part);
      this.#device.upload(address + BigInt(from), this.#upload.address, part.length);
      this.#device.synchronize();
    }
  }
}

/**
 * Splits of each decode, so that all multiprocessors have as many thread blocks as fit, in one wave. The number depends on the batch
 * and on the longest context, rounded up to a power of two so that few graphs occur. It selects the order of the sums of attention,
 * and thus the last bits of the results.
 */
export function splitsOf(
  { decodes, longestDecode }: StepSize,
  { window = Number.POSITIVE_INFINITY }: DecoderConfig,
  { decodeBlocks, decodeBlocksPerMultiprocessor }: Pick<Launches, "decodeBlocks" | "decodeBlocksPerMultiprocessor">,
  { multiprocessors }: Pick<Device, "multiprocessors">,
): number {
  const wanted = Math.floor((decodeBlocksPerMultiprocessor * multiprocessors) / (decodes * decodeBlocks));
  const keys = 2 ** Math.ceil(Math.log2(longestDecode));
  return Math.max(1, Math.min(wanted, Math.floor(Math.min(window, keys) / leastSplitKeys)));
}
