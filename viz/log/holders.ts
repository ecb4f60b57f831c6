import { grown } from "../../core/grown.ts";
import { EventKind } from "../../core/log/events.ts";
import type { BlockStates, Handovers } from "./block-states.ts";
import type { Publications } from "./publications.ts";

const { admit, hit, adopt, allocate, copy, publish, duplicate, release } = EventKind;
const { finish, refuse, preempt, pin, unpin } = EventKind;

/** What a request, or a pin, holds: blocks by their place. */
type Table = Map<number, number>;

/**
 * Block tables at the end of a log. They are read once and not kept: what later is asked of them (which publication
 * comes before which, and who has a block when one of its holders ends) is written down where it happens.
 */
export class Holders {
  readonly #publications: Publications;
  readonly #handovers: Handovers;
  readonly #tables = new Map<number, Table>();
  #count = new Int32Array(1024);
  /** When and for whom a block was cached last. */
  #lastNs = -1;
  #lastRequest = -1;

  constructor(publications: Publications, handovers: Handovers) {
    this.#publications = publications;
    this.#handovers = handovers;
  }

  /** The next event; `states` are those before it. */
  apply(
    at: number,
    kind: number,
    timeNs: number,
    request: number,
    block: number,
    key: number,
    value: number,
    states: BlockStates,
  ): void {
    switch (kind) {
      case admit:
        this.#tables.set(request, new Map());
        return;
      case hit:
      case adopt:
      case allocate:
      case pin:
        this.#hold(request, block, value);
        return;
      case copy:
        if (this.#tableOf(request).get(value) === key) this.#letGo(at, request, key, value, states);
        this.#hold(request, block, value);
        return;
      case duplicate:
        this.#countOf(block);
        this.#count[block] = 0;
        this.#hold(request, key, value);
        return;
      case publish: {
        const before = this.#tableOf(request).get(value - 1);
        const parent = before !== undefined && states.isCached(before) ? states.publication[before] : -1;
        this.#publications.add(at, parent, key, this.#lastNs === timeNs && this.#lastRequest === request);
        this.#lastNs = timeNs;
        this.#lastRequest = request;
        return;
      }
      case release:
        this.#countOf(block);
        this.#count[block] = 0;
        return;
      case finish:
      case refuse:
      case preempt:
      case unpin: {
        const table = this.#tables.get(request);
        this.#tables.delete(request);
        for (const [place, held] of table ?? []) this.#letGo(at, request, held, place, states);
      }
    }
  }

  #tableOf(request: number): Table {
    let table = this.#tables.get(request);
    if (table === undefined) this.#tables.set(request, (table = new Map()));
    return table;
  }

  #countOf(block: number): number {
    if (block >= this.#count.length) this.#count = grown(this.#count, Math.max(block + 1, 2 * this.#count.length));
    return this.#count[block];
  }

  #hold(request: number, block: number, place: number): void {
    this.#tableOf(request).set(place, block);
    this.#count[block] = this.#countOf(block) + 1;
  }

  /** Those who still hold the block have it at the same place. */
  #letGo(at: number, request: number, block: number, place: number, states: BlockStates): void {
    if (--this.#count[block] <= 0 || states.owner[block] !== request) return;
    const others = [...this.#tables.keys()].reverse();
    const other = others.find((one) => one !== request && this.#tables.get(one)!.get(place) === block);
    if (other !== undefined) this.#handovers.add(at, block, other);
  }
}
