import { counted, grouped } from "../../core/counted.ts";
import { missReasons } from "../../core/counters.ts";
import { EventKind } from "../../core/events.ts";
import { ageAt, cachedBy } from "./block-map.ts";
import { type BlockStates, Life } from "./block-states.ts";
import type { EventHistory } from "./event-history.ts";
import { lookedUp } from "./event-texts.ts";

/** What the books do not say of a cache. */
export interface Policy {
  readonly eviction: string;
  /** Only what nothing cached extends may go. */
  readonly leavesOnly: boolean;
}

const { admit, hit, miss, evict, allocate, copy, duplicate, release, refuse, preempt, drop, clear, publish } =
  EventKind;

/** Why the event after those of `states` comes, and why it and no other, as far as the books know. */
export function whyOf(history: EventHistory, states: BlockStates, policy: Policy): string | undefined {
  return new Why(history, states).of(policy);
}

class Why {
  readonly #history: EventHistory;
  readonly #states: BlockStates;
  readonly #at: number;
  readonly #age: (event: number) => number;

  constructor(history: EventHistory, states: BlockStates) {
    this.#history = history;
    this.#states = states;
    this.#at = states.events;
    this.#age = ageAt(history, states);
  }

  of(policy: Policy): string | undefined {
    const { kind, request, block, key, value } = this.#history.log.columns();
    const at = this.#at;
    const one = block[at];
    switch (kind[at]) {
      case admit:
        return `${counted(value[at], "block")} of ${grouped(lookedUp(this.#history, at))} are cached; ${this.#room()}`;
      case hit:
        return `cached ${this.#agoOf(this.#published(one))} ago by request ${this.#cachedBy(one)}, found ${times(this.#states.hits[one])} since`;
      case miss:
        return this.#whyMissed(key[at], value[at]);
      case evict:
        return `${this.#whyRoom(request[at])}. ${this.#whyVictim(one, policy)}`;
      case allocate:
        return this.#states.usedAt[one] < 0
          ? "it was never used before"
          : `it is free, and was last used ${this.#agoOf(this.#states.usedAt[one])} ago`;
      case copy:
        return `others have what is in cache block ${key[at]}, too, and request ${request[at]} is going to write there`;
      case duplicate:
        return `request ${this.#cachedBy(key[at])} has cached that content ${this.#agoOf(this.#published(key[at]))} ago`;
      case publish:
        return "it is computed, or is by the step under way: from now on others can find it";
      case release:
        return value[at] === 1
          ? `nobody uses it any more; found ${times(this.#states.hits[one])} since it was cached ${this.#agoOf(this.#published(one))} ago`
          : "nobody could find it";
      case refuse:
        return this.#room();
      case preempt:
        return `${this.#room()}; ${this.#placeAmongRunning(request[at])}`;
      case drop:
        return this.#states.life[one] === Life.held
          ? `request ${this.#states.owner[one]} uses it, and has it for itself from now on`
          : "nobody uses it";
    }
    return undefined;
  }

