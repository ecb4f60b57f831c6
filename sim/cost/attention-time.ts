import type { Efficiency } from "./efficiency.ts";
import type { Hardware } from "./hardware.ts";
import { kvLayerBytes } from "./kv-bytes.ts";
import type { ModelShape } from "./model-shape.ts";

/** What one layer's attention computes in a step. */
export interface AttentionLoad {
  prefillSequences: number;
  prefillTokens: number;
  /** Query-key pairs of prefill, and tokens whose KV it reads. */
  prefillPairs: number;
  prefillContextTokens: number;
  decodeTokens: number;
  decodeContextTokens: number;
}

/** Queries of a tile (FlashAttention-2 over block tables). */
const tileQueries = 64;

/**
 * Attention of one layer on one of the devices that share it.
 *
 * Without prefill, decodes read KV in a kernel of their own, which computes all query heads of a KV head together.
 *
 * With prefill, all sequences run in the kernel for many queries per sequence. A tile has 64 queries of one head (of one KV
 * head, if the kernel packs the heads that share it), passes over its keys one after the other, and is computed by one unit of
 * the device. A decode has a tile per head in which nearly all rows are empty, so that its arithmetic is often slower than
 * reading the KV. Every sequence has as many tiles as the longest prompt; those without queries end at once.
 */
export class AttentionTime {
  readonly #efficiency: Efficiency;
  readonly #units: number;
  readonly #kvHeads: number;
  /** Heads with tiles of their own, and tokens of a sequence in a tile. */
  readonly #tileHeads: number;
  readonly #tileTokens: number;
  /** Nanoseconds per key of a tile, and per token of KV that is read. */
  readonly #keyNs: number;
  readonly #readNs: number;
  /** Nanoseconds per token of a decode's context in its own kernel, which is limited by arithmetic or by reading. */
  readonly decodeTokenNs: number;
  /** Query heads that read the same KV in tiles of their own, and the tokens of KV of one head that fit into the cache. */
  readonly #readers: number;
  readonly #cachedTokens: number;
  /** Decodes of multi-head latent attention never run in the kernel for prefill. */
  readonly #isLatent: boolean;

  constructor(shape: ModelShape, hardware: Hardware, efficiency: Efficiency, devices: number, kvNumberBytes: number) {
    const { keyDim, valueDim, kvNumbers, latentDim, numberBytes } = shape;
    const heads = Math.max(1, shape.heads / devices);
    const kvHeads = Math.max(1, shape.kvHeads / devices);
    const flops = (hardware.flops[numberBytes === 4 ? "fp32" : "bf16"] * efficiency.attention) / 1e9;
    const bytesPerNs = (hardware.memoryBytesPerS * efficiency.kv) / 1e9;
    const kvBytes = kvLayerBytes(shape, kvNumberBytes, devices);
    this.#efficiency = efficiency;
    this.#units = hardware.units;
    this.#isLatent = latentDim !== undefined;
    this.#kvHeads = kvHeads;
    const queries = hardware.attentionTile === "query" ? 1 : tileQueries;
    const packed = hardware.attentionTile === "group" ? heads / kvHeads : 1;
    this.#tileHeads = heads / packed;
    this.#tileTokens = queries / packed;
    this.#keyNs = (2 * queries * (keyDim + valueDim) * hardware.units) / flops;
    this.#readNs = kvBytes / bytesPerNs;
    // Latent attention computes on the latent vector itself, which all heads share.
    const perKey = latentDim === undefined ? keyDim + valueDim : kvNumbers + latentDim;
    this.decodeTokenNs = Math.max(this.#readNs, (2 * heads * perKey) / flops);
    this.#readers = hardware.attentionTile === "head" ? heads / kvHeads : 1;
    this.#cachedTokens = (hardware.cacheBytes * kvHeads) / kvBytes;
  }

  /** In nanoseconds; `load` is not changed. */
  ns(load: Readonly<AttentionLoad>): number {
    const decodeNs = this.#decodeNs(load.decodeTokens, load.decodeContextTokens);
    if (load.prefillTokens === 0) return decodeNs;
    if (this.#isLatent) return decodeNs + this.#mixedNs(load, 0, 0);
    return Math.max(decodeNs, this.#mixedNs(load, load.decodeTokens, load.decodeContextTokens));
  }

  /** Decodes without prefill take this time, and `decodeTokenNs` per token of context. */
  decodeStartNs(decodes: number): number {
    const { decodeUs, decodeTileUs } = this.#efficiency;
    return 1e3 * (decodeUs + (decodes * this.#kvHeads * decodeTileUs) / this.#units);
  }

  #decodeNs(decodes: number, contextTokens: number): number {
    return decodes === 0 ? 0 : this.decodeStartNs(decodes) + contextTokens * this.decodeTokenNs;
  }

  #mixedNs(load: Readonly<AttentionLoad>, decodes: number, decodeContext: number): number {
    const { attentionUs, tileUs, emptyTileUs, tail } = this.#efficiency;
    const { prefillTokens, prefillPairs, prefillContextTokens, prefillSequences: prompts } = load;
    const units = this.#units;
    const tokens = prefillTokens / prompts;
    const chunkTiles = Math.ceil(tokens / this.#tileTokens);
    // A tile's keys are those of its last query.
    const meanKeys = prefillPairs / prefillTokens + (Math.min(tokens, this.#tileTokens) - 1) / 2;
    const promptTileNs = 1e3 * tileUs + meanKeys * this.#keyNs;
    const decodeTileNs = decodes === 0 ? 0 : 1e3 * tileUs + (decodeContext / decodes) * this.#keyNs;
    // In tiles per unit of the device.
    const ofPrompts = (prompts * chunkTiles * this.#tileHeads) / units;
    const ofDecodes = (decodes * this.#tileHeads) / units;
    const idleNs = Math.max(idle(ofPrompts) * promptTileNs, idle(ofDecodes) * decodeTileNs);
    const lastTileNs = 1e3 * tileUs + (prefillContextTokens / prompts) * this.#keyNs;
    const computeNs = Math.max(
      lastTileNs,
      (ofPrompts + idle(ofPrompts)) * promptTileNs,
      (ofDecodes + idle(ofDecodes)) * decodeTileNs,
      ofPrompts * promptTileNs + ofDecodes * decodeTileNs + tail * idleNs,
    );
    const readNs = (prefillContextTokens + decodeContext * this.#reads(decodes, decodeContext)) * this.#readNs;
    return 1e3 * (attentionUs + ofDecodes * (chunkTiles - 1) * emptyTileUs) + Math.max(computeNs, readNs);
  }

  /**
   * How often decodes read their KV from memory. Query heads that share it run one after the other if there are many sequences,
   * and read it again if the KV of a head of all sequences exceeds the cache.
   */
  #reads(decodes: number, contextTokens: number): number {
    const exceeds = ramp(contextTokens / this.#cachedTokens, 0.75, 1.25) * ramp(decodes / this.#units, 0.4, 0.7);
    return 1 + (this.#readers - 1) * this.#efficiency.reread * exceeds;
  }
}

/**
 * Time in which a unit has no tile, in tiles: all of the last wave's rest if there are two waves, and less the more there are,
 * because units do not remain in step. 0 if there are no tiles.
 */
function idle(tilesPerUnit: number): number {
  const waves = Math.ceil(tilesPerUnit);
  return (waves - tilesPerUnit) / Math.max(1, waves - 1);
}

/** 0 below `from`, 1 above `to`, linear between the two. */
const ramp = (value: number, from: number, to: number) => Math.min(1, Math.max(0, (value - from) / (to - from)));
