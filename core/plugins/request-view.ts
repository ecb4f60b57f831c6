import type { BlockColumns } from "../trace/content.ts";
import type { Nanos } from "../trace/trace.ts";

/**
 * What a policy may know of a request; its true output length is not among it. Valid during the call: the object may be
 * another request's afterwards.
 */
export interface RequestView {
  /** Place in the order of arrival, from 0. */
  readonly id: number;
  readonly arrivalNs: Nanos;
  readonly inputTokens: number;
  readonly maxOutputTokens: number;
  readonly namespace: number;
  readonly session: number;
  readonly category: number;
  readonly priority: number;
  /** How long after its last use what it stores keeps this priority; absent or 0 = for ever. */
  readonly retentionNs?: Nanos;
  readonly markedTokens: number;
  /** Content ids of the prompt's blocks: `keys[keyStart .. keyStart + promptBlocks)`. */
  readonly keys: Uint32Array;
  readonly keyStart: number;
  readonly promptBlocks: number;
}

/** All requests to come, in their order; only for policies that say so in their description. */
export interface FutureView {
  readonly blocks: BlockColumns;
  readonly requestCount: number;
  /** Of each request's blocks, how many can be hits under the rules; 0 if it will be refused. */
  readonly usableBlocks: Uint32Array;
}
