import type { Uncertainty } from "../output/hit-ratios.ts";
import type { RunReport } from "../output/report.ts";
import type { SummedMetric } from "../output/request-hits.ts";
import type { Capacity } from "../run/capacity.ts";
import type { RunConfig } from "../run/configuration.ts";
import type { RunSink } from "../run/run-sink.ts";
import { Bootstrap, type Interval } from "../uncertainty/bootstrap.ts";
import type { SessionGroups } from "../uncertainty/session-groups.ts";
import { SessionHits } from "../uncertainty/session-hits.ts";
import type { Configuration } from "./comparison.ts";

const seed = 1;

/** Compares the hits of each session in the runs of online policies, which all see the same sessions. */
export class PairedDifferences {
  readonly #metric: SummedMetric;
  readonly #groups: SessionGroups;
  readonly #bootstrap: Bootstrap;
  readonly #hits = new Map<Configuration, Map<Capacity, SessionHits>>();

  constructor(metric: SummedMetric, groups: SessionGroups) {
    this.#metric = metric;
    this.#groups = groups;
    this.#bootstrap = new Bootstrap(groups.groups, seed);
  }

  /** Counts the results of a run, and passes them on. */
  sinkFor(
    configuration: Configuration,
    capacity: Capacity,
    { blockTokens, warmup = 0 }: Pick<RunConfig, "blockTokens" | "warmup">,
    sink: RunSink,
  ): RunSink {
    const hits = new SessionHits(this.#metric, this.#groups, blockTokens, warmup, sink);
    const known = this.#hits.get(configuration) ?? new Map<Capacity, SessionHits>();
    this.#hits.set(configuration, known.set(capacity, hits));
    return hits;
  }

  /** Hit ratio of `a` − that of `b`, two online configurations; undefined if the sessions are too few. */
  between(a: Configuration, b: Configuration, capacity: Capacity): Interval | undefined {
    const [one, other] = [a, b].map((configuration) => this.#hits.get(configuration)!.get(capacity)!);
    return this.#bootstrap.ratio(
      one.hits.map((hits, g) => hits - other.hits[g]),
      one.lookups,
    );
  }

  /** Sets the uncertainty of each online run. `referenceOf`: the configuration with lru. */
  addTo(
    results: readonly { readonly configuration: Configuration; readonly runs: RunReport[] }[],
    capacities: readonly Capacity[],
    referenceOf: (configuration: Configuration) => Configuration | undefined,
  ): void {
    const online = results.filter(({ configuration }) => configuration.kind === "online");
    const { sessions, areInferred: sessionsInferred } = this.#groups;
    capacities.forEach((capacity, i) => {
      const value = ({ runs }: (typeof online)[number]) => runs[i].cache.hitRatio[this.#metric];
      const best = online.reduce((most, one) => (value(one) > value(most) ? one : most), online[0]);
      for (const { configuration, runs } of online) {
        const gainOverLru = this.between(configuration, referenceOf(configuration)!, capacity);
        const behindBest = this.between(best.configuration, configuration, capacity);
        if (!gainOverLru || !behindBest) return;
        const uncertainty: Uncertainty = { metric: this.#metric, sessions, sessionsInferred, gainOverLru, behindBest };
        runs[i] = { ...runs[i], uncertainty };
      }
    });
  }
}
