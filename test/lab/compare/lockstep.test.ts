import { describe, expect, test, vi } from "vitest";
import { BlockState } from "../../../core/cache/pool.ts";
import { CacheState } from "../../../core/log/cache-state.ts";
import { EventLog } from "../../../core/log/event-log.ts";
import { EventKind, eventNames } from "../../../core/log/events.ts";
import { byScore } from "../../../core/plugins/by-score.ts";
import type { AllocatorPlugin, EvictionPlugin } from "../../../core/plugins/index.ts";
import { CacheReplay, type ReplayConfig } from "../../../core/replica/replay.ts";
import { type Trace, TraceBuilder } from "../../../core/trace/trace.ts";
import { Lockstep } from "../../../lab/compare/lockstep.ts";
import { LogComparison } from "../../../lab/compare/log-comparison.ts";
import { evictionRegistry } from "../../../policies/registry.ts";
import { blockTokens, letterTrace } from "../../support/letters.ts";
import { configOf, replayed } from "../../support/replays.ts";

/** Every configuration compared with the first over a whole trace. */
function compared(trace: Trace, ...configs: ReplayConfig[]) {
  const lockstep = new Lockstep(
    trace,
    configs,
    configs.map((config) => CacheReplay.blockKeys(config, trace)),
  );
  while (!lockstep.done) lockstep.serve();
  return lockstep.compared;
}

/** Long chats: request r has the first blocks of an earlier request and some of its own. */
function chats(requests = 300): Trace {
  const builder = new TraceBuilder(blockTokens);
  const prompts: number[][] = [];
  let next = 0;
  for (let r = 0; r < requests; r++) {
    const before = r % 3 === 0 ? [] : prompts[Math.floor((r * (r % 10)) / 10)];
    const keys = [...before.slice(0, 1 + (r % 9)), ...Array.from({ length: 1 + (r % 4) }, () => next++)];
    prompts.push(keys);
    builder.add({ arrivalNs: r, inputTokens: keys.length * blockTokens - (r % 5), outputTokens: 1 + (r % 3), keys });
  }
  return builder.take();
}

/** LRU, as an insertion-ordered set; `misnames` selects evictions at which it returns the second entry. */
const setLru = (misnames: (eviction: number) => boolean): EvictionPlugin => ({
  name: "set-lru",
  about: "",
  source: "test",
  create() {
    const order = new Set<number>();
    let evictions = 0;
    return {
      add: (entry) => void order.add(entry),
      remove(entry, why) {
        order.delete(entry);
        if (why === "evicted") evictions++;
      },
      victim() {
        const [first, second] = order;
        return misnames(evictions) && second !== undefined ? second : first;
      },
    };
  },
});
const never = () => false;

/** Evicts by content id, which leaves holes in prompts, independent of block numbers. */
const leastContent: EvictionPlugin = {
  name: "least-content",
  about: "",
  source: "test",
  ...byScore((entry, { key }) => Math.imul(key[entry], 0x9e3779b1) >>> 0),
};

/** Allocates the last block first. */
const backwards: AllocatorPlugin = {
  name: "backwards",
  about: "",
  source: "test",
  create(blockCount) {
    const free = Array.from({ length: blockCount }, (_, block) => block);
    return {
      get freeBlocks() {
        return free.length;
      },
      allocate(table, from, to) {
        for (let i = from; i < to; i++) table[i] = free.pop()!;
      },
      release: (blocks, from, to) => void free.push(...blocks.subarray(from, to)),
      grow() {},
      reset() {},
      free: () => free,
    };
  },
};

/** The evictions in the log of a whole replay. */
function evictions(trace: Trace, config: ReplayConfig) {
  const { log } = replayed(trace, { ...config, index: config.index.name, events: true });
  const { kind, request, key } = log!.columns();
  return [...kind.keys()]
    .filter((at) => kind[at] === EventKind.evict)
    .map((at) => ({ request: request[at], key: key[at], last: at === log!.count - 1 }));
}

