/** The document of `kvlab curve --json`: the parts that figures need. */
export interface CurveDocument {
  readonly trace: { readonly files: readonly string[]; readonly requests: number };
  readonly distinctBlocks: number;
  readonly curves: readonly {
    readonly index: string;
    readonly eviction: string;
    /** Such as `free-order=forward`. */
    readonly rules: readonly string[];
    readonly exact: boolean;
    readonly points: readonly {
      readonly blocks: number;
      readonly hitRatio: Readonly<Record<string, number | null>>;
    }[];
  }[];
}

export interface CurveRow {
  readonly index: string;
  readonly eviction: string;
  readonly blocks: number;
  readonly hitRatio: number;
}

/** A row per curve and size, as figures take them. `metric`: a hit ratio. */
export const curveRows = ({ curves }: CurveDocument, metric = "block"): CurveRow[] =>
  curves.flatMap(({ index, eviction, points }) =>
    points.map(({ blocks, hitRatio }) => ({ index, eviction, blocks, hitRatio: hitRatio[metric] ?? Number.NaN })),
  );

export interface MeanRow {
  readonly eviction: string;
  /** Cache size as a share of the distinct blocks. */
  readonly share: number;
  readonly mean: number;
  readonly low: number;
  readonly high: number;
}

/** The mean of a policy at each size, with the lowest and highest of its curves (orders of ties, seeds). */
export function meanRows(document: CurveDocument): MeanRow[] {
  const groups = Map.groupBy(curveRows(document), ({ eviction, blocks }) => `${eviction} ${blocks}`);
  return [...groups.values()].map((rows) => {
    const ratios = rows.map(({ hitRatio }) => hitRatio);
    return {
      eviction: rows[0].eviction,
      share: Number((rows[0].blocks / document.distinctBlocks).toPrecision(2)),
      mean: ratios.reduce((sum, ratio) => sum + ratio, 0) / ratios.length,
      low: Math.min(...ratios),
      high: Math.max(...ratios),
    };
  });
}

/** The share of the gap between LRU and the bound that a policy closes at each size. */
export function gapRows(document: CurveDocument): { eviction: string; share: number; gap: number }[] {
  const rows = meanRows(document);
  const at = (eviction: string, share: number) =>
    rows.find((row) => row.eviction === eviction && row.share === share)!.mean;
  return rows
    .filter(({ eviction }) => eviction !== "bound" && eviction !== "lru")
    .map(({ eviction, share, mean }) => {
      const [lru, bound] = [at("lru", share), at("bound", share)];
      return { eviction, share, gap: bound > lru ? (mean - lru) / (bound - lru) : 0 };
    });
}
