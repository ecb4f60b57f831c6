import { assert } from "../../core/errors.ts";
import { type BatchStep, ExecutorError } from "../executor.ts";
import type { DecoderConfig } from "../model/decoder.ts";
import type { Device, DeviceMemory, PinnedMemory } from "./device.ts";
import { samplingRowBytes, writeSamplingRow } from "./sampling-rows.ts";

/** Queries of a tile of attention_prefill. */
const tileQueries = 64;

/** Sizes of a step, which determine the layout of its inputs. */
export interface StepSize {
  /** Rows of the batch. */
  readonly tokens: number;
  readonly sequences: number;
  /** Tiles of queries of the sequences with several tokens. */
  readonly tiles: number;
  /** Sequences with one token. */
  readonly decodes: number;
  /** Rows whose logits are computed. */
  readonly logits: number;
  /** Blocks of a row of the block tables. */
  readonly tableStride: number;
  /** Longest context of the sequences with one token. */
  readonly longestDecode: number;
}

/** Addresses of a step's inputs on the device. */
export interface StepAddresses {
  readonly tokens: bigint;
  readonly positions: bigint;
  readonly slots: bigint;
  readonly cuSeqlensQ: bigint;
  readonly contextLens: bigint;
  readonly tables: bigint;
  readonly tiles: bigint;
  readonly decodeSequences: bigint;
  readonly logitRows: bigint;
  readonly sampling: bigint;
}

/**
 * The inputs of a step in one buffer: packed in pinned memory, and uploaded by one copy. Equal sizes have equal addresses until the
 * buffer grows, so that a captured graph can be launched again with other inputs.
 */
export class StepInputs {
  readonly #device: Device;
  #memory: { readonly device: DeviceMemory; readonly pinned: PinnedMemory; readonly view: Int32Array };

  constructor(device: Device) {
    this.#device = device;
    this.#memory = this.#allocate(2 ** 16);
  }

  /** Makes room for steps of this size. @returns whether addresses have changed */
  reserve(size: StepSize): boolean {
    const needed = layoutOf(size).end;
    if (needed <= this.#memory.view.length) return false;
    const { device, pinned } = this.#memory;
    this.#memory = this.#allocate(2 ** Math.ceil(Math.log2(needed)));
    device.free();
    pinned.free();
    return true;
  }

  addresses(size: StepSize): StepAddresses {
    const at = layoutOf(size);
    const base = this.#memory.device.address;
    const address = (element: number) => base + BigInt(4 * element);
    return {
      tokens: address(at.tokens),
      positions: address(at.positions),
      slots: address(at.slots),
      cuSeqlensQ: address(at.cuSeqlensQ),
      contextLens: address(at.contextLens),
      tables: address(at.tables),
      tiles: address(at.tiles),
      decodeSequences: address(at.decodeSequences),
      logitRows: address(at.logitRows),
      sampling: address(at.sampling),
    };
  }

  /**
   * Writes a step to pinned memory. Rows and sequences up to `size` are padding: one token each, which is not stored and attends to
   * the first token of block 0.
   *
   * @returns bytes that `upload` copies
   */
  pack(step: BatchStep, size: StepSize): number {
    const { view, pinned } = this.#memory;
    const at = layoutOf(size);
    const { cuSeqlensQ, contextLens, blockTables, maxBlocksPerSequence, sampling } = step;
    const [rows, sequences] = [step.inputIds.length, contextLens.length];
    put(view, at.tokens, step.inputIds, size.tokens, 0);
    put(view, at.positions, step.positions, size.tokens, 0);
    put(view, at.slots, step.slotMapping, size.tokens, -1);
    put(view, at.contextLens, contextLens, size.sequences, 1);
    view.set(cuSeqlensQ, at.cuSeqlensQ);
    for (let i = sequences; i < size.sequences; i++) view[at.cuSeqlensQ + i + 1] = rows + i + 1 - sequences;
    for (let i = 0; i < sequences; i++) {
      const from = i * maxBlocksPerSequence;
      view.set(blockTables.subarray(from, from + maxBlocksPerSequence), at.tables + i * size.tableStride);
    }
    for (let i = sequences; i < size.sequences; i++) view[at.tables + i * size.tableStride] = 0;
    view.set(step.logitsIndices, at.logitRows);
    for (let i = step.logitsIndices.length, row = rows; i < size.logits; i++) view[at.logitRows + i] = row++;
    let tile = at.tiles;
    let decode = at.decodeSequences;
    for (let i = 0; i < size.sequences; i++) {
      const queries = i < sequences ? cuSeqlensQ[i + 1] - cuSeqlensQ[i] : 1;
      if (queries === 1) view[decode++] = i;
      // The last tile of a sequence has the most keys and begins first.
      else
        for (let first = tileQueries * Math.floor((queries - 1) / tileQueries); first >= 0; first -= tileQueries) {
          view[tile++] = i;
          view[tile++] = first;
        }
    }
    assert(tile === at.tiles + 2 * size.tiles && decode === at.decodeSequences + size.decodes, "tiles and decodes");
    if (sampling)
      for (let i = 0; i < size.logits; i++)
        writeSamplingRow(
          pinned.buffer,
          4 * at.sampling + i * samplingRowBytes,
          sampling[Math.min(i, sampling.length - 1)],
        );
    return 4 * (sampling ? at.end : at.sampling);
  }

  upload(bytes: number): void {
    this.#device.upload(this.#memory.device.address, this.#memory.pinned.address, bytes);
  }

  #allocate(elements: number) {
    const pinned = this.#device.allocatePinned(4 * elements);
    const device = this.#device.allocate(4 * elements, "the inputs of a step");
    return { device, pinned, view: new Int32Array(pinned.buffer) };
  }
}