describe("configurations with the same decisions", () => {
  const trace = chats();
  const lru = configOf(trace, { blocks: 40 });

  test("are identical in every event, and the compared events are counted", () => {
    const whole = replayed(trace, { blocks: 40, events: true });
    const [{ comparison, difference }] = compared(trace, lru, { ...lru, eviction: setLru(never) });
    expect(difference).toBeUndefined();
    expect(comparison.noted.size).toBe(0);
    expect(comparison).toMatchObject({
      requests: 300,
      events: whole.log!.count,
      hitBlocks: whole.report.hitBlocks,
      evictedBlocks: whole.report.evictedBlocks,
      refusedRequests: 0,
    });
  });

  test("that allocate other physical blocks are identical, and the first request with other block numbers is reported", () => {
    const [{ comparison, difference }, { comparison: same }] = compared(
      trace,
      lru,
      { ...lru, allocator: backwards },
      lru,
    );
    expect(difference).toBeUndefined();
    expect(comparison).toMatchObject({ requests: 300, events: same.events });
    expect([...comparison.noted.keys()]).toEqual(["block-numbers"]);
    expect(comparison.noted.get("block-numbers")).toEqual({ first: 0, requests: 299 });
    expect(same.noted.size).toBe(0);
  });

  test("that release blocks in another order are identical until the order changes an eviction", () => {
    const forward = { ...lru, rules: { "free-order": "forward" } };
    const unlimited = compared(trace, { ...lru, blocks: undefined }, { ...forward, blocks: undefined });
    expect(unlimited[0].difference).toBeUndefined();
    expect([...unlimited[0].comparison.noted]).toEqual([["release-order", { first: 1, requests: expect.any(Number) }]]);
    const [{ comparison, difference }] = compared(trace, lru, forward);
    expect(comparison.noted.get("release-order")?.first).toBe(1);
    expect(difference!.request).toBe(evictions(trace, lru)[0].request);
    expect(difference!.sides.map(({ logged }) => logged?.event.name)).toEqual(["evict", "evict"]);
  });

  test("are compared without storing compared events", () => {
    const forgets = vi.spyOn(EventLog.prototype, "keepLast");
    compared(trace, lru, { ...lru, allocator: backwards });
    const logs = new Set(forgets.mock.contexts as EventLog[]);
    forgets.mockRestore();
    expect([...logs].map(({ count }) => count)).toEqual([6, 6]);
  });

  test("that store blocks past a hole twice for a while differ only in block numbers", () => {
    const holes = { ...lru, eviction: leastContent, rules: { duplicates: "swap" } };
    const [{ comparison, difference }] = compared(trace, holes, { ...holes, allocator: backwards });
    expect(difference).toBeUndefined();
    expect([...comparison.noted]).toEqual([["block-numbers", { first: 0, requests: 300 }]]);
  });

  test("also refuse the same requests, and pass every audit", () => {
    const small = { ...lru, blocks: 8, audit: true };
    const refused = replayed(trace, { blocks: 8 }).report.refusedRequests;
    expect(refused).toBeGreaterThan(0);
    const [{ comparison, difference }] = compared(trace, small, { ...small, eviction: setLru(never) });
    expect(difference).toBeUndefined();
    expect(comparison).toMatchObject({ requests: 300, refusedRequests: refused });
  });
});

