import { Counters } from "../../core/cache/counters.ts";
import { Request } from "../../core/cache/request.ts";
import type { Fragmentation, ReplicaView, Router } from "../../core/plugins/index.ts";
import type { AdmissionLimit } from "../../core/plugins/scheduler.ts";
import { CachedCopies } from "../../core/serving/cached-copies.ts";
import type { Served, ServedReplica } from "../../core/serving/measured-requests.ts";
import { never, type Outcomes } from "../../core/serving/outcomes.ts";
import { checkRoute } from "../../core/serving/routing.ts";
import { type Levels, type SeriesData, TimeSeries } from "../../core/serving/time-series.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { Simulation, type SimulationConfig } from "../../sim/simulation.ts";
import { yieldToEvents } from "../control.ts";
import type { BlockBatch } from "./block-stream.ts";
import { type StepCalls, StepRecorder } from "./step-calls.ts";

/**
 * A cluster divided among threads. If the router does not read the replicas, no replica depends on another one: the routes are known
 * before the simulation, and each thread serves some of the replicas. It passes over the arrivals of all requests, so that its
 * replicas see the same times, and drops those of others.
 */

/** What the metrics read of a replica that another thread has simulated; plain data. */
export interface ReplicaResult {
  readonly number: number;
  readonly counters: Omit<Counters, "reset">;
  readonly fragmentation: Fragmentation | undefined;
  readonly busyNs: number;
  readonly stepCount: number;
  readonly waitNs: Record<AdmissionLimit, number>;
  readonly lastWaitNs: number;
  readonly refusals: ReadonlyMap<string, number>;
  readonly speculates: boolean;
  readonly drafts: ServedReplica["replica"]["drafts"];
  /** At the end of the part. */
  readonly levels: Levels;
  /** The contents of prompts that it has cached at the end, one bit each. */
  readonly contents: Uint32Array;
}

/** The results of the replicas of one thread; rows of requests that others serve are not used. */
export interface PartResult {
  readonly replicas: readonly ReplicaResult[];
  readonly outcomes: readonly Outcomes[];
  /** When the last of its events was. */
  readonly endNs: Nanos;
  readonly series: SeriesData;
  /** Undefined if steps were not recorded. */
  readonly steps: StepCalls | undefined;
  /** A replica has entries that expire later, which depends on the end of the whole run: the results are not exact. */
  readonly expires: boolean;
}

class ReadsReplicas extends Error {}

/**
 * The replica of each request, if the router chooses it from the request and the time alone; undefined if it reads a replica or is
 * notified of ends. `router` is used up.
 */
export function routesOf(
  router: Router,
  batches: readonly BlockBatch[],
  { replicaCount, speed }: { readonly replicaCount: number; readonly speed: number },
): Uint32Array[] | undefined {
  if (router.finished) return undefined;
  const unreadable = new Proxy({} as ReplicaView, {
    get() {
      throw new ReadsReplicas();
    },
  });
  const views = Array.from({ length: replicaCount }, () => unreadable);
  let id = 0;
  try {
    return batches.map(({ trace, blocks }) => {
      const arrivalNs = trace.arrivalNs.map((recordedNs) => Math.round(recordedNs / speed));
      const received = { ...trace, arrivalNs };
      return Uint32Array.from({ length: trace.requestCount }, (_, row) => {
        const number = router.route(new Request(id++, received, row, blocks), views, arrivalNs[row]);
        checkRoute(number, replicaCount);
        return number;
      });
    });
  } catch (error) {
    if (error instanceof ReadsReplicas) return undefined;
    throw error;
  }
}

/** A router that repeats known choices. */
export function repeating(routes: readonly Uint32Array[]): Router {
  const firsts: number[] = [];
  let count = 0;
  for (const { length } of routes) {
    firsts.push(count);
    count += length;
  }
  return {
    route({ id }) {
      let batch = firsts.length - 1;
      while (firsts[batch] > id) batch--;
      return routes[batch][id - firsts[batch]];
    },
  };
}

interface PartOptions {
  readonly own: readonly number[];
  readonly keepSteps: boolean;
  readonly advance: (requests: number) => void;
  /** Limit of recorded steps; see `StepRecorder`. */
  readonly mostNumbers?: number;
}

