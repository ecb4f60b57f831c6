import { assert } from "../../core/errors.ts";
import type { BlockData } from "../executor.ts";
import type { DecoderConfig } from "../model/decoder.ts";
import type { BlockCopy } from "../worker/protocol.ts";
import type { Device, DeviceMemory, PinnedMemory } from "./device.ts";
import type { Launches } from "./launches.ts";

/** Bytes of the staging buffers of reads and writes; at least one block is moved at a time. */
const stagingBytes = 32 * 2 ** 20;
/** Most pairs or block numbers of a launch. */
const mostIndices = 4096;

/** The staging buffers, with room for a number of blocks. */
interface Staging {
  readonly device: DeviceMemory;
  readonly pinned: PinnedMemory;
  readonly blocks: number;
}

/**
 * The keys and values of all blocks, one allocation each: [layer][slot][kv head][head dim], bf16.
 *
 * Blocks are moved to the host through two staging buffers, one on the device and one in pinned memory:
 *
 *   pool ── gather ─▶ staging [block][keys, values][layer][block elements] ── copy ─▶ pinned memory ─▶ `BlockData`
 */
export class BlockPool {
  readonly #device: Device;
  readonly #launches: Launches;
  readonly #config: DecoderConfig;
  readonly #blockElements: number;
  readonly #layerElements: number;
  readonly #keys: DeviceMemory;
  readonly #values: DeviceMemory;
  readonly #indices: { readonly device: DeviceMemory; readonly pinned: PinnedMemory; readonly view: Int32Array };
  /** Allocated by the first read or write. */
  #staging: Staging | undefined;

