import { type Change, clusterOf, type GridOption, routerName } from "./grid.ts";
import type { Measured } from "./measure.ts";
import { compareChoices, type Probe, type ProbeResult } from "./search.ts";
import type { SizedCluster } from "./size-document.ts";
import type { Sizing } from "./sizing.ts";

/** A simulated cluster of the grid. */
export interface GridCluster {
  readonly option: number;
  readonly replicas: number;
  readonly measured: Measured;
}

/** The clusters of a grid that have been simulated. */
export class Clusters {
  readonly #sizing: Sizing;
  readonly #known = new Map<string, GridCluster>();

  constructor(sizing: Sizing) {
    this.#sizing = sizing;
  }

  /** Simulates probes of the search. */
  readonly evaluate = async (probes: readonly Probe[]): Promise<ProbeResult[]> => {
    const { options, measurements } = this.#sizing;
    const results = await measurements.all(
      probes.map(({ option, replicas, unlimited }) => {
        const { relaxed } = options[option];
        // With an unlimited cache, options of one kind are the same.
        const one = unlimited ? options.find((other) => other.relaxed === relaxed)! : options[option];
        return clusterOf(one, replicas, this.#sizing, { unlimited });
      }),
    );
    for (const [i, { option, replicas, unlimited }] of probes.entries())
      if (!unlimited) this.#add({ option, replicas, measured: results[i] });
    return results;
  };

  /** One cluster of the grid. */
  async of(option: number, replicas: number): Promise<GridCluster> {
    await this.evaluate([{ option, replicas, unlimited: false }]);
    return this.#known.get(this.#keyOf(option, replicas))!;
  }

  /** A cluster of the grid with a part replaced. */
  async changed({ option, replicas }: GridCluster, change: Change): Promise<GridCluster> {
    const { options, measurements } = this.#sizing;
    const [measured] = await measurements.all([clusterOf(options[option], replicas, this.#sizing, change)]);
    return { option, replicas, measured };
  }

  /** All clusters, the cheapest first; of equal cost the one that the search prefers. */
  get all(): GridCluster[] {
    const { options } = this.#sizing;
    const ranked = ({ option, replicas, measured: { worst } }: GridCluster) => ({
      ...{ option, worst, cost: options[option].replicaCost * replicas },
    });
    return [...this.#known.values()].sort((one, other) => compareChoices(ranked(one), ranked(other)));
  }

  #add(cluster: GridCluster): void {
    const key = this.#keyOf(cluster.option, cluster.replicas);
    const known = this.#known.get(key);
    if (known === undefined || cluster.option < known.option) this.#known.set(key, cluster);
  }

  /** Options that differ only in the router are the same with one replica. */
  #keyOf(option: number, replicas: number): string {
    const { machine, composition, router, capacity } = this.#sizing.options[option];
    const { options } = this.#sizing;
    const same =
      replicas > 1
        ? option
        : options.findIndex(
            (other) => other.machine === machine && other.composition === composition && other.capacity === capacity,
          );
    return `${same} ${replicas} ${replicas > 1 ? routerName(router) : ""}`;
  }
}

/** A cluster as in the document. */
export function sizedCluster(
  { options }: Pick<Sizing, "options">,
  { option, replicas, measured }: GridCluster,
  cacheBytesPerGpu = cacheBytesOf(options[option]),
): SizedCluster {
  const { machine, composition, router } = options[option];
  const { parts } = composition.configuration;
  const gpus = machine.gpus * replicas;
  const costPerHour = (machine.microsPerGpuHour * gpus) / 1e6;
  const {
    tokensPerS,
    ttftMs,
    tpotMs,
    worst: _,
    attained: __,
    groups: ___,
    computedPromptTokens: ____,
    isUnlimited: _____,
    needed: ______,
    ...shown
  } = measured;
  return {
    gpu: machine.gpu,
    tensorParallel: machine.tensorParallel,
    replicas,
    gpus,
    preset: parts.preset?.name ?? "none",
    index: parts.index.name,
    eviction: composition.configuration.label,
    router: replicas === 1 ? null : routerName(router),
    cacheBytesPerGpu,
    blockTokens: composition.blockTokens,
    costPerHour,
    costPerMillionTokens: tokensPerS === 0 ? null : costPerHour / ((tokensPerS * 3600) / 1e6),
    ttftMsP50: ttftMs?.p50 ?? null,
    ttftMsP99: ttftMs?.p99 ?? null,
    tpotMsP50: tpotMs?.p50 ?? null,
    tpotMsP99: tpotMs?.p99 ?? null,
    ...shown,
  };
}

/** Bytes of the cache on each GPU of an option. */
export const cacheBytesOf = ({ machine, capacity }: GridOption): number => capacity ?? machine.cacheBytes;

/** What clusters are compared by: cost and TTFT, the less the better; goodput and hit ratio, the more the better. */
const valuesOf = ({ costPerHour, ttftMsP99, goodputRequestsPerS, hitRatio }: SizedCluster): readonly number[] => [
  costPerHour,
  ttftMsP99 ?? Number.POSITIVE_INFINITY,
  -goodputRequestsPerS,
  -hitRatio,
];

/** By cluster: whether it is on the Pareto front. */
export function frontOf(clusters: readonly SizedCluster[]): boolean[] {
  const values = clusters.map(valuesOf);
  const dominates = (one: readonly number[], other: readonly number[]) =>
    one.every((value, i) => value <= other[i]) && one.some((value, i) => value < other[i]);
  return values.map((own) => !values.some((other) => dominates(other, own)));
}