/** Simulates the replicas `own` of a cluster. Undefined, without waiting for the end, if it has more steps than are recorded. */
export async function simulatePart(
  batches: readonly BlockBatch[],
  config: SimulationConfig,
  { own, keepSteps, advance, mostNumbers }: PartOptions,
): Promise<PartResult | undefined> {
  const recorder = keepSteps ? new StepRecorder(() => simulation.nowNs, mostNumbers) : undefined;
  const observers = recorder ? [recorder] : [];
  const simulation: Simulation = new Simulation({ ...config, observers, serves: (replica) => own.includes(replica) });
  let reported = 0;
  const run = async () => {
    while (!recorder?.isFull && simulation.run(100_000)) await report();
    await report();
  };
  const report = async () => {
    advance(simulation.done - reported);
    reported = simulation.done;
    await yieldToEvents();
  };
  for (const { trace, blocks } of batches) {
    simulation.feed(trace, blocks);
    await run();
    if (recorder?.isFull) return undefined;
  }
  simulation.end();
  await run();
  if (recorder?.isFull) return undefined;
  const outcomes = simulation.arrivals.batches.map((batch) => batch.outcomes);
  const copies = new CachedCopies(simulation.replicas);
  // The indexes of other replicas do not expect the contents.
  const ownOnly = (replica: number) => (own.includes(replica) ? replica : never);
  for (const [i, { blocks }] of batches.entries())
    copies.add(blocks, { ...outcomes[i], replica: outcomes[i].replica.map(ownOnly) });
  const replicas = own.map((number): ReplicaResult => {
    const { cache, levels, busyNs, stepCount, waitNs, lastWaitNs, refusals, replica } = simulation.replicas[number];
    const { counters, fragmentation } = cache;
    const { speculates, drafts } = replica;
    const facts = {
      number,
      levels,
      busyNs,
      stepCount,
      waitNs,
      lastWaitNs,
      refusals,
      speculates,
      drafts: { ...drafts },
    };
    return { ...facts, counters: { ...counters }, fragmentation, contents: copies.contents(number) };
  });
  const expires = simulation.replicas.some(({ cache }) => cache.nextExpiry < Number.POSITIVE_INFINITY);
  const { nowNs: endNs, series } = simulation;
  return { replicas, outcomes, endNs, series: series.data, steps: recorder?.calls, expires };
}

/** The run that the parts are of, as metrics read it. */
export function mergedParts(parts: readonly PartResult[], routes: readonly Uint32Array[]) {
  const ofReplica: PartResult[] = [];
  const results: ReplicaResult[] = [];
  for (const part of parts)
    for (const replica of part.replicas) {
      ofReplica[replica.number] = part;
      results[replica.number] = replica;
    }
  const replicas = results.map(replicaOf);
  const copies = new CachedCopies(replicas);
  for (const { number, contents } of results) copies.addContents(number, contents);
  let firstId = 0;
  const passedOn = routes.map((replicaOfRow, batch) => {
    const merged = { outcomes: mergedOutcomes(replicaOfRow, batch, ofReplica), firstId };
    firstId += replicaOfRow.length;
    return merged;
  });
  const run: Served & { readonly series: TimeSeries } = {
    ...{ replicas, arrivals: { passedOn, batches: [] }, transfers: undefined, returnNs: 0 },
    series: mergedSeries(parts),
  };
  return { run, copies, outcomes: passedOn.map((batch) => batch.outcomes) };
}

/** Replicas have their last levels until the end of the whole run. */
function mergedSeries(parts: readonly PartResult[]): TimeSeries {
  const series = TimeSeries.merged(parts.map((part) => part.series));
  const endNs = Math.max(...parts.map((part) => part.endNs));
  for (const part of parts) for (const { levels } of part.replicas) series.addLevels(levels, part.endNs, endNs);
  return series;
}

/** Each row from the part that serves its replica. */
function mergedOutcomes(replicaOfRow: Uint32Array, batch: number, ofReplica: readonly PartResult[]): Outcomes {
  const first = ofReplica[0].outcomes[batch];
  const merge = (name: keyof Outcomes) => {
    const column = first[name].slice();
    replicaOfRow.forEach((replica, row) => {
      column[row] = ofReplica[replica].outcomes[batch][name][row];
    });
    return [name, column];
  };
  return Object.fromEntries((Object.keys(first) as (keyof Outcomes)[]).map(merge));
}

function replicaOf({ counters, fragmentation, speculates, drafts, refusals, ...facts }: ReplicaResult): ServedReplica {
  return {
    ...facts,
    ...{ isPrefill: false, log: undefined, refusals: new Map(refusals) },
    cache: {
      counters: Object.assign(new Counters(), counters),
      fragmentation,
      index: {
        match() {
          throw new Error("the contents of a replica in another thread are known already");
        },
      },
    },
    replica: { speculates, drafts },
  };
}

/** The replicas of each thread. */
export const dividedReplicas = (replicas: number, threads: number): number[][] =>
  Array.from({ length: threads }, (_, thread) =>
    Array.from({ length: replicas }, (_, replica) => replica).filter((replica) => replica % threads === thread),
  );