describe("the first difference is found", () => {
  const trace = chats();
  const lru = configOf(trace, { blocks: 40 });
  const all = evictions(trace, lru);

  test.each([1, 2, 50, 51, all.length])("at eviction %i", (nth) => {
    const planted = { ...lru, eviction: setLru((eviction) => eviction === nth - 1) };
    const [{ comparison, difference }] = compared(trace, lru, planted);
    const { request, key } = all[nth - 1];
    expect(difference).toMatchObject({
      request,
      sides: [{ logged: { event: { name: "evict", content: key } } }, { logged: { event: { name: "evict" } } }],
    });
    expect(difference!.sides[1].logged!.event).not.toMatchObject({ content: key });
    expect(comparison).toMatchObject({ requests: request, evictedBlocks: nth - 1 });
    expect(comparison.noted.size).toBe(0);
    const [mine, other] = difference!.sides;
    expect(mine.before).toEqual(other.before);
    expect(mine.onlyHere.length).toBe(other.onlyHere.length);
  });

  test("for the third configuration independently of the second, and for both in one request", () => {
    const at = (nth: number) => ({ ...lru, eviction: setLru((eviction) => eviction === nth - 1) });
    const [second, third] = compared(trace, lru, { ...lru, allocator: backwards }, at(50));
    expect(second).toMatchObject({ difference: undefined, comparison: { requests: 300 } });
    expect(third.difference?.request).toBe(all[49].request);
    // Two evictions of one request.
    const nth = all.findIndex(({ request }, i) => i > 50 && request === all[i + 1].request) + 1;
    const [alone] = compared(trace, lru, at(nth));
    const both = compared(trace, lru, at(nth + 1), at(nth), lru);
    expect(both[1].difference).toEqual(alone.difference);
    expect(both[0].difference).toEqual(compared(trace, lru, at(nth + 1))[0].difference);
    expect(both[2].difference).toBeUndefined();
  });

  test("in the very first event: one refuses what the other admits", () => {
    const own = { ...configOf(letterTrace(["AB", "AB"], { outputTokens: 40 }), { blocks: 3 }) };
    const strict = { ...own, rules: { reserve: "worst-case" } };
    const [{ comparison, difference }] = compared(letterTrace(["AB", "AB"], { outputTokens: 40 }), own, strict);
    expect(comparison).toMatchObject({ requests: 0, events: 0 });
    expect(difference).toMatchObject({
      request: 0,
      context: [],
      sides: [
        { logged: { event: { name: "admit", hitTokens: 0, hitBlocks: 0 } }, refused: false, onlyHere: [0, 1] },
        { logged: { event: { name: "refuse" } }, refused: true, onlyHere: [], after: { cachedIdle: 0 } },
      ],
    });
  });

  test("with both states, worked out by hand", () => {
    // Two blocks. For C, LRU evicts B, the least recently used; FIFO evicts A, the first added.
    const trace = letterTrace(["A", "B", "A", "C", "A"]);
    const lru = configOf(trace, { blocks: 2 });
    const [{ comparison, difference }] = compared(trace, lru, { ...lru, eviction: evictionRegistry.get("fifo") });
    const before = { private: 0, cachedHeld: 0, cachedIdle: 2 };
    const evicted = (block: number) =>
      expect.objectContaining({ name: "evict", request: 3, block, content: block, endToken: 16 });
    expect(comparison).toMatchObject({ requests: 3, hitBlocks: 1, evictedBlocks: 0 });
    expect(difference).toEqual({
      request: 3,
      context: expect.any(Array),
      sides: [
        {
          logged: { event: evicted(1), users: { cachedBy: 1, usedBy: 1 } },
          before,
          after: before,
          hitBlocks: 0,
          refused: false,
          onlyHere: [0],
        },
        {
          logged: { event: evicted(0), users: { cachedBy: 0, usedBy: 2 } },
          before,
          after: before,
          hitBlocks: 0,
          refused: false,
          onlyHere: [1],
        },
      ],
    });
    expect(difference!.context.slice(-3).map(({ event }) => `${event.name} ${event.request}`)).toEqual([
      "release 2",
      "admit 3",
      "miss 3",
    ]);
  });
});