  constructor(device: Device, launches: Launches, config: DecoderConfig, blockCount: number, blockTokens: number) {
    this.#device = device;
    this.#launches = launches;
    this.#config = config;
    this.#blockElements = blockTokens * config.kvHeads * config.headDim;
    this.#layerElements = blockCount * this.#blockElements;
    const bytes = 2 * config.layers * this.#layerElements;
    const purpose = `a pool of ${blockCount} blocks of ${blockTokens} tokens`;
    this.#keys = device.allocate(bytes, purpose);
    this.#values = device.allocate(bytes, purpose);
    // All zeros, because values of masked keys are still multiplied by 0.
    device.fillZero(this.#keys.address, bytes);
    device.fillZero(this.#values.address, bytes);
    const pinned = device.allocatePinned(8 * mostIndices);
    const view = new Int32Array(pinned.buffer);
    this.#indices = { device: device.allocate(8 * mostIndices, "block numbers"), pinned, view };
  }

  /** Address of a layer's keys. */
  keys(layer: number): bigint {
    return this.#keys.address + BigInt(2 * layer * this.#layerElements);
  }

  values(layer: number): bigint {
    return this.#values.address + BigInt(2 * layer * this.#layerElements);
  }

  /** Copies blocks in order: a launch copies its pairs in parallel, so each launch has pairs that do not depend on each other. */
  copy(pairs: readonly BlockCopy[]): void {
    for (const independent of independentCopies(pairs)) {
      independent.forEach(({ source, target }, i) => {
        this.#indices.view[2 * i] = source;
        this.#indices.view[2 * i + 1] = target;
      });
      const indices = this.#uploadIndices(2 * independent.length);
      const { address: keys } = this.#keys;
      const { address: values } = this.#values;
      const { layers } = this.#config;
      this.#launches.copyBlocks(
        ...([keys, values, indices, this.#blockElements, this.#layerElements] as const),
        ...([independent.length, layers] as const),
      );
      this.#device.synchronize();
    }
  }

  read(blocks: readonly number[]): BlockData[] {
    const data: BlockData[] = [];
    this.#inChunks(blocks.length, (from, to, staged, staging) => {
      const own = blocks.slice(from, to);
      this.#move("gather", own, staging.device.address);
      this.#device.download(staging.pinned.address, staging.device.address, 2 * own.length * this.#stagedElements);
      this.#device.synchronize();
      for (let i = 0; i < own.length; i++) {
        const { keys, values } = staged(i);
        data.push({ keys: keys.slice(), values: values.slice() });
      }
    });
    return data;
  }

  write(blocks: readonly number[], data: readonly BlockData[]): void {
    this.#inChunks(blocks.length, (from, to, staged, staging) => {
      const own = blocks.slice(from, to);
      for (let i = 0; i < own.length; i++) {
        const { keys, values } = staged(i);
        keys.set(checked(data[from + i].keys, keys.length));
        values.set(checked(data[from + i].values, values.length));
      }
      this.#device.upload(staging.device.address, staging.pinned.address, 2 * own.length * this.#stagedElements);
      this.#move("scatter", own, staging.device.address);
      this.#device.synchronize();
    });
  }

  /** Elements of a block in the staging buffers. */
  get #stagedElements(): number {
    return 2 * this.#config.layers * this.#blockElements;
  }

  /** Calls `run` for as many blocks at a time as the staging buffers have room for; `staged` are the keys and values of one. */
  #inChunks(
    count: number,
    run: (
      from: number,
      to: number,
      staged: (i: number) => { keys: Uint16Array; values: Uint16Array },
      staging: Staging,
    ) => void,
  ): void {
    if (count === 0) return;
    const elements = this.#stagedElements;
    this.#staging ??= this.#allocateStaging();
    const staging = this.#staging;
    const staged = (i: number) => {
      const part = (half: number) =>
        new Uint16Array(staging.pinned.buffer, 2 * i * elements + half * elements, elements / 2);
      return { keys: part(0), values: part(1) };
    };
    for (let from = 0; from < count; from += staging.blocks)
      run(from, Math.min(count, from + staging.blocks), staged, staging);
  }

  #allocateStaging(): Staging {
    const blockBytes = 2 * this.#stagedElements;
    const blocks = Math.min(mostIndices, Math.max(1, Math.floor(stagingBytes / blockBytes)));
    const device = this.#device.allocate(blocks * blockBytes, "the staging buffer of swapped blocks");
    return { device, pinned: this.#device.allocatePinned(blocks * blockBytes), blocks };
  }

  #move(direction: "gather" | "scatter", blocks: readonly number[], staging: bigint): void {
    this.#indices.view.set(blocks);
    const indices = this.#uploadIndices(blocks.length);
    this.#launches.moveBlocks(
      ...([direction, staging, this.#keys.address, this.#values.address, indices] as const),
      ...([this.#blockElements, this.#layerElements, this.#config.layers, blocks.length] as const),
    );
  }

  #uploadIndices(count: number): bigint {
    const { device, pinned } = this.#indices;
    this.#device.upload(device.address, pinned.address, 4 * count);
    return device.address;
  }
}

function checked(data: BlockData["keys"], length: number): Uint16Array {
  assert(data instanceof Uint16Array, "a bfloat16 pool is written with the bits of bfloat16 numbers");
  assert(data.length === length, `${data.length} numbers for ${length} of a block`);
  return data;
}

/**
 * Divides copies into groups that may be carried out in any order within the group: none reads or writes a block that another
 * one of its group writes.
 */
export function independentCopies(pairs: readonly BlockCopy[]): BlockCopy[][] {
  const groups: BlockCopy[][] = [];
  let group: BlockCopy[] = [];
  let [read, written] = [new Set<number>(), new Set<number>()];
  for (const pair of pairs) {
    const { source, target } = pair;
    const depends = written.has(source) || written.has(target) || read.has(target);
    if (group.length > 0 && (depends || group.length === mostIndices)) {
      groups.push(group);
      group = [];
      [read, written] = [new Set(), new Set()];
    }
    group.push(pair);
    read.add(source);
    written.add(target);
  }
  if (group.length > 0) groups.push(group);
  return groups;
}
