import { assert } from "../errors.ts";
import type { Nanos } from "../trace/trace.ts";
import type { Arrivals } from "./arrivals.ts";
import { Disaggregation, type DisaggregationConfig, type Prefilled, type TransferTable } from "./disaggregation.ts";
import { Message, type Messages } from "./messages.ts";
import type { Network } from "./network.ts";
import { checkRoute } from "./routing.ts";
import type { DisaggregatedListener, TimedReplica } from "./timed-replica.ts";

/** The parts of the serving loop that prefilled requests pass through. */
export interface PrefilledRequestsParts {
  readonly arrivals: Arrivals;
  readonly messages: Messages;
  readonly network: Network | undefined;
  /** All replicas; empty until they are created. */
  readonly replicas: readonly TimedReplica[];
  /** The replica may plan a step if none runs. */
  changed(replica: TimedReplica): void;
  notifyRouter(request: number, nowNs: Nanos): void;
}

/**
 * With disaggregation: requests from their first token to their release by the prefill replica.
 *
 *   prefill replica ─▶ router ─▶ decode replica: allocates blocks ─▶ transfer ─▶ decode replica: runs; prefill replica: releases
 */
export class PrefilledRequests {
  readonly #config: DisaggregationConfig;
  readonly #parts: PrefilledRequestsParts;
  readonly #disaggregation: Disaggregation;
  /** Requests whose blocks the prefill replica has not released. */
  readonly #prefilled = new Map<number, Prefilled>();
  /** Requests with a first token that no decode replica has admitted or refused. */
  readonly #fetching = new Set<number>();

  constructor(config: DisaggregationConfig, replicas: number, parts: PrefilledRequestsParts) {
    this.#config = config;
    this.#parts = parts;
    this.#disaggregation = new Disaggregation(config, replicas);
  }

  get transfers(): TransferTable {
    return this.#disaggregation.transfers;
  }

  deliver(kind: Message, id: number, nowNs: Nanos): void {
    switch (kind) {
      case Message.prefilledToRouter:
        this.#route(id, nowNs);
        return;
      case Message.toDecodeReplica:
        this.#submit(id, nowNs);
        return;
      case Message.transferStart:
        this.#beginTransfer(id, nowNs);
        return;
      case Message.transferEnd:
        this.#endTransfer(id, nowNs);
        return;
      case Message.release:
        this.#release(id, nowNs);
        return;
    }
  }

  /** The request has finished or was refused, perhaps before its transfer. */
  ended(id: number, nowNs: Nanos): void {
    if (this.#decodeReplica(id) !== undefined && this.#fetching.delete(id))
      this.#parts.messages.send(Message.release, id, nowNs);
  }

  /** Notifies the decode router of the end of a request; false if the request ended on its prefill replica. */
  notifyDecodeRouter(id: number, nowNs: Nanos): boolean {
    const decoded = this.#decodeReplica(id);
    if (decoded === undefined) return false;
    const { decodeRouter, prefillReplicas } = this.#config;
    const batch = this.#parts.arrivals.batchOf(id);
    decodeRouter?.finished?.(batch.request(id - batch.firstId), decoded - prefillReplicas, nowNs);
    this.#disaggregation.ended(id);
    return true;
  }

  /** The callbacks of one replica. */
  listener(replica: number): DisaggregatedListener {
    const disaggregation = this.#disaggregation;
    const { messages, network } = this.#parts;
    return {
      isPrefill: disaggregation.isPrefill(replica),
      prefilled: (id, nowNs) => {
        this.#fetching.add(id);
        this.#prefilled.set(id, { replica, firstTokenNs: nowNs });
        messages.send(Message.prefilledToRouter, id, nowNs + (network?.fromReplicaNs ?? 0));
      },
      fetches: (id, tokens, cachedTokens, nowNs) => {
        this.#fetching.delete(id);
        if (tokens === 0) {
          messages.send(Message.release, id, nowNs);
          return;
        }
        const row = disaggregation.queue(id, this.#prefilled.get(id)!, replica, tokens, cachedTokens, nowNs);
        messages.send(Message.transferStart, id, disaggregation.transfers.startNs[row]);
      },
    };
  }

  /** The router has been notified of a first token, and chooses the decode replica. */
  #route(id: number, nowNs: Nanos): void {
    const { decodeRouter, prefillReplicas } = this.#config;
    const { arrivals, messages, network, replicas } = this.#parts;
    const batch = arrivals.batchOf(id);
    this.#parts.notifyRouter(id, nowNs);
    const views = replicas.slice(prefillReplicas).map(({ replica }) => replica);
    for (const replica of replicas) replica.expireUntil(nowNs);
    const number = decodeRouter?.route(batch.request(id - batch.firstId), views, nowNs) ?? 0;
    checkRoute(number, views.length);
    this.#disaggregation.assign(id, prefillReplicas + number);
    messages.send(Message.toDecodeReplica, id, nowNs + (network?.toReplicaNs ?? 0));
  }

  #submit(id: number, nowNs: Nanos): void {
    const batch = this.#parts.arrivals.batchOf(id);
    const replica = this.#decodeReplicaOf(id);
    replica.submitPrefilled(batch.request(id - batch.firstId), nowNs);
    this.#parts.changed(replica);
  }

  #beginTransfer(id: number, nowNs: Nanos): void {
    const { transfers } = this.#disaggregation;
    const row = this.#disaggregation.rowOf(id);
    this.#parts.replicas[transfers.from[row]].replica.sends(id, transfers.tokens[row], nowNs);
    this.#parts.messages.send(Message.transferEnd, id, transfers.endNs[row]);
  }

  #endTransfer(id: number, nowNs: Nanos): void {
    this.#disaggregation.transferred(id);
    this.#release(id, nowNs);
    const replica = this.#decodeReplicaOf(id);
    replica.received(id, nowNs);
    this.#parts.changed(replica);
  }

  /** The prefill replica releases the blocks of the request. */
  #release(id: number, nowNs: Nanos): void {
    const replica = this.#parts.replicas[this.#prefilled.get(id)!.replica];
    this.#prefilled.delete(id);
    replica.release(id, nowNs);
    this.#parts.changed(replica);
  }

  #decodeReplica(id: number): number | undefined {
    return this.#disaggregation.decodeReplicaOf(id);
  }

  #decodeReplicaOf(id: number): TimedReplica {
    const number = this.#decodeReplica(id);
    assert(number !== undefined, "a request has no decode replica");
    return this.#parts.replicas[number];
  }
}