describe("two logs of one request", () => {
  type Event = [name: keyof typeof EventKind, block: number, key: number, value: number];
  const served: Event[] = [
    ["admit", -1, 16, 1],
    ["hit", 4, 100, 0],
    ["miss", -1, 101, 0],
    ["evict", 5, 90, 32],
    ["allocate", 5, -1, 1],
    ["publish", 5, 101, 1],
    ["step", -1, 1, 16],
    ["finish", -1, 1, -1],
    ["release", 5, -1, 1],
    ["release", 4, -1, 1],
  ];
  const logOf = (events: readonly Event[]) => {
    const log = new EventLog();
    for (const [name, ...fields] of events) log.add(EventKind[name], 0, 7, ...fields);
    return log;
  };
  const changed = (at: number, ...event: Event) => served.map((old, i) => (i === at ? event : old));
  const compare = (other: readonly Event[]) => {
    const comparison = new LogComparison();
    const parting = comparison.request(7, logOf(served), 0, logOf(other), 0);
    return { parting, asides: [...comparison.noted.keys()], events: comparison.events };
  };
  const at = (first: number, second = first) => ({ parting: { first, second }, asides: [], events: first });
  const aside = (...asides: string[]) => ({ parting: undefined, asides, events: served.length });

  test("are the same if every column is", () => {
    expect(compare(served)).toEqual(aside());
  });

  test.each<[number, ...Event]>([
    [0, "admit", -1, 32, 2],
    [0, "refuse", -1, -1, -1],
    [1, "hit", 4, 99, 0],
    [2, "miss", -1, 102, 0],
    [2, "adopt", 6, 101, 1],
    [3, "evict", 5, 91, 32],
    [3, "drop", 5, 90, 32],
    [5, "publish", 5, 101, 2],
    [6, "step", -1, 1, 15],
    [7, "finish", -1, 2, -1],
    [9, "release", 4, -1, 0],
  ])("diverge at event %i if the other has: %s", (place, ...event) => {
    expect(compare(changed(place, ...event))).toEqual(at(place));
  });

  test("diverge if the same event is of another request", () => {
    const comparison = new LogComparison();
    const other = logOf(served.slice(0, 6));
    other.add(EventKind.step, 0, 8, -1, 1, 16);
    expect(comparison.request(7, logOf(served), 0, other, 0)).toEqual({ first: 6, second: 6 });
  });

  test("have the same decisions in other blocks, also with copies and duplicates", () => {
    const events = (shift: number): Event[] => [
      ["admit", -1, 32, 2],
      ["hit", 4 + shift, 100, 0],
      ["hit", 6 + shift, 101, 1],
      ["copy", 5 + shift, 6 + shift, 1],
      ["allocate", 7 + shift, -1, 2],
      ["duplicate", 7 + shift, 8 + shift, 2],
      ["release", 7 + shift, -1, 0],
      ["finish", -1, 1, -1],
      ["release", 5 + shift, -1, 0],
      ["release", 8 + shift, -1, 1],
      ["release", 4 + shift, -1, 1],
    ];
    const comparison = new LogComparison();
    expect(comparison.request(7, logOf(events(0)), 0, logOf(events(10)), 0)).toBeUndefined();
    const source = events(0).map((event): Event => (event[0] === "copy" ? ["copy", 5, 9, 1] : event));
    expect(comparison.request(8, logOf(events(0)), 0, logOf(source), 0)).toBeUndefined();
    expect([...comparison.noted]).toEqual([["block-numbers", { first: 7, requests: 2 }]]);
  });

  test("differ in the order of release where duplicates are released first", () => {
    const gaveWay: Event[] = [
      ["allocate", 7, -1, 2],
      ["allocate", 9, -1, 3],
      ["duplicate", 7, 8, 2],
      ["duplicate", 9, 6, 3],
    ];
    const one = logOf([...gaveWay, ["release", 6, -1, 1], ["release", 8, -1, 1]]);
    const other = logOf([...gaveWay, ["release", 8, -1, 1], ["release", 6, -1, 1]]);
    const comparison = new LogComparison();
    expect(comparison.request(7, one, 0, other, 0)).toBeUndefined();
    expect([...comparison.noted.keys()]).toEqual(["release-order"]);
  });

  test("diverge at the end of the shorter one", () => {
    expect(compare(served.slice(0, -1))).toEqual(at(9));
    expect(compare([...served, ["release", 3, -1, 0]])).toEqual(at(10));
    expect(compare([])).toEqual(at(0));
  });

  test("differ only in block numbers, miss reasons and the order of release, and diverge after that", () => {
    const otherBlocks = served.map(
      ([name, block, key, value]): Event => [name, block < 0 ? block : block + 1, key, value],
    );
    expect(compare(otherBlocks)).toEqual(aside("block-numbers"));
    expect(compare(changed(2, "miss", -1, 101, 1))).toEqual(aside("miss-reasons"));
    const otherOrder = [...served.slice(0, 8), served[9], served[8]];
    expect(compare(otherOrder)).toEqual(aside("release-order"));
    const late: Event[] = [...otherBlocks.slice(0, 7), ["finish", -1, 2, -1]];
    expect(compare(late)).toEqual({ ...at(7), asides: ["block-numbers"] });
    expect(compare([...otherOrder.slice(0, 9), ["release", 5, -1, 0]])).toEqual(at(8, 9));
  });

  test("are compared from the given events on", () => {
    const first = logOf([["finish", -1, 3, -1], ...served]);
    const second = logOf([...served, ...served]);
    const comparison = new LogComparison();
    expect(comparison.request(7, first, 1, second, served.length)).toBeUndefined();
    first.keepLast(2);
    second.keepLast(served.length);
    expect(first.count).toBe(2);
    expect(first.line(1)).toBe(second.line(served.length - 1));
    expect(comparison.request(7, first, 0, second, served.length - 2)).toBeUndefined();
    expect(comparison).toMatchObject({ requests: 2, events: 12, hitBlocks: 1, evictedBlocks: 1 });
  });
});

