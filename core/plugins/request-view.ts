import type { BlockColumns } from "../trace/content.ts";
import type { Nanos } from "../trace/trace.ts";

/**
 * A request as policies read it, without its output length. Valid during the call only: the object is reused.
 */
export interface RequestView {
  /** Position in the order of arrival, from 0. */
  readonly id: number;
  readonly arrivalNs: Nanos;
  readonly inputTokens: number;
  readonly maxOutputTokens: number;
  readonly namespace: number;
  readonly session: number;
  readonly category: number;
  readonly priority: number;
  /** Time after the last use for which its entries keep this priority; absent or 0 = unlimited. */
  readonly retentionNs?: Nanos;
  readonly markedTokens: number;
  /** Content ids of the prompt's blocks: `keys[keyStart .. keyStart + promptBlocks)`. */
  readonly keys: Uint32Array;
  readonly keyStart: number;
  readonly promptBlocks: number;
}

/** All requests in order of arrival; for offline policies. */
export interface FutureView {
  readonly blocks: BlockColumns;
  readonly requestCount: number;
  /** By request: prompt blocks that can be hits under the rules; 0 if it will be refused. */
  readonly usableBlocks: Uint32Array;
}
