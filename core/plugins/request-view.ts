import type { BlockColumns } from "../trace/content.ts";
import type { Nanos } from "../trace/trace.ts";

/**
 * A request as policies read it, without its output length. Valid during the call only: the object is reused.
 */
export interface RequestView {
  /** Position in the order of arrival, from 0. */
  readonly id: number;
  /** Arrival time in ns since the start of the trace. */
  readonly arrivalNs: Nanos;
  /** Length of the prompt in tokens. */
  readonly inputTokens: number;
  /** The client's limit of output tokens. */
  readonly maxOutputTokens: number;
  /** Salt of its content: equal tokens in two namespaces are different content; 0 = none. */
  readonly namespace: number;
  /** Number of its conversation; 0 = none. */
  readonly session: number;
  /** Number of its traffic class; 0 = none. */
  readonly category: number;
  /** A larger number is a higher priority. */
  readonly priority: number;
  /** Time after the last use for which its entries keep this priority; absent or 0 = unlimited. */
  readonly retentionNs?: Nanos;
  /** Length of the marked prefix in tokens; 0 = none. */
  readonly markedTokens: number;
  /** Content ids of the prompt's blocks: `keys[keyStart .. keyStart + promptBlocks)`. */
  readonly keys: Uint32Array;
  /** Index of its first key in `keys`. */
  readonly keyStart: number;
  /** Blocks of the prompt, a partial last one included. */
  readonly promptBlocks: number;
}

/** The requests of a replica that have arrived and not finished, as they are at any call of a policy. */
export interface ReplicaRequests {
  /** Increased whenever a request enters or leaves the waiting queue. */
  readonly queueVersion: number;
  /** Number of waiting requests. */
  readonly waitingCount: number;
  /** The waiting requests, the head of the queue first. The request of the call under way is not among them. */
  waiting(): Iterable<RequestView>;
  /** The running requests: those in no batch in flight first, in the order of their admission. */
  running(): Iterable<RequestView>;
}

/** All requests in order of arrival; for offline policies. */
export interface FutureView {
  /** Content ids of the blocks of all prompts. */
  readonly blocks: Pick<BlockColumns, "blockTokens" | "keys" | "start" | "promptBlocks" | "distinct">;
  /** Number of requests. */
  readonly requestCount: number;
  /** By request: prompt blocks that can be hits under the rules; 0 if it will be refused. */
  readonly usableBlocks: Uint32Array;
}
