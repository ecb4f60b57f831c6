import { counted } from "../counted.ts";
import type { EventOf, LogEvent } from "./events.ts";
import type { RemovalCause } from "./removal-causes.ts";

/** The requests that published a cached block and that last used it. */
export interface BlockUsers {
  readonly cachedBy: number;
  readonly usedBy: number;
}

/** An event with the users of its block, if the block was cached just before the event. */
export interface LoggedEvent {
  readonly event: LogEvent;
  readonly users: BlockUsers | undefined;
  /** Of a `drop`: by default the one of a log without operator-initiated operations. */
  readonly cause?: RemovalCause | undefined;
}

/** Names that a log alone does not have. */
export interface EventNames {
  /** A content id, such as "content 17". */
  content(content: number): string;
  /** The number of blocks of a request that are looked up at its admission, such as "3 prompt blocks". */
  blocks(request: number): string;
}

/** An event as a sentence whose subject is its request, a step or an operator. */
export function sentenceOf(logged: LoggedEvent, names: EventNames): string {
  const { name, request } = logged.event;
  if (name === "drop" && request === -1 && logged.cause !== "operator") return expirySentence(logged, names);
  const other = name === "step" ? "a step" : name === "signal" ? "a client" : "an operator";
  const subject = request < 0 ? other : `request ${request}`;
  return `${subject} ${predicateOf(logged, names)}`;
}

/** An entry that expires is dropped by neither a request nor an operator. */
function expirySentence({ event, users }: LoggedEvent, names: EventNames): string {
  const { content, block } = event as EventOf<"drop">;
  return `the entry of ${names.content(content)} expires${pastOf(users)}; physical block ${block}`;
}

const pastOf = (users: BlockUsers | undefined) =>
  users === undefined ? "" : `, cached by request ${users.cachedBy}, last used by request ${users.usedBy}`;

/** The sentence without its subject. */
function predicateOf({ event, users }: LoggedEvent, names: EventNames): string {
  const past = pastOf(users);
  switch (event.name) {
    case "admit":
      return `is admitted with ${event.hitBlocks} of its ${names.blocks(event.request)} cached (${counted(event.hitTokens, "token")})`;
    case "hit":
      return `references its block ${event.place}, content ${event.content}${past}; physical block ${event.block}`;
    case "adopt":
      return event.content < 0
        ? `reuses physical block ${event.block} in place as its block ${event.place}${past}`
        : `adopts its block ${event.place} past a hole, content ${event.content}${past}, and recomputes it in place; physical block ${event.block}`;
    case "miss":
      return `misses ${names.content(event.content)}: ${event.missReason}`;
    case "evict":
      return `evicts ${names.content(event.content)}${past}; physical block ${event.block}`;
    case "drop":
      return `drops ${names.content(event.content)} from the index${past}; physical block ${event.block}`;
    case "allocate":
      return `is allocated physical block ${event.block} for its block ${event.place}`;
    case "copy":
      return `is allocated physical block ${event.block}, a copy of physical block ${event.sourceBlock}, for its block ${event.place}`;
    case "step":
      return `computes ${counted(event.tokens, "token")} of ${counted(event.requests, "request")}`;
    case "publish":
      return `publishes its block ${event.place}, content ${event.content}; physical block ${event.block}`;
    case "duplicate":
      return `replaces physical block ${event.block} by physical block ${event.keptBlock}, which has the same content, as its block ${event.place}`;
    case "release":
      return `releases physical block ${event.block}, which ${event.keptCached ? "stays cached" : "becomes free"}`;
    case "finish":
      return `finishes after ${counted(event.outputTokens, "output token")}`;
    case "refuse":
      return "is refused: it needs more blocks than the cache has";
    case "preempt":
      return "is preempted and returns to the waiting queue";
    case "clear":
      return `resets the cache of ${counted(event.blocks, "block")}`;
    case "pin":
      return `pins ${names.content(event.content)}; physical block ${event.block}`;
    case "unpin":
      return "unpins a prefix";
    case "swapOut":
      return `is swapped out to host memory: ${counted(event.tokens, "token")}, ${counted(event.blocks, "block")}`;
    case "swapIn":
      return `is swapped in from host memory: ${counted(event.tokens, "token")}, ${counted(event.blocks, "block")}`;
    case "trim":
      return `drops its block ${event.place}, physical block ${event.rejectedBlock}, whose draft tokens were rejected`;
    case "signal":
      return signalPredicate(event);
    case "send":
      return `begins the transfer to its decode replica: ${counted(event.tokens, "token")}, ${counted(event.blocks, "block")}`;
    case "receive":
      return `has its KV transferred from its prefill replica: ${counted(event.tokens, "token")}, ${counted(event.blocks, "block")}`;
  }
}

function signalPredicate({ signal, session }: EventOf<"signal">): string {
  switch (signal) {
    case "pause":
      return `pauses session ${session} for a tool call`;
    case "resume":
      return `resumes session ${session}`;
    case "close":
      return `closes session ${session}`;
    case "expect":
      return `states when session ${session} is used next`;
    case "keep":
      return session === 0
        ? "requests that the cache keeps a prefix"
        : `requests that the cache keeps a prefix of session ${session}`;
    case "drop":
      return `closes session ${session}, whose entries may be dropped`;
  }
}
