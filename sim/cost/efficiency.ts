/**
 * The rates that an engine achieves on a device: shares of its data sheet's rates, and times that do not depend on size. Shares are
 * above 0 and at most 1 (`matrices` of a device whose clock exceeds its data sheet's may be more); names of times end in "Us".
 */
export interface Efficiency {
  /** Share of memory bandwidth in matrix products and elementwise kernels. */
  readonly memory: number;
  /** Share of matrix throughput in the tiles of a matrix product. */
  readonly matrices: number;
  /** In matrix products: fraction of the shorter of compute time and memory time that is hidden behind the longer. */
  readonly overlap: number;
  /** Launch of a matrix product, and of each wave of its tiles. */
  readonly matrixUs: number;
  readonly waveUs: number;
  /** Share of the rate of `matrices` in the experts' matrices, and the time of routing, permutation and launches of a layer. */
  readonly experts: number;
  readonly expertsUs: number;
  /** Share of matrix throughput in the tiles of attention. */
  readonly attention: number;
  /** Attention of a step with prefill: launch, start of a tile, and a tile without queries. */
  readonly attentionUs: number;
  readonly tileUs: number;
  readonly emptyTileUs: number;
  /** Share of the last wave's idle time that tiles of the other kind (prefill, decode) do not fill. */
  readonly tail: number;
  /** Of the reads of KV that query heads of one group share: share that is repeated if the KV exceeds the cache. */
  readonly reread: number;
  /** Attention of a step without prefill: share of memory bandwidth, launch, and start of a tile. */
  readonly kv: number;
  readonly decodeUs: number;
  readonly decodeTileUs: number;
  /**
   * Decodes of unequal contexts take longer than as many of the mean context: by this share of the difference to as many of the
   * longest context.
   */
  readonly skew: number;
  /** Launch of an elementwise kernel, and its time per byte in the device's cache ÷ that in memory. */
  readonly elementwiseUs: number;
  readonly cached: number;
  /** The fixed time of sampling. */
  readonly samplerUs: number;
  /** Microseconds per step in which the device waits for the engine: 0 with asynchronous scheduling. */
  readonly stepUs: number;
  /** Share of the bandwidth of links to the host and between devices: 0.5 to 0.95. */
  readonly links: number;
  /**
   * Latency of an all-reduce in microseconds, two per layer: 3 to 30. With another value than the default of this factor or of
   * `links`, collectives are computed from the two, else from measurements of the device's links if there are any.
   */
  readonly allReduceUs: number;
}

/** Not measured: asynchronous scheduling, and typical values of links without measurements. */
export const typical = { stepUs: 0, links: 0.8, allReduceUs: 10 };

/** From the operators of qwen3-32b and qwen3-30b-a3b; docs/fidelity.md has the errors on those of llama-3.1-8b. */
export const rtxPro6000: Efficiency = {
  memory: 0.961,
  matrices: 0.911,
  overlap: 0.604,
  matrixUs: 2.96,
  waveUs: 2.57,
  // biome-ignore lint/suspicious/noApproximativeNumericConstant: measured, not log10(e)
  experts: 0.434,
  expertsUs: 28.4,
  attention: 0.551,
  attentionUs: 1.33,
  tileUs: 4.53,
  emptyTileUs: 0.383,
  tail: 0.763,
  reread: 0.741,
  kv: 0.902,
  decodeUs: 14.1,
  decodeTileUs: 2.37,
  skew: 0.0653,
  elementwiseUs: 2.44,
  cached: 0.321,
  samplerUs: 13.5,
  ...typical,
};

/** From the operators of llama-3.1-8b. Experts and unequal contexts were not measured: the values of rtx-pro-6000. */
export const rtx4090: Efficiency = {
  memory: 0.956,
  matrices: 1.05,
  overlap: 0.777,
  matrixUs: 4.45,
  waveUs: 1.04,
  experts: rtxPro6000.experts,
  expertsUs: rtxPro6000.expertsUs,
  attention: 0.782,
  attentionUs: 1.64,
  tileUs: 6.16,
  emptyTileUs: 0.356,
  tail: 0.872,
  reread: 0.966,
  kv: 0.919,
  decodeUs: 13.8,
  decodeTileUs: 2.82,
  skew: rtxPro6000.skew,
  elementwiseUs: 1.91,
  cached: 0.335,
  samplerUs: 25.8,
  ...typical,
};

/** A processor has no launches and no tiles: shares only. */
const processor: Efficiency = {
  ...rtxPro6000,
  ...{ matrixUs: 0, waveUs: 0, expertsUs: 0, attentionUs: 0, tileUs: 0, emptyTileUs: 0, decodeUs: 0, decodeTileUs: 0 },
  ...{ elementwiseUs: 0, samplerUs: 0 },
};

/** The device whose rates apply to devices without measurements: of the measured ones, that with the most models. */
export const referenceDevice = "rtx-pro-6000";

/** A device: its measured rates, and the tile of its attention kernels, which only processors do not have. */
interface Device {
  readonly measured?: Efficiency;
  readonly attentionTile: string;
}

/** The rates of a device; of a device without measurements, the shares and times of `referenceDevice`. */
export const efficiencyOf = ({ measured, attentionTile }: Device): Efficiency =>
  measured ?? (attentionTile === "query" ? processor : rtxPro6000);
