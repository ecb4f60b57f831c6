import type { Nanos } from "../trace/trace.ts";

/** Round-trip times of a cluster's networks, in whole ns. */
export interface RoundTrips {
  /** Between a client and the router. */
  readonly clientNs: Nanos;
  /** Between the router and a replica. */
  readonly routerNs: Nanos;
}

/**
 * One-way latencies: half of each round trip, rounded down on the way to the replica and up on the way back. Bandwidth is not
 * modelled, because requests and tokens are small.
 *
 *   client ─ toRouterNs ─▶ router ─ toReplicaNs ─▶ replica ─ fromReplicaNs ─▶ router ─ toClientNs ─▶ client
 */
export class Network {
  readonly toRouterNs: Nanos;
  readonly toReplicaNs: Nanos;
  readonly fromReplicaNs: Nanos;
  readonly toClientNs: Nanos;

  constructor({ clientNs, routerNs }: RoundTrips) {
    this.toRouterNs = Math.floor(clientNs / 2);
    this.toReplicaNs = Math.floor(routerNs / 2);
    this.fromReplicaNs = routerNs - this.toReplicaNs;
    this.toClientNs = clientNs - this.toRouterNs;
  }

  /** From a replica to the client: the delay of output tokens and refusals. */
  get returnNs(): Nanos {
    return this.fromReplicaNs + this.toClientNs;
  }
}
