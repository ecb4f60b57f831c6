import { counted, grouped } from "../../core/counted.ts";
import { EventKind } from "../../core/log/events.ts";
import { missReasons } from "../../core/log/miss-reasons.ts";
import { ageAt, cachedBy } from "./block-map.ts";
import { BlockLife, type BlockStates } from "./block-states.ts";
import type { EventColumns, EventHistory } from "./event-history.ts";
import { lookedUp } from "./event-texts.ts";
import { type Policy, rankOf, times } from "./victim.ts";

const { admit, hit, miss, evict, allocate, copy, duplicate, release, refuse, preempt, drop, clear } = EventKind;

/** Why the event after those of `states` comes, and it and no other, as far as the books know; undefined: they say nothing of it. */
export function whyOf(history: EventHistory, states: BlockStates, policy: Policy): string | undefined {
  return new Why(history, states).of(policy);
}

class Why {
  readonly #history: EventHistory;
  readonly #states: BlockStates;
  readonly #columns: EventColumns;
  readonly #at: number;
  readonly #age: (event: number) => number;

  constructor(history: EventHistory, states: BlockStates) {
    this.#history = history;
    this.#states = states;
    this.#columns = history.log.columns();
    this.#at = states.events;
    this.#age = ageAt(history, states);
  }

  of(policy: Policy): string | undefined {
    const at = this.#at;
    const { hits, usedAt, life, owner } = this.#states;
    const [kind, request, block, key, value] = (["kind", "request", "block", "key", "value"] as const).map(
      (name) => this.#columns[name][at],
    );
    switch (kind) {
      case admit:
        return `${grouped(value)} of ${counted(lookedUp(this.#history, at), "block")} are cached; ${this.#room()}`;
      case hit:
        return `${this.#cached(block)}, and found ${times(hits[block])} since`;
      case miss:
        return this.#whyMissed(key, value);
      case evict: {
        const rank = rankOf(this.#history, this.#states, block, policy, (event) => this.#ageOf(event));
        return `${this.#whyRoom(request)}; cache block ${block} ${rank}`;
      }
      case allocate:
        return usedAt[block] < 0 ? "never used before" : `free, and last used ${this.#ageOf(usedAt[block])} ago`;
      case copy:
        return `request ${request} is going to write into it, and what is in cache block ${key} is needed as it is`;
      case duplicate:
        return `cache block ${key} was ${this.#cached(key)}`;
      case release:
        return value === 1
          ? `its last user lets it go; ${this.#cached(block)}, and found ${times(hits[block])} since`
          : "it is not cached: nobody could find it";
      case refuse:
        return this.#room();
      case preempt:
        return `${this.#room()}; ${this.#placeAmongRunning(request)}`;
      case drop:
        return life[block] === BlockLife.held
          ? `request ${owner[block]} uses it, and has it for itself from now on`
          : "nobody uses it";
    }
    return undefined;
  }

  #ageOf(event: number): string {
    const age = this.#age(event);
    return this.#history.hasClock ? duration(age) : counted(age, "event");
  }

  #cached(block: number): string {
    const event = this.#history.publications.event[this.#states.publication[block]];
    return `cached ${this.#ageOf(event)} ago by request ${cachedBy(this.#history, this.#states, block)}`;
  }

  #room(): string {
    const { counts } = this.#states;
    const inUse = counts[BlockLife.private] + counts[BlockLife.held];
    return `${counted(counts[BlockLife.free], "block")} free, ${grouped(counts[BlockLife.idle])} idle, ${grouped(inUse)} in use`;
  }

  #placeAmongRunning(request: number): string {
    const running = [...this.#states.running];
    const later = running.length - 1 - running.indexOf(request);
    const all = counted(running.length, "running request");
    return later === 0 ? `the last admitted of ${all}` : `${grouped(later)} of ${all} were admitted after it`;
  }

  #whyMissed(content: number, reason: number): string | undefined {
    switch (missReasons[reason]) {
      case "never-seen":
        return "no request has had it before";
      case "evicted":
        return this.#whenGone(content);
      case "past-hole":
        return "it is cached, but a block before it is not";
      case "shorter-than-block":
        return "only whole blocks are found";
      case "other-namespace":
        return "it is cached in another namespace only";
      case "not-yet-computed":
        return "another request is still computing it";
      case "match-limit":
        return "it is cached, but the rules let no more be used";
    }
    return undefined;
  }

  #whenGone(content: number): string {
    const { kind, request, key } = this.#columns;
    for (let at = this.#at - 1; at >= 0; at--)
      if ((kind[at] === evict || kind[at] === drop) && key[at] === content)
        return `it had to go ${this.#ageOf(at)} ago for ${request[at] < 0 ? "an operator" : `request ${request[at]}`} (event ${grouped(at)})`;
    return "it was computed before, and is not cached any more";
  }

  /** Why something has to go at all. */
  #whyRoom(request: number): string {
    const { kind, request: whose } = this.#columns;
    let before = this.#at;
    while (before > 0 && (kind[before - 1] === evict || kind[before - 1] === drop)) before--;
    if (before > 0 && kind[before - 1] === clear) return "an operator empties the cache";
    if (request < 0) return "an operator wants blocks to be free";
    let at = this.#at;
    while (kind[at] === evict && whose[at] === request) at++;
    const from = at;
    while ((kind[at] === allocate || kind[at] === copy) && whose[at] === request) at++;
    if (at === from) return "more is cached than the rules allow";
    const free = this.#states.counts[BlockLife.free];
    const are = free === 0 ? "none is" : free === 1 ? "1 is" : `${grouped(free)} are`;
    return `request ${request} needs ${counted(at - from, "block")}, ${are} free`;
  }
}

function duration(ns: number): string {
  const seconds = ns / 1e9;
  if (seconds >= 120) return `${(seconds / 60).toFixed(1)} min`;
  if (seconds >= 1) return `${seconds.toFixed(1)} s`;
  return ns >= 1e6 ? `${(ns / 1e6).toPrecision(3)} ms` : `${Math.round(ns / 1e3)} µs`;
}
