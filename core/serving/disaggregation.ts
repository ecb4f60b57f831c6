import type { Router } from "../plugins/index.ts";
import type { Nanos } from "../trace/trace.ts";

/** The link of each replica to all others, over which KV is transferred. */
export interface KvLink {
  readonly bytesPerS: number;
  /** Added to each transfer; the link is free meanwhile. */
  readonly latencyNs: Nanos;
}

/** Prefill and decode on separate replicas. */
export interface DisaggregationConfig {
  /** The first replicas compute prompts and first tokens; all others decode. */
  readonly prefillReplicas: number;
  /** Chooses the decode replica, by its index among them. Absent: the first one. */
  readonly decodeRouter?: Router | undefined;
  readonly link: KvLink;
  /** Bytes of the KV of the last `tokens` tokens of a prompt. */
  readonly kvBytes: (tokens: number) => number;
}

/** A request whose prompt has been computed: the replica that did so, and the time at which it generated the first output token. */
export interface Prefilled {
  readonly replica: number;
  readonly firstTokenNs: Nanos;
}

/** Transfers of KV, one row each, in the order in which they were queued. */
export interface TransferTable {
  readonly request: number[];
  /** Replicas. */
  readonly from: number[];
  readonly to: number[];
  /** Tokens that the decode replica did not have in its cache, and those that it had. */
  readonly tokens: number[];
  readonly reusedTokens: number[];
  readonly bytes: number[];
  /** The decode replica has allocated the blocks. */
  readonly queuedNs: Nanos[];
  /** The links of both replicas are free. */
  readonly startNs: Nanos[];
  /** The last byte has arrived. */
  readonly endNs: Nanos[];
  /** The prefill replica has generated the first output token. */
  readonly firstTokenNs: Nanos[];
}

/**
 * Prefill/decode disaggregation: the KV of a request is transferred from the replica that computed its prompt to one that
 * generates its output (DistServe, OSDI 2024; Splitwise, ISCA 2024; Mooncake, FAST 2025).
 *
 * Each replica has one link. A transfer occupies the links of both replicas, and transfers are served in the order in which they
 * are queued: one that waits for its sender's link also delays later ones of its receiver. As in vLLM's NIXL connector the decode
 * replica allocates blocks first and then fetches only the tokens that its cache does not have. Different from Mooncake, a
 * transfer begins after the prefill, not layer by layer during it.
 */
export class Disaggregation {
  readonly transfers: TransferTable = {
    request: [],
    from: [],
    to: [],
    tokens: [],
    reusedTokens: [],
    bytes: [],
    queuedNs: [],
    startNs: [],
    endNs: [],
    firstTokenNs: [],
  };
  readonly #config: DisaggregationConfig;
  /** By replica, the time at which its link is free. */
  readonly #freeNs: Float64Array;
  /** Decode replicas of the requests whose prefill has ended. */
  readonly #decodeReplica = new Map<number, number>();
  /** Rows of transfers that have not ended, by request. */
  readonly #open = new Map<number, number>();

  constructor(config: DisaggregationConfig, replicas: number) {
    this.#config = config;
    this.#freeNs = new Float64Array(replicas);
  }

  isPrefill(replica: number): boolean {
    return replica < this.#config.prefillReplicas;
  }

  /** The request will be decoded by this replica. */
  assign(request: number, replica: number): void {
    this.#decodeReplica.set(request, replica);
  }

  /** The replica that decodes the request; undefined before its prefill has ended. */
  decodeReplicaOf(request: number): number | undefined {
    return this.#decodeReplica.get(request);
  }

  /** The request has ended on its decode replica. */
  ended(request: number): void {
    this.#decodeReplica.delete(request);
  }

  /** Queues the transfer of a request to replica `to`; returns its row. */
  queue(
    request: number,
    { replica: from, firstTokenNs }: Prefilled,
    to: number,
    tokens: number,
    reusedTokens: number,
    nowNs: Nanos,
  ): number {
    const { transfers } = this;
    const { link, kvBytes } = this.#config;
    const bytes = kvBytes(tokens);
    const startNs = Math.max(nowNs, this.#freeNs[from], this.#freeNs[to]);
    const sentNs = startNs + Math.ceil((bytes / link.bytesPerS) * 1e9);
    this.#freeNs[from] = this.#freeNs[to] = sentNs;
    transfers.request.push(request);
    transfers.from.push(from);
    transfers.to.push(to);
    transfers.tokens.push(tokens);
    transfers.reusedTokens.push(reusedTokens);
    transfers.bytes.push(bytes);
    transfers.queuedNs.push(nowNs);
    transfers.startNs.push(startNs);
    transfers.firstTokenNs.push(firstTokenNs);
    const row = transfers.endNs.push(sentNs + link.latencyNs) - 1;
    this.#open.set(request, row);
    return row;
  }

  /** The row of the request's transfer, which has not ended. */
  rowOf(request: number): number {
    return this.#open.get(request)!;
  }

  transferred(request: number): void {
    this.#open.delete(request);
  }
}
