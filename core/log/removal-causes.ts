import type { EventLog } from "./event-log.ts";
import { EventKind, type EventOf, type LogEvent } from "./events.ts";

/**
 * Why a block leaves the index: its space is needed, its entry has expired, an operator deletes it or resets the cache, or a
 * request drops it (a rollback, a limit of the rules, a block that is taken over).
 */
export type RemovalCause = "eviction" | "expiry" | "operator" | "request";

/**
 * The cause of each `evict` and `drop` of a log. Entries that expire are dropped without a request; a reset is a `clear`, which an
 * `evict` or `drop` follows for each block, also without a request; a deletion has the id of the operator's prefix.
 */
export class RemovalCauses {
  /** Blocks of a reset cache whose `evict` or `drop` follows. */
  #cleared = 0;

  /** Called with each `clear`, `evict` and `drop` of the log in order; returns the cause of the last two. */
  causeOf(event: EventOf<"clear" | "evict" | "drop">): RemovalCause {
    if (event.name === "clear") {
      this.#cleared = event.blocks;
      return "operator";
    }
    if (this.#cleared > 0) {
      this.#cleared--;
      return "operator";
    }
    if (event.name === "evict") return "eviction";
    if (event.request >= 0) return "request";
    return event.request === -1 ? "expiry" : "operator";
  }
}

/** The cause of the `evict` or `drop` at this index of a log. */
export function removalCauseAt(log: EventLog, at: number): RemovalCause {
  const { kind } = log.columns();
  const { evict, drop, clear } = EventKind;
  let first = at;
  while (first > 0 && (kind[first - 1] === evict || kind[first - 1] === drop)) first--;
  if (first > 0 && kind[first - 1] === clear) first--;
  const causes = new RemovalCauses();
  for (let i = first; i < at; i++) causes.causeOf(log.eventAt(i) as Removal);
  return causes.causeOf(log.eventAt(at) as Removal);
}

type Removal = LogEvent & { name: "clear" | "evict" | "drop" };
