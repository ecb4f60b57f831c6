import type { Random } from "../random.ts";
import type { Nanos } from "../trace/trace.ts";
import type { Plugin, PluginOption } from "./plugin.ts";
import type { RequestView } from "./request-view.ts";

/** What a router knows of a replica. */
export interface ReplicaView {
  readonly waitingCount: number;
  readonly runningCount: number;
  readonly waitingTokens: number;
  readonly referencedBlocks: number;
  readonly totalBlocks: number | undefined;
  /** Tokens of the request that this replica has cached. */
  cachedTokens(request: RequestView): number;
}

/** Chooses the replica of a request; it changes nothing in them. */
export interface Router {
  /** The place in `replicas` of the one that gets this request; as many as it was created for, always in this order. */
  route(request: RequestView, replicas: readonly ReplicaView[], now: Nanos): number;
  /** A request that went to this replica has ended there. */
  finished?(request: RequestView, replica: number, now: Nanos): void;
}

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