/**
 * Checks tokens, positions and slots. An invalid one is an access outside the device's memory, after which every call of the process
 * to the device fails.
 *
 * @throws ExecutorError if a token or position is none of the model's
 */
export function checkStep(
  step: BatchStep,
  { vocabulary, positions, maxPositions }: DecoderConfig,
  slots: number,
): void {
  const { inputIds, slotMapping } = step;
  const mostPositions = positions.kind === "learned" ? maxPositions : 2 ** 31;
  for (let row = 0; row < inputIds.length; row++) {
    const token = inputIds[row];
    const position = step.positions[row];
    const slot = slotMapping[row];
    if (!(token >= 0 && token < vocabulary))
      throw new ExecutorError(`token ${token} is outside the vocabulary of ${vocabulary} tokens`);
    if (!(position >= 0 && position < mostPositions))
      throw new ExecutorError(`position ${position} is outside the model's ${mostPositions} positions`);
    assert(slot >= 0 && slot < slots, `slot ${slot} of ${slots}: attention reads stored keys only`);
  }
}

/** The size of a step without padding. */
export function sizeOf({
  inputIds,
  cuSeqlensQ,
  contextLens,
  logitsIndices,
  maxBlocksPerSequence,
}: BatchStep): StepSize {
  let [tiles, decodes, longestDecode] = [0, 0, 0];
  for (let i = 0; i < contextLens.length; i++) {
    const queries = cuSeqlensQ[i + 1] - cuSeqlensQ[i];
    if (queries > 1) tiles += Math.ceil(queries / tileQueries);
    else {
      decodes++;
      longestDecode = Math.max(longestDecode, contextLens[i]);
    }
  }
  return {
    ...{ tokens: inputIds.length, sequences: contextLens.length, tiles, decodes, longestDecode },
    ...{ logits: logitsIndices.length, tableStride: maxBlocksPerSequence },
  };
}

/** Copies `values`, and fills the rest of `count` elements. */
function put(view: Int32Array, at: number, values: Int32Array, count: number, padding: number): void {
  view.set(values, at);
  if (values.length < count) view.fill(padding, at + values.length, at + count);
}

/** First element of each input; inputs begin at multiples of 16 bytes. */
function layoutOf({ tokens, sequences, tiles, decodes, logits, tableStride }: StepSize) {
  let end = 0;
  const place = (elements: number) => {
    const at = end;
    end = Math.ceil((end + elements) / 4) * 4;
    return at;
  };
  return {
    tokens: place(tokens),
    positions: place(tokens),
    slots: place(tokens),
    cuSeqlensQ: place(sequences + 1),
    contextLens: place(sequences),
    tables: place(sequences * tableStride),
    tiles: place(2 * tiles),
    decodeSequences: place(decodes),
    logitRows: place(logits),
    sampling: place((logits * samplingRowBytes) / 4),
    end,
  };
}
