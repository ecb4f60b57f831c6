import type { Random } from "../random.ts";
import type { Nanos } from "../trace/trace.ts";
import type { Plugin, PluginOption } from "./plugin.ts";
import type { RequestView } from "./request-view.ts";

/** The state of a replica that a router may read. */
export interface ReplicaView {
  /** Requests in the waiting queue. */
  readonly waitingCount: number;
  /** Running sequences. */
  readonly runningCount: number;
  /** Prompt and output tokens of waiting requests. */
  readonly waitingTokens: number;
  /** Blocks with a reference count above 0. */
  readonly referencedBlocks: number;
  /** Blocks of the cache; undefined = unlimited. */
  readonly totalBlocks: number | undefined;
  /** Hit tokens that the request would have on this replica. */
  cachedTokens(request: RequestView): number;
}

/** Chooses the replica of each request. It does not change the replicas. */
export interface Router {
  /** Index in `replicas` of the replica for this request. Number and order of the replicas do not change. */
  route(request: RequestView, replicas: readonly ReplicaView[], now: Nanos): number;
  /** The request has finished on this replica, or was refused there. */
  finished?(request: RequestView, replica: number, now: Nanos): void;
}

/** A router with its options, which `--router-option NAME=N` sets. */
export interface RouterPlugin extends Plugin {
  readonly options?: Readonly<Record<string, PluginOption>>;
  /** `options` has a value for every option that the plug-in declares. */
  create(given: {
    readonly random: Random;
    readonly replicaCount: number;
    readonly blockTokens: number;
    readonly options: Readonly<Record<string, number>>;
  }): Router;
}