test("the state read from a log has the referenced, private and idle blocks within a request", () => {
  const log = new EventLog();
  const state = new CacheState();
  const counts: number[][] = [];
  const happens = (kind: number, request: number, block: number, key: number, value: number) => {
    log.add(kind, 0, request, block, key, value);
    state.read(log, log.count - 1, log.count);
    const { private: own, cachedHeld, cachedIdle } = state.blockCounts();
    counts.push([own, cachedHeld, cachedIdle]);
  };
  for (const block of [0, 1, 2]) happens(EventKind.allocate, 0, block, -1, block);
  for (const block of [0, 1, 2]) happens(EventKind.publish, 0, block, 10 + block, block);
  for (const block of [2, 1, 0]) happens(EventKind.release, 0, block, -1, 1);
  expect(counts.slice(-7)).toEqual([
    [3, 0, 0],
    [2, 1, 0],
    [1, 2, 0],
    [0, 3, 0],
    [0, 2, 1],
    [0, 1, 2],
    [0, 0, 3],
  ]);
  happens(EventKind.hit, 1, 0, 10, 0);
  happens(EventKind.adopt, 1, 2, 12, 2);
  happens(EventKind.allocate, 1, 3, -1, 1);
  happens(EventKind.duplicate, 1, 3, 1, 1);
  happens(EventKind.release, 1, 3, -1, 0);
  happens(EventKind.drop, 1, 2, 12, 3);
  happens(EventKind.release, 1, 2, -1, 0);
  happens(EventKind.release, 1, 1, -1, 1);
  happens(EventKind.evict, 1, 1, 11, 2);
  expect(counts.slice(-9)).toEqual([
    [0, 1, 2],
    [0, 2, 1],
    [1, 2, 1],
    [1, 3, 0],
    [0, 3, 0],
    [1, 2, 0],
    [0, 2, 0],
    [0, 1, 1],
    [0, 1, 0],
  ]);
  expect([state.usersOf(0), state.usersOf(1)]).toEqual([{ cachedBy: 0, usedBy: 1 }, undefined]);
});

test("the state read from the log agrees with the cache after every request", () => {
  const trace = chats();
  // Random eviction leaves holes in prompts.
  const configs = [
    { policy: "lru", rules: {} },
    { policy: "lru", rules: { publish: "finish" } },
    { policy: "lru", rules: { reserve: "worst-case" } },
    { policy: "random", rules: { duplicates: "adopt" }, event: EventKind.adopt },
    { policy: "random", rules: { duplicates: "swap" }, event: EventKind.duplicate },
  ];
  for (const { event, ...own } of configs) {
    const seen = new Set<number>();
    const replay = new CacheReplay({ ...configOf(trace, { blocks: 40, ...own }), events: true });
    const state = new CacheState();
    for (let row = 0; row < trace.requestCount; row++) {
      replay.feed(trace, undefined, row, row + 1);
      state.read(replay.log!, 0, replay.log!.count);
      for (const kind of replay.log!.columns().kind) seen.add(kind);
      replay.log!.keepLast(0);
      const { pool, index, entries } = replay.result().cache;
      const idle = [...pool.words.keys()].filter((block) => pool.stateOf(block) === BlockState.idle);
      expect(state.blockCounts()).toEqual({ private: 0, cachedHeld: 0, cachedIdle: idle.length });
      const keys = [...index.blocks()].map((block) => entries.columns.key[index.entryOf(block)]);
      expect([...state.contents()].sort()).toEqual(keys.sort());
    }
    for (const special of [EventKind.adopt, EventKind.duplicate])
      expect(seen.has(special), `${own.policy}: ${eventNames[special]}`).toBe(special === event);
  }
});
