import type { TraceChoice } from "../input.ts";
import { streamReport } from "../output/report.ts";
import { checkWritable } from "../output/run-directory.ts";
import { version } from "../package.ts";
import { loopReport } from "../run/load.ts";
import { adviceFor } from "./advice.ts";
import { Clusters, frontOf, sizedCluster } from "./clusters.ts";
import { cheapest } from "./search.ts";
import type { SizeDocument } from "./size-document.ts";
import { writeSizeFiles } from "./size-files.ts";
import type { SizeOptions } from "./size-options.ts";
import { type Sizing, withSizing } from "./sizing.ts";

/** The result of `size`. */
export interface Sized {
  readonly report: SizeDocument;
  /** Short name of the trace, derived from the first file's name. */
  readonly name: string;
  /** Files that were written. */
  readonly files: readonly string[];
}

/** Finds the cheapest cluster that meets an SLO. @throws InputError, TraceError, PolicyError naming a plug-in's file, Interrupted */
export async function sizeCluster(source: TraceChoice, options: SizeOptions): Promise<Sized> {
  const { out } = options;
  if (out !== undefined) await checkWritable(out, out);
  return await withSizing(source, options, async (sizing) => {
    const report = await reportOf(sizing);
    const { name } = sizing.stream;
    const files = out === undefined ? [] : await writeSizeFiles(out, name, report);
    return { report, name, files };
  });
}

async function reportOf(sizing: Sizing): Promise<SizeDocument> {
  const { stream, trace, simulated, slo, prices, measurements, options, maxGpus } = sizing;
  const { excluded, costNotes, warmup, seed } = sizing;
  const clusters = new Clusters(sizing);
  const choice = await cheapest(options, clusters.evaluate);
  const search = measurements.count;
  const chosen = choice && (await clusters.of(choice.option, choice.replicas));
  const answer = chosen ? await adviceFor(sizing, clusters, chosen) : null;
  const all = clusters.all;
  const sized = all.map((cluster) => sizedCluster(sizing, cluster));
  const front = frontOf(sized);
  const gpus = [...new Set(options.map(({ machine }) => machine.gpu))];
  return {
    schema: "size/1",
    kvlab: version,
    trace: streamReport(stream, trace.totals),
    model: simulated.model.name,
    slo,
    load: { ...loopReport(simulated), speed: simulated.speed, requestsPerS: simulated.rate ?? null },
    ...{ warmup, seed },
    prices: {
      currency: prices.currency,
      file: prices.file ?? null,
      gpus: Object.fromEntries(gpus.map((gpu) => [gpu, prices.gpus.get(gpu)!])),
    },
    grid: { combinations: options.length, maxGpus, clusters: gridClusters(sizing) },
    ...{ excluded, costNotes },
    simulations: { search, explanation: measurements.count - search },
    answer,
    clusters: sized.map((one, i) => ({ ...one, onFront: front[i], chosen: all[i].measured === chosen?.measured })),
  };
}

/** Combinations with each number of replicas; with one replica, those that differ in the router only are one. */
function gridClusters({ options }: Sizing): number {
  const routers = new Set(options.map(({ router }) => router)).size;
  return options.reduce((sum, { most }) => sum + most - 1, 0) + options.length / routers;
}
