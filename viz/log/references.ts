import { grown } from "../../core/grown.ts";
import { BlockTables } from "../../core/log/block-tables.ts";
import { type EventOf, ignore, type LogEvent } from "../../core/log/events.ts";
import type { BlockStates, OwnerChanges } from "./block-states.ts";
import type { Publications } from "./publications.ts";

/**
 * Block tables and reference counts at the end of a log. They are not stored for earlier events. Two things that depend on them
 * are recorded for every event instead: the publication that precedes each publication in its prompt, and changes of block
 * owners.
 */
export class References {
  readonly #publications: Publications;
  readonly #changes: OwnerChanges;
  readonly #tables = new BlockTables();
  /** By block, the number of block tables that contain it. */
  #count = new Int32Array(1024);
  /** Time and request of the last publication. */
  #lastNs = -1;
  #lastRequest = -1;

  constructor(publications: Publications, changes: OwnerChanges) {
    this.#publications = publications;
    this.#changes = changes;
  }

  /** Applies the next event; `states` are those before it. */
  apply(event: LogEvent, states: BlockStates): void {
    switch (event.name) {
      case "hit":
      case "adopt":
      case "allocate":
      case "pin":
        this.#reference(event.block);
        break;
      case "copy": {
        const { request, sourceBlock, place } = event;
        if (this.#tables.of(request)?.[place] === sourceBlock) this.#dereference(event, sourceBlock, place, states);
        this.#reference(event.block);
        break;
      }
      case "duplicate":
        this.#grow(event.block);
        this.#count[event.block] = 0;
        this.#reference(event.keptBlock);
        break;
      case "publish":
        this.#addPublication(event, states);
        break;
      case "release":
        this.#grow(event.block);
        this.#count[event.block] = 0;
        break;
      case "finish":
      case "refuse":
      case "preempt":
      case "unpin":
        this.#tables.of(event.request)?.forEach((block, place) => {
          this.#dereference(event, block, place, states);
        });
        break;
      default:
        ignore<
          | "admit"
          | "miss"
          | "step"
          | "evict"
          | "drop"
          | "clear"
          | "swapOut"
          | "swapIn"
          | "send"
          | "receive"
          | "trim"
          | "signal"
        >(event);
    }
    this.#tables.apply(event);
  }

  #addPublication({ at, timeNs, request, content, place }: EventOf<"publish">, states: BlockStates): void {
    const before = this.#tables.of(request)?.[place - 1];
    const parent = before !== undefined && states.isCached(before) ? states.publication[before] : -1;
    this.#publications.add(at, parent, content, this.#lastNs === timeNs && this.#lastRequest === request);
    this.#lastNs = timeNs;
    this.#lastRequest = request;
  }

  #grow(block: number): void {
    if (block >= this.#count.length) this.#count = grown(this.#count, Math.max(block + 1, 2 * this.#count.length));
  }

  #reference(block: number): void {
    this.#grow(block);
    this.#count[block]++;
  }

  /** Other requests that reference the block have it at the same place. */
  #dereference({ at, request }: LogEvent, block: number, place: number, states: BlockStates): void {
    if (--this.#count[block] <= 0 || states.owner[block] !== request) return;
    const next = this.#tables
      .requests()
      .findLast((other) => other !== request && this.#tables.of(other)![place] === block);
    if (next !== undefined) this.#changes.add(at, block, next);
  }
}
