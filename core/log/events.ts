import type { SignalName } from "../plugins/signals.ts";
import type { Nanos } from "../trace/trace.ts";
import type { MissReason } from "./miss-reasons.ts";

/** Codes of the kinds of events in a log's column `kind`, roughly in the order in which a request causes them. */
export const EventKind = {
  admit: 0,
  hit: 1,
  adopt: 2,
  miss: 3,
  evict: 4,
  allocate: 5,
  copy: 6,
  step: 7,
  publish: 8,
  duplicate: 9,
  release: 10,
  finish: 11,
  refuse: 12,
  preempt: 13,
  drop: 14,
  clear: 15,
  pin: 16,
  unpin: 17,
  swapOut: 18,
  swapIn: 19,
  send: 20,
  receive: 21,
  trim: 22,
  signal: 23,
} as const;
export type EventName = keyof typeof EventKind;
export const eventNames = Object.keys(EventKind) as EventName[];

interface EventBase<Name extends EventName> {
  readonly name: Name;
  /** Index in the log. */
  readonly at: number;
  readonly timeNs: Nanos;
  /** Request id; −1: none, or an operator; below −1: an operator's pinned prefix. */
  readonly request: number;
  /** Physical block; −1: none. */
  readonly block: number;
}
type Event<Name extends EventName, Fields = unknown> = EventBase<Name> & Readonly<Fields>;

/**
 * One event, by its name. A `content` is a content id (−1: none), a `place` an index in the request's block table, an
 * `endToken` the number of prompt tokens up to the end of a block.
 */
export type LogEvent =
  /** The request becomes a running sequence with a cached prefix. */
  | Event<"admit", { hitTokens: number; hitBlocks: number }>
  /** A block of the matched prefix is referenced. */
  | Event<"hit", { content: number; place: number }>
  /**
   * A cached block past a hole is referenced and recomputed in place. Without content: an unreferenced block becomes the
   * request's private block, together with the tokens in it that match.
   */
  | Event<"adopt", { content: number; place: number }>
  /** A prompt block is not used from the cache. */
  | Event<"miss", { content: number; missReason: MissReason }>
  /** A block leaves the index because its space is needed. */
  | Event<"evict", { content: number; endToken: number }>
  /** A free block becomes a private block of the request. */
  | Event<"allocate", { place: number }>
  /** Copy-on-write: `block` becomes a copy of the source block. */
  | Event<"copy", { sourceBlock: number; place: number }>
  /** The model has run one step. */
  | Event<"step", { requests: number; tokens: number }>
  /** A private block enters the index. */
  | Event<"publish", { content: number; place: number }>
  /** The request uses the cached block `keptBlock` with the same content instead of its private block. */
  | Event<"duplicate", { keptBlock: number; place: number }>
  /** The reference count of a block is 0: it is idle if it stays cached, otherwise free. */
  | Event<"release", { keptCached: boolean }>
  /** Every output token was generated. */
  | Event<"finish", { outputTokens: number }>
  /** The request can never fit and is not served. */
  | Event<"refuse">
  /** The running sequence returns to the waiting queue. */
  | Event<"preempt">
  /** A block leaves the index although no space is needed. */
  | Event<"drop", { content: number; endToken: number }>
  /** An operator resets the cache; an `evict` or `drop` follows for each of its cached blocks. */
  | Event<"clear", { blocks: number }>
  /** An operator pins a cached block. */
  | Event<"pin", { content: number; place: number }>
  /** All blocks of a pinned prefix are unpinned. */
  | Event<"unpin">
  /** The blocks of a preempted sequence are copied to host memory. */
  | Event<"swapOut", { tokens: number; blocks: number }>
  /** The tokens that are not cached are copied back to the device. */
  | Event<"swapIn", { tokens: number; blocks: number }>
  /** Prefill replica: the link begins to transfer the tokens that the decode replica's cache does not have. */
  | Event<"send", { tokens: number; blocks: number }>
  /** Decode replica: the transferred tokens are in their blocks. */
  | Event<"receive", { tokens: number; blocks: number }>
  /** A block that has only rejected draft tokens leaves the block table; its release follows. */
  | Event<"trim", { rejectedBlock: number; place: number }>
  /** The client states something about a session (0: none), when the request has arrived or ended, or in an operation. */
  | Event<"signal", { signal: SignalName; session: number }>;
export type EventOf<Name extends EventName> = Extract<LogEvent, { readonly name: Name }>;

/** Kinds of events without a physical block. */
export type WithoutBlock =
  | ("admit" | "miss" | "step" | "finish" | "refuse")
  | ("preempt" | "clear" | "unpin" | "swapOut" | "swapIn" | "send" | "receive" | "trim" | "signal");

/**
 * The default case of a reader's `switch` over an event's name: lists the kinds that the reader does not use. An event of
 * any other kind that has no case is a compile error.
 */
export function ignore<Name extends EventName>(_event: EventOf<Name>): void {}
