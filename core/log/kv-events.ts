import { assert } from "../errors.ts";
import { CacheState } from "./cache-state.ts";
import type { EventLog } from "./event-log.ts";
import { type EventOf, ignore } from "./events.ts";

/**
 * A change of a cache's contents for an external router or indexer: contents that became matchable, or stopped being matchable.
 * Contents are content ids, which stand for a block and all tokens before it; `parent` is the content before the first one,
 * absent at the beginning of a prompt. The names are those of vLLM's and SGLang's KV events.
 */
export type KvEvent =
  | { readonly type: "stored"; readonly contents: number[]; readonly blocks: number[]; readonly parent?: number }
  | { readonly type: "removed"; readonly contents: number[]; readonly blocks: number[] }
  | { readonly type: "cleared"; readonly blocks: number };

/** Derives KV events from an event log. Content that is cached in two blocks is stored twice and removed twice. */
export class KvEventReader {
  readonly #log: EventLog;
  /** Events read so far, the log's dropped ones included. */
  #read = 0;
  readonly #state = new CacheState();
  /** By running request, the contents of its prompt and output that have been matched or published, by place. */
  readonly #paths = new Map<number, number[]>();
  /** Blocks of a cleared cache whose `evict` or `drop` follows; the event `cleared` covers them. */
  #cleared = 0;
  #events: KvEvent[] = [];
  /** The last event, if the last call has kept it. */
  #kept: KvEvent[] = [];
  /** The request that published the blocks of the last event. */
  #publisher = -1;

  constructor(log: EventLog) {
    this.#log = log;
  }

  /**
   * The events since the last call, in order. Consecutive blocks that one request publishes in a row are one event. With
   * `keepsLast`, the last event is returned by the next call, because further blocks may belong to it.
   */
  take(keepsLast = false): KvEvent[] {
    const { dropped, count } = this.#log;
    assert(this.#read >= dropped, "events were dropped before they were read");
    this.#events = this.#kept;
    if (this.#kept.length === 0) this.#publisher = -1;
    for (const event of this.#log.events(this.#read - dropped, count)) {
      switch (event.name) {
        case "hit":
        case "adopt":
          this.#pathOf(event.request)[event.place] = event.content;
          break;
        case "duplicate":
          this.#pathOf(event.request)[event.place] = this.#state.contentOf(event.keptBlock)!;
          break;
        case "publish":
          this.#addStored(event);
          break;
        case "evict":
        case "drop":
          if (this.#cleared > 0) this.#cleared--;
          else this.#addRemoved(event);
          break;
        case "clear":
          this.#cleared = event.blocks;
          this.#events.push({ type: "cleared", blocks: event.blocks });
          break;
        case "finish":
        case "preempt":
        case "refuse":
          this.#paths.delete(event.request);
          break;
        default:
          ignore<
            | "admit"
            | "miss"
            | "allocate"
            | "copy"
            | "step"
            | "release"
            | "pin"
            | "unpin"
            | "swapOut"
            | "swapIn"
            | "send"
            | "receive"
            | "trim"
            | "signal"
          >(event);
      }
      this.#state.apply(event);
    }
    this.#read = dropped + count;
    this.#kept = keepsLast ? this.#events.splice(-1) : [];
    return this.#events;
  }

  #pathOf(request: number): number[] {
    let path = this.#paths.get(request);
    if (path === undefined) this.#paths.set(request, (path = []));
    return path;
  }

  #addStored({ request, block, content, place }: EventOf<"publish">): void {
    const path = this.#pathOf(request);
    path[place] = content;
    const parent = place === 0 ? undefined : path[place - 1];
    const last = this.#events.at(-1);
    if (last?.type === "stored" && this.#publisher === request && last.contents.at(-1) === parent) {
      last.contents.push(content);
      last.blocks.push(block);
    } else {
      const stored = { type: "stored" as const, contents: [content], blocks: [block] };
      this.#events.push(parent === undefined ? stored : { ...stored, parent });
    }
    this.#publisher = request;
  }

  #addRemoved({ block, content }: EventOf<"evict" | "drop">): void {
    const last = this.#events.at(-1);
    if (last?.type === "removed") {
      last.contents.push(content);
      last.blocks.push(block);
    } else {
      this.#events.push({ type: "removed", contents: [content], blocks: [block] });
    }
  }
}
