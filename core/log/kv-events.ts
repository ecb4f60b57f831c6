import { assert } from "../errors.ts";
import { EventKind, type EventLog } from "./events.ts";

/**
 * What a cache tells a router or an indexer outside: which content can be found in it from now on, and which no longer.
 * Contents are content ids, which stand for a block with all that precedes it; `parent` is the content just before the
 * first one, absent at the beginning of a prompt. The words are those of vLLM's and SGLang's KV events.
 */
export type KvEvent =
  | { readonly type: "stored"; readonly contents: number[]; readonly blocks: number[]; readonly parent?: number }
  | { readonly type: "removed"; readonly contents: number[]; readonly blocks: number[] }
  | { readonly type: "cleared"; readonly blocks: number };

/** Reads KV events off an event log. Content that is stored twice is told twice, and removed twice. */
export class KvEventReader {
  readonly #log: EventLog;
  /** Events read, of all that there ever were. */
  #read = 0;
  /** By block, what is in it. */
  readonly #contentOf = new Map<number, number>();
  /** By request that runs, the contents of its prompt and answer, as far as they are known. */
  readonly #paths = new Map<number, number[]>();
  /** Of a cleared cache, blocks whose removal is told already. */
  #cleared = 0;

  constructor(log: EventLog) {
    this.#log = log;
  }

  /** What has happened since the last call, in order. Blocks that one request stored in a row are one event. */
  take(): KvEvent[] {
    const { kind, request, block, key, value } = this.#log.columns();
    const events: KvEvent[] = [];
    /** Whose blocks the last event tells of. */
    let teller = -1;
    const { dropped, count } = this.#log;
    for (; this.#read < dropped + count; this.#read++) {
      const at = this.#read - dropped;
      assert(at >= 0, "events were dropped before they were read");
      switch (kind[at]) {
        case EventKind.hit:
        case EventKind.adopt:
          this.#pathOf(request[at])[value[at]] = key[at];
          continue;
        case EventKind.duplicate:
          this.#pathOf(request[at])[value[at]] = this.#contentOf.get(key[at])!;
          continue;
        case EventKind.publish: {
          const path = this.#pathOf(request[at]);
          path[value[at]] = key[at];
          this.#contentOf.set(block[at], key[at]);
          const parent = value[at] === 0 ? undefined : path[value[at] - 1];
          const last = events.at(-1);
          if (last?.type === "stored" && teller === request[at] && last.contents.at(-1) === parent) {
            last.contents.push(key[at]);
            last.blocks.push(block[at]);
          } else {
            const stored = { type: "stored" as const, contents: [key[at]], blocks: [block[at]] };
            events.push(parent === undefined ? stored : { ...stored, parent });
          }
          teller = request[at];
          continue;
        }
        case EventKind.evict:
        case EventKind.drop:
          this.#contentOf.delete(block[at]);
          if (this.#cleared > 0) this.#cleared--;
          else this.#tellRemoved(events, block[at], key[at]);
          continue;
        case EventKind.clear:
          this.#cleared = key[at];
          events.push({ type: "cleared", blocks: key[at] });
          continue;
        case EventKind.finish:
        case EventKind.preempt:
        case EventKind.refuse:
          this.#paths.delete(request[at]);
      }
    }
    return events;
  }

  #pathOf(request: number): number[] {
    let path = this.#paths.get(request);
    if (path === undefined) this.#paths.set(request, (path = []));
    return path;
  }

  #tellRemoved(events: KvEvent[], block: number, content: number): void {
    const last = events.at(-1);
    if (last?.type !== "removed") {
      events.push({ type: "removed", contents: [content], blocks: [block] });
      return;
    }
    last.contents.push(content);
    last.blocks.push(block);
  }
}
