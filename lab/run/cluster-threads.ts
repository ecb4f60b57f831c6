import { availableParallelism } from "node:os";
import { createRouter } from "../../core/replica/compose.ts";
import { programOf } from "../../engine/worker/thread.ts";
import { yieldToEvents } from "../control.ts";
import { type PluginNames, pluginNames } from "../threads/plugin-names.ts";
import { sharedBatches } from "../threads/shared-batches.ts";
import { TaskThreads } from "../threads/task-threads.ts";
import { isUserPlugin } from "../user-plugins/user-plugin.ts";
import type { BlockBatch, BlockBatches } from "./block-stream.ts";
import type { RunConfig } from "./configuration.ts";
import type { RunSink } from "./run-sink.ts";
import { type ServedMetrics, type ServingOptions, servedMetrics } from "./served-result.ts";
import type { Simulated } from "./simulated.ts";
import { dividedReplicas, mergedParts, type PartResult, routesOf } from "./split-cluster.ts";
import { mergedSteps } from "./step-calls.ts";

/** The data of a thread: everything that can be copied to it; it finds plug-ins by name. */
export interface ClusterData {
  readonly batches: readonly BlockBatch[];
  readonly routes: readonly Uint32Array[];
  readonly parts: PluginNames;
  readonly config: Pick<
    RunConfig,
    "rules" | "blockTokens" | "blocks" | "seed" | "warmup" | "audit" | "schedulerOptions"
  >;
  /** A thread reads the profile again: its curves are objects. */
  readonly simulated: Omit<Simulated, "router" | "profile">;
  readonly keepSteps: boolean;
}

/** Fewer requests than this are simulated in one thread: another one takes about a second to start in a checkout. */
const leastRequests = 300_000;

/**
 * Simulates a cluster in threads, if its replicas are independent and that is worth it: the same metrics and series, without logs. The
 * sink gets the same requests and, with `keepSteps`, the same steps, when all have been simulated. Undefined if not.
 * @throws Interrupted, InputError
 */
export async function simulateInThreads(
  input: BlockBatches,
  config: RunConfig,
  simulated: Simulated,
  options: ServingOptions & { readonly sink?: RunSink | undefined },
  threads?: number,
): Promise<ServedMetrics | undefined> {
  const { slo, advance = () => {}, keepSteps = false, sink, signal } = options;
  const { replicas, router, speed } = simulated;
  const { rules, blockTokens, blocks, seed, warmup, audit, schedulerOptions } = config;
  const plugins = pluginNames(config);
  const count = Math.min(threads ?? availableParallelism(), replicas);
  if (count < 2 || plugins === undefined || !areIndependent(config, simulated)) return undefined;
  if (threads === undefined && (await requestsOf(input)) < leastRequests) return undefined;
  const batches = await sharedBatches(input);
  if (batches === undefined) return undefined;
  const replicaCount = replicas;
  const routes = routesOf(createRouter({ ...router, replicaCount, blockTokens, seed }), batches, {
    replicaCount,
    speed,
  });
  if (routes === undefined) return undefined;
  const { router: _, profile: __, ...plain } = simulated;
  const data: ClusterData = {
    ...{ batches, routes, parts: plugins },
    config: { rules, blockTokens, blocks, seed, warmup, audit, schedulerOptions } as ClusterData["config"],
    ...{ simulated: plain, keepSteps },
  };
  const pool = new TaskThreads<readonly number[], PartResult | undefined>(
    programOf(import.meta.url, "cluster-worker"),
    data,
    count,
  );
  try {
    // Every thread passes over the arrivals of all requests.
    let passed = 0;
    const share = (requests: number) => {
      const before = Math.floor(passed / count);
      passed += requests;
      advance(Math.floor(passed / count) - before);
    };
    const parts = await pool.run(dividedReplicas(replicas, count), { advance: share, signal });
    const results = parts.flatMap((part) => (part === undefined || part.expires ? [] : [part]));
    if (results.length < parts.length) return undefined;
    const { run, copies, outcomes } = mergedParts(results, routes);
    if (keepSteps) {
      if (!run.series.isExact) return undefined;
      for (const steps of mergedSteps(results.flatMap(({ steps: calls }) => calls ?? []))) {
        sink?.addSteps(steps);
        await yieldToEvents(signal);
      }
    }
    for (const batch of outcomes) sink?.addRequests(batch, batch);
    return servedMetrics(run, { steps: undefined, slo, warmup, copies });
  } finally {
    pool.close();
  }
}

/** Whether nothing but the router may connect the replicas, and all is data or has a name. */
function areIndependent({ eviction, before, events, hash }: RunConfig, simulated: Simulated): boolean {
  const { disaggregation, network, router, loop, concurrency, dataParallel, cost, profile, profileFolder } = simulated;
  const isConnected = disaggregation !== undefined || network !== undefined || dataParallel > 1;
  const isOpen = loop === "open" && concurrency === undefined;
  const isNamed = profile === undefined ? cost === undefined : profileFolder !== undefined;
  const isData = isNamed && hash === undefined && before === undefined;
  return !isConnected && isOpen && isData && !isUserPlugin(router.router) && !eviction.offline && !events;
}

async function requestsOf(input: BlockBatches): Promise<number> {
  let requests = 0;
  for await (const { trace } of input.batches(true)) requests += trace.requestCount;
  return requests;
}
