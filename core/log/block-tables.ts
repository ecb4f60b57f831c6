import { ignore, type LogEvent } from "./events.ts";

/** A sequence's physical blocks by their place; a hole has no element. */
export type LoggedBlockTable = readonly number[];

/** The block tables of running requests and of pinned prefixes, read from an event log. */
export class BlockTables {
  readonly #tables = new Map<number, number[]>();

  /** Requests and pinned prefixes that have a block table, in the order of their admission. */
  requests(): number[] {
    return [...this.#tables.keys()];
  }

  of(request: number): LoggedBlockTable | undefined {
    return this.#tables.get(request);
  }

  /** Applies the next event of the log. */
  apply(event: LogEvent): void {
    switch (event.name) {
      case "admit":
        this.#tables.set(event.request, []);
        break;
      case "hit":
      case "adopt":
      case "allocate":
      case "copy":
      case "pin":
        this.#tableOf(event.request)[event.place] = event.block;
        break;
      case "duplicate":
        this.#tableOf(event.request)[event.place] = event.keptBlock;
        break;
      case "trim":
        this.#tableOf(event.request).length = event.place;
        break;
      case "finish":
      case "refuse":
      case "preempt":
      case "unpin":
        this.#tables.delete(event.request);
        break;
      default:
        ignore<
          | "miss"
          | "step"
          | "publish"
          | "release"
          | "evict"
          | "drop"
          | "clear"
          | "swapOut"
          | "swapIn"
          | "send"
          | "receive"
          | "signal"
        >(event);
    }
  }

  #tableOf(request: number): number[] {
    let table = this.#tables.get(request);
    if (table === undefined) this.#tables.set(request, (table = []));
    return table;
  }
}