  #published(block: number): number {
    return this.#history.publications.event[this.#states.publication[block]];
  }

  #cachedBy(block: number): number {
    return cachedBy(this.#history, this.#states, block);
  }

  #agoOf(event: number): string {
    const age = this.#age(event);
    return this.#history.hasClock ? duration(age) : counted(age, "event");
  }

  #room(): string {
    const { counts } = this.#states;
    const [free, , held, idle] = counts;
    return `${counted(free, "block")} free, ${grouped(idle)} idle, ${grouped(counts[Life.private] + held)} in use`;
  }

  #placeAmongRunning(request: number): string {
    const running = [...this.#states.running];
    const place = running.length - 1 - running.indexOf(request);
    return place === 0
      ? `it was admitted last of ${grouped(running.length)} that run`
      : `${grouped(place)} of ${grouped(running.length)} that run were admitted after it`;
  }

  #whyMissed(content: number, reason: number): string | undefined {
    switch (missReasons[reason]) {
      case "never-seen":
        return "no request has had it before";
      case "evicted": {
        const { kind, request, key } = this.#history.log.columns();
        for (let at = this.#at - 1; at >= 0; at--)
          if ((kind[at] === evict || kind[at] === drop) && key[at] === content)
            return `${request[at] < 0 ? "an operator" : `request ${request[at]}`} made it go ${this.#agoOf(at)} ago (event ${grouped(at)})`;
        return "it was cached before, and has gone";
      }
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

  /** Why something has to go at all. */
  #whyRoom(request: number): string {
    const { kind, request: requests } = this.#history.log.columns();
    let at = this.#at;
    while (kind[at] === evict && requests[at] === request) at++;
    let needed = 0;
    while (at < kind.length && requests[at] === request && (kind[at] === allocate || kind[at] === copy)) {
      at++;
      needed++;
    }
    let before = this.#at;
    while (before > 0 && (kind[before - 1] === evict || kind[before - 1] === drop)) before--;
    if (before > 0 && kind[before - 1] === clear) return "an operator empties the cache";
    if (request < 0) return "an operator wants blocks to be free";
    if (needed === 0) return "more is cached than the rules allow";
    const free = this.#states.counts[Life.free];
    return `request ${request} needs ${counted(needed, "block")}, ${free === 0 ? "none is" : `${grouped(free)} ${free === 1 ? "is" : "are"}`} free`;
  }

  /** How the block ranks among those that could go instead. */
  #whyVictim(victim: number, { eviction, leavesOnly }: Policy): string {
    const { usedAt, publication, hits } = this.#states;
    const { value } = this.#history.log.columns();
    const { event } = this.#history.publications;
    const others = this.#candidates(leavesOnly);
    const before = (column: (block: number) => number) => {
      const own = column(victim);
      return others.reduce((count, block) => count + (column(block) < own ? 1 : 0), 0);
    };
    const among = `of ${grouped(others.length)} that could go`;
    const idle = `idle for ${this.#agoOf(usedAt[victim])}, ${rank(
      before((block) => usedAt[block]),
      "longest",
    )}`;
    const cached = `cached ${this.#agoOf(event[publication[victim]])} ago, ${rank(
      before((block) => publication[block]),
      "longest ago",
    )}`;
    const found = `found ${times(hits[victim])}, ${rank(
      before((block) => hits[block]),
      "least often",
    )}`;
    const depth = `at block ${grouped(value[event[publication[victim]]])}, ${rank(
      before((block) => -value[event[publication[block]]]),
      "deepest",
    )}`;
    const first = eviction.startsWith("fifo") ? cached : eviction === "lfu" ? found : idle;
    const all = [first, ...[idle, cached, found, depth].filter((each) => each !== first)];
    return `Cache block ${victim} is ${all[0]} ${among}; ${all.slice(1).join("; ")}`;
  }

  /** Blocks that may go: nobody uses them and, in a tree, nothing extends them. */
  #candidates(leavesOnly: boolean): number[] {
    const { blocks, life, publication } = this.#states;
    const { event, parent } = this.#history.publications;
    const { block: blockOf } = this.#history.log.columns();
    const extended = new Uint8Array(blocks);
    if (leavesOnly)
      for (let block = 0; block < blocks; block++) {
        const before = life[block] >= Life.held ? parent[publication[block]] : -1;
        if (before >= 0 && publication[blockOf[event[before]]] === before) extended[blockOf[event[before]]] = 1;
      }
    const found: number[] = [];
    for (let block = 0; block < blocks; block++)
      if (life[block] === Life.idle && extended[block] === 0) found.push(block);
    return found;
  }
}

const times = (count: number) => (count === 0 ? "never" : count === 1 ? "once" : `${grouped(count)} times`);

/** "the longest", "the 2nd longest" */
function rank(before: number, word: string): string {
  if (before === 0) return `the ${word}`;
  const place = before + 1;
  const ending = Math.floor(place / 10) % 10 === 1 ? "th" : (["th", "st", "nd", "rd"][place % 10] ?? "th");
  return `the ${grouped(place)}${ending} ${word}`;
}

function duration(ns: number): string {
  const seconds = ns / 1e9;
  if (seconds >= 120) return `${(seconds / 60).toFixed(1)} min`;
  if (seconds >= 1) return `${seconds.toFixed(1)} s`;
  return ns >= 1e6 ? `${(ns / 1e6).toPrecision(3)} ms` : `${(ns / 1e3).toPrecision(3)} µs`;
}
