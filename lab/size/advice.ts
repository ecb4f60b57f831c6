import { optionsOf } from "../../core/replica/compose.ts";
import { type SloMetric, sloMetrics } from "../../core/serving/metrics.ts";
import { hardwareNamed } from "../../sim/cost/hardware.ts";
import { schedulerOptionsOn } from "../run/configuration.ts";
import { sequenceLimitOf } from "../run/window-load.ts";
import { Bootstrap } from "../uncertainty/bootstrap.ts";
import { type Clusters, cacheBytesOf, type GridCluster, sizedCluster } from "./clusters.ts";
import { routerName } from "./grid.ts";
import { cheapest } from "./search.ts";
import type { Gain, ShareWithin, SizeAnswer, SizeLimit, SizeLimits } from "./size-document.ts";
import type { Sizing } from "./sizing.ts";

/** Memory whose effect is stated. */
const moreBytes = 16 * 2 ** 30;

/** Least change of the worst ratio to a limit, as a share of it, from which a cache or `max_num_seqs` is the limit. */
const leastChange = 0.1;

/** What the answer means: its uncertainty, gain and limits, and what more GPUs or memory would change. */
export async function adviceFor(sizing: Sizing, clusters: Clusters, chosen: GridCluster): Promise<SizeAnswer> {
  const { option, replicas } = chosen;
  const { most } = sizing.options[option];
  const bytes = cacheBytesOf(sizing.options[option]) + moreBytes;
  const report = (cluster: GridCluster, cacheBytes?: number) => sizedCluster(sizing, cluster, cacheBytes);
  return {
    cluster: report(chosen),
    within: sharesWithin(sizing, chosen),
    gain: await gainOf(sizing, clusters, chosen),
    limits: await limitsOf(sizing, clusters, chosen),
    oneReplicaMore: replicas < most ? report(await clusters.of(option, replicas + 1)) : null,
    moreMemory: report(await clusters.changed(chosen, { capacity: bytes }), bytes),
  };
}

const bootstrapOf = ({ trace: { groups }, seed }: Sizing) => new Bootstrap(groups.groups, seed);

function sharesWithin(sizing: Sizing, { measured }: GridCluster): ShareWithin[] {
  const { within, requests } = measured.groups;
  const bootstrap = bootstrapOf(sizing);
  return sloMetrics.flatMap((metric: SloMetric) => {
    const [some, all] = [within[metric], requests[metric]];
    if (some === undefined || all === undefined) return [];
    const interval = bootstrap.ratio(some, all);
    const required = sizing.slo.percentiles![metric]! / 100;
    return [{ metric, required, share: sum(some) / Math.max(1, sum(all)), ...(interval && { interval }) }];
  });
}

const sum = (values: Float64Array) => values.reduce((total, value) => total + value, 0);

/** Over the first preset's LRU with round-robin on the same GPUs. */
async function gainOf(sizing: Sizing, clusters: Clusters, chosen: GridCluster): Promise<Gain> {
  const { options } = sizing;
  const { machine, composition, capacity } = options[chosen.option];
  const baseline = options.findIndex(
    (one) =>
      one.machine === machine &&
      one.composition.preset === composition.preset &&
      one.composition.configuration.parts.eviction.name === "lru" &&
      routerName(one.router) === "round-robin" &&
      one.capacity === capacity,
  );
  const isBaseline = baseline < 0 || (await clusters.of(baseline, chosen.replicas)).measured === chosen.measured;
  if (isBaseline) return { baseline: null, hitRatio: null, cheapestBaseline: null };
  const same = await clusters.of(baseline, chosen.replicas);
  const hits = chosen.measured.groups.hitTokens.map((tokens, g) => tokens - same.measured.groups.hitTokens[g]);
  const interval = bootstrapOf(sizing).ratio(hits, same.measured.groups.lookupTokens);
  const value = chosen.measured.hitRatio - same.measured.hitRatio;
  const needed = await fewestOf(sizing, clusters, baseline, chosen.replicas);
  return {
    baseline: sizedCluster(sizing, same),
    hitRatio: { value, ...(interval && { interval }) },
    cheapestBaseline: needed ? sizedCluster(sizing, needed) : null,
  };
}

/** The fewest replicas of an option that meet the SLO. */
async function fewestOf(
  { options }: Sizing,
  clusters: Clusters,
  option: number,
  fewest: number,
): Promise<GridCluster | undefined> {
  const found = await cheapest([{ ...options[option], fewest }], (probes) =>
    clusters.evaluate(probes.map((probe) => ({ ...probe, option }))),
  );
  return found && (await clusters.of(option, found.replicas));
}

async function limitsOf(sizing: Sizing, clusters: Clusters, chosen: GridCluster): Promise<SizeLimits> {
  const { option, replicas } = chosen;
  const of = replicas > 1 ? await clusters.of(option, replicas - 1) : chosen;
  const unlimited = await clusters.changed(of, { unlimited: true });
  const { machine, composition } = sizing.options[option];
  const { parts } = composition.configuration;
  const options = optionsOf("scheduler", parts.scheduler, {
    ...schedulerOptionsOn(parts, hardwareNamed(machine.gpu)),
    ...machine.load.schedulerOption,
  });
  const limit = sequenceLimitOf(options);
  const twice =
    limit === undefined ? undefined : await clusters.changed(of, { schedulerOption: { [limit]: 2 * options[limit] } });
  return {
    limit: limitFrom(of, unlimited, twice),
    of: sizedCluster(sizing, of),
    unlimitedCache: sizedCluster(sizing, unlimited),
    twiceMaxNumSeqs: twice ? sizedCluster(sizing, twice) : null,
  };
}

/** The part whose increase lowers the worst ratio to a limit most; `compute` if none lowers it much. */
function limitFrom(of: GridCluster, unlimited: GridCluster, twice: GridCluster | undefined): SizeLimit {
  const { worst, limitedBy, preemptions, refusedRequests } = of.measured;
  const below = (1 - leastChange) * worst;
  const [withCache, withSequences] = [unlimited.measured.worst, twice?.measured.worst ?? Number.POSITIVE_INFINITY];
  const isCache = withCache < below || (worst === Number.POSITIVE_INFINITY && withCache < worst);
  if (withSequences < below && withSequences < withCache) return "max_num_seqs";
  if (!isCache) return "compute";
  return limitedBy === "blocks" || preemptions > 0 || refusedRequests > 0 ? "memory" : "cache";
}
