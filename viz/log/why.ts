import { counted, grouped } from "../../core/counted.ts";
import { LoggedState } from "../../core/log/block-lives.ts";
import { EventKind, ignore, type LogEvent } from "../../core/log/events.ts";
import type { MissReason } from "../../core/log/miss-reasons.ts";
import { removalCauseAt } from "../../core/log/removal-causes.ts";
import { ageAt, cachedBy } from "./block-map.ts";
import type { BlockStates } from "./block-states.ts";
import type { EventHistory } from "./event-history.ts";
import { lookedUpBlocks } from "./event-texts.ts";
import { type Policy, rankOf, times } from "./victim.ts";

const { evict, allocate, copy, drop, clear } = EventKind;

/** Why the event after those of `states` happens, as far as the log shows; undefined: the log does not show it. */
export function whyOf(history: EventHistory, states: BlockStates, policy: Policy): string | undefined {
  return new EventExplanation(history, states).of(policy);
}

class EventExplanation {
  readonly #history: EventHistory;
  readonly #states: BlockStates;
  readonly #event: LogEvent;
  readonly #age: (event: number) => number;

  constructor(history: EventHistory, states: BlockStates) {
    this.#history = history;
    this.#states = states;
    this.#event = history.log.eventAt(states.events);
    this.#age = ageAt(history, states);
  }

  of(policy: Policy): string | undefined {
    const event = this.#event;
    const { hits, usedAt } = this.#states;
    switch (event.name) {
      case "admit":
        return `${grouped(event.hitBlocks)} of ${counted(lookedUpBlocks(this.#history, event.at), "block")} are cached; ${this.#occupancy()}`;
      case "hit":
        return `${this.#cached(event.block)}, hit ${times(hits[event.block])} since`;
      case "miss":
        return this.#whyMissed(event.content, event.missReason);
      case "evict": {
        const rank = rankOf(this.#history, this.#states, event.block, policy, (at) => this.#ageOf(at));
        return `${this.#whySpaceIsNeeded(event.request)}; physical block ${event.block} ${rank}`;
      }
      case "allocate": {
        const last = usedAt[event.block];
        return last < 0 ? "never used before" : `free, last used ${this.#ageOf(last)} ago`;
      }
      case "copy":
        return `request ${event.request} writes to the block, and physical block ${event.sourceBlock} must not change`;
      case "duplicate":
        return `physical block ${event.keptBlock} was ${this.#cached(event.keptBlock)}`;
      case "release":
        return event.keptCached
          ? `its reference count is 0; ${this.#cached(event.block)}, hit ${times(hits[event.block])} since`
          : "it is not in the index";
      case "refuse":
        return this.#occupancy();
      case "preempt":
        return `${this.#occupancy()}; ${this.#admissionOrder(event.request)}`;
      case "drop":
        return this.#whyDropped(event);
      default:
        ignore<
          | "adopt"
          | "step"
          | "publish"
          | "finish"
          | "clear"
          | "pin"
          | "unpin"
          | "swapOut"
          | "swapIn"
          | "send"
          | "receive"
          | "trim"
          | "signal"
        >(event);
        return undefined;
    }
  }

  #ageOf(event: number): string {
    const age = this.#age(event);
    return this.#history.hasClock ? duration(age) : counted(age, "event");
  }

  #cached(block: number): string {
    const event = this.#history.publications.event[this.#states.publication[block]];
    return `cached ${this.#ageOf(event)} ago by request ${cachedBy(this.#history, this.#states, block)}`;
  }

  #occupancy(): string {
    const { counts } = this.#states;
    const inUse = counts[LoggedState.private] + counts[LoggedState.referenced];
    return `${counted(counts[LoggedState.free], "block")} free, ${grouped(counts[LoggedState.idle])} idle, ${grouped(inUse)} in use`;
  }

  #admissionOrder(request: number): string {
    const running = [...this.#states.running];
    const later = running.length - 1 - running.indexOf(request);
    const all = counted(running.length, "running request");
    return later === 0 ? `the last admitted of ${all}` : `${grouped(later)} of ${all} were admitted after it`;
  }

  #whyMissed(content: number, reason: MissReason): string {
    switch (reason) {
      case "never-seen":
        return "no request has had this content before";
      case "evicted":
        return this.#whenEvicted(content);
      case "past-hole":
        return "it is cached, but a block before it is not";
      case "shorter-than-block":
        return "only whole blocks are matched";
      case "other-namespace":
        return "it is cached in another namespace only";
      case "not-yet-computed":
        return "another request is still computing it";
      case "match-limit":
        return "it is cached, but the rules limit the match";
    }
  }

  #whenEvicted(content: number): string {
    const { log } = this.#history;
    const { kind } = log.columns();
    for (let at = this.#event.at - 1; at >= 0; at--) {
      if (kind[at] !== evict && kind[at] !== drop) continue;
      const removed = log.eventAt(at) as LogEvent & { name: "evict" | "drop" };
      if (removed.content !== content) continue;
      const when = `${this.#ageOf(at)} ago`;
      const where = `(event ${grouped(at)})`;
      if (removalCauseAt(log, at) === "expiry") return `its entry expired ${when} ${where}`;
      const requester = removed.request < 0 ? "an operator" : `request ${removed.request}`;
      return `it was ${removed.name === "evict" ? "evicted" : "dropped"} ${when} for ${requester} ${where}`;
    }
    return "it was computed before and is no longer cached";
  }

  #whyDropped({ at, timeNs, block }: LogEvent): string {
    const { life, owner, usedAt } = this.#states;
    const { log, hasClock } = this.#history;
    if (removalCauseAt(log, at) === "expiry") {
      const idleNs = timeNs - log.columns().timeNs[usedAt[block]];
      const idle = hasClock ? duration(idleNs) : counted(at - usedAt[block], "event");
      return `its entry has expired: no request has used it for ${idle}`;
    }
    return life[block] === LoggedState.referenced
      ? `request ${owner[block]} references the block, which becomes private`
      : "no request references the block";
  }

  /** Why a block has to be evicted at all. */
  #whySpaceIsNeeded(request: number): string {
    const { kind, request: requests } = this.#history.log.columns();
    let first = this.#event.at;
    while (first > 0 && (kind[first - 1] === evict || kind[first - 1] === drop)) first--;
    if (first > 0 && kind[first - 1] === clear) return "an operator resets the cache";
    if (request < 0) return "an operator evicts blocks";
    let at = this.#event.at;
    while (kind[at] === evict && requests[at] === request) at++;
    const from = at;
    while ((kind[at] === allocate || kind[at] === copy) && requests[at] === request) at++;
    if (at === from) return "more blocks are cached than the rules allow";
    const free = this.#states.counts[LoggedState.free];
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
