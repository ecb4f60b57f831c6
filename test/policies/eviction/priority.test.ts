import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ClientSessions } from "../../../core/cache/client-sessions.ts";
import { CacheRequests } from "../../../core/cache/replica-requests.ts";
import { EntryColumns } from "../../../core/plugins/entry-columns.ts";
import type { EvictionPlugin, RequestView } from "../../../core/plugins/index.ts";
import { resolveRules } from "../../../core/plugins/rules.ts";
import { seededRandom } from "../../../core/random.ts";
import { rowOf, type Trace, TraceBuilder } from "../../../core/trace/trace.ts";
import { fifo } from "../../../policies/eviction/fifo.ts";
import { filo } from "../../../policies/eviction/filo.ts";
import { type LevelOptions, Levels, prioritiesByBlock } from "../../../policies/eviction/levels.ts";
import { lfu } from "../../../policies/eviction/lfu.ts";
import { lru } from "../../../policies/eviction/lru.ts";
import { lruDeepest } from "../../../policies/eviction/lru-deepest.ts";
import { mru } from "../../../policies/eviction/mru.ts";
import { priority } from "../../../policies/eviction/priority.ts";
import { retention } from "../../../policies/eviction/retention.ts";
import { slru, slruWith } from "../../../policies/eviction/slru.ts";
import { blockTokens, cachedLetters, served } from "../../support/letters.ts";
import { type OwnConfig, replayed } from "../../support/replays.ts";

/** A request: its prompt (a letter per block), arrival time, priority and retention. */
type RequestSpec = readonly [prompt: string, arrivalNs: number, priority?: number, retentionNs?: number];

function traceOf(specs: readonly RequestSpec[]): Trace {
  const builder = new TraceBuilder(blockTokens);
  for (const [prompt, arrivalNs, priority = 0, retentionNs = 0] of specs)
    builder.add({
      arrivalNs,
      priority,
      retentionNs,
      inputTokens: prompt.length * blockTokens,
      outputTokens: 1,
      keys: [...prompt].map((letter) => letter.charCodeAt(0) - 65),
    });
  return builder.take();
}

/** Letters of the cached blocks. */
const left = (specs: readonly RequestSpec[], own: OwnConfig) => cachedLetters(replayed(traceOf(specs), own));

/** Whether a radix tree has cached the beginning of this prompt, after these requests. */
function isCachedAfter(specs: readonly (RequestSpec | string)[], prompt: string, own: OwnConfig): boolean {
  const all = [...specs, prompt].map((spec, r): RequestSpec => (typeof spec === "string" ? [spec, r] : spec));
  const late = all.map(
    ([letters, arrivalNs, ...rest], r): RequestSpec => [letters, Math.max(arrivalNs, all[r - 1]?.[1] ?? 0), ...rest],
  );
  return replayed(traceOf(late), { index: "radix-tree", ...own }).requests.hitBlocks.at(-1)! > 0;
}

const request = (given: Partial<RequestView> = {}): RequestView => ({
  ...{ id: 0, arrivalNs: 0, inputTokens: 1, maxOutputTokens: 1, namespace: 0, session: 0, category: 0 },
  ...{ priority: 0, markedTokens: 0, keys: new Uint32Array(1), keyStart: 0, promptBlocks: 1, ...given },
});

/** A policy without a cache, with the columns that it declares. */
function alone(plugin: EvictionPlugin, entryCount: number) {
  const columns = new EntryColumns(entryCount, "reverse");
  columns.keepAll();
  const rules = resolveRules();
  const policy = plugin.create({
    columns,
    rules,
    random: seededRandom(1),
    clock: { now: 0 },
    options: {},
    requests: new CacheRequests(),
    sessions: new ClientSessions(undefined),
    blockTokens: 16,
    capacityBlocks: entryCount,
  });
  return { columns, policy };
}

interface Node {
  readonly id: string;
  readonly last?: number;
  readonly created?: number;
  readonly hits?: number;
  readonly depth?: number;
  readonly prio?: number;
  readonly keep?: number;
}

/** The order in which entries with these properties are evicted at time `now`. */
function order(plugin: EvictionPlugin, nodes: readonly Node[], now = 0): string {
  const { columns, policy } = alone(plugin, nodes.length);
  const ids = nodes.map(({ id }) => id);
  for (const { id, last = 0, created = 0, hits = 0, depth = 16, prio = 0, keep = 0 } of byLastUse(nodes)) {
    const entry = ids.indexOf(id);
    const user = request({ priority: prio, retentionNs: keep });
    policy.begin?.(user, last);
    columns.created(entry, created, depth, 16, entry);
    policy.published?.(entry, user);
    for (let n = 0; n < hits; n++) columns.hit(entry);
    columns.touched(entry, last);
    policy.add(entry);
  }
  const evicted: string[] = [];
  for (let entry = policy.victim(now); entry !== undefined; entry = policy.victim(now)) {
    policy.remove(entry, "evicted");
    evicted.push(ids[entry]);
  }
  return evicted.join(" ");
}

const byLastUse = (nodes: readonly Node[]) => [...nodes].sort((a, b) => (a.last ?? 0) - (b.last ?? 0));

describe("eviction order (SGLang, test_evict_policy.py)", () => {
  test.each<[plugin: EvictionPlugin, nodes: Node[], order: string]>([
    [lru, ["a 5", "b 1", "c 3"].map(lastOf), "b c a"],
    [
      lfu,
      [
        { ...lastOf("cold 10"), hits: 1 },
        { ...lastOf("hot 1"), hits: 100 },
        { ...lastOf("tie 2"), hits: 1 },
      ],
      "tie cold hot",
    ],
    [
      fifo,
      [
        { id: "first", created: 1 },
        { id: "second", created: 5 },
      ],
      "first second",
    ],
    [mru, ["old 1", "new 10"].map(lastOf), "new old"],
    [
      filo,
      [
        { id: "first", created: 1 },
        { id: "second", created: 5 },
      ],
      "second first",
    ],
    [
      lruDeepest,
      [{ ...lastOf("long 2"), depth: 64 }, { ...lastOf("short 2"), depth: 32 }, lastOf("old 1")],
      "old long short",
    ],
  ])("$name", (plugin, nodes, expected) => {
    expect(order(plugin, nodes)).toBe(expected);
  });

  const used: Node[] = [
    { id: "kept-old", hits: 5, last: 1 },
    { id: "new", hits: 0, last: 10 },
    { id: "old", hits: 0, last: 2 },
    { id: "kept-new", hits: 3, last: 8 },
  ];
  test("slru evicts entries with two or more hits last; the threshold is configurable", () => {
    expect(order(slru, used)).toBe("old new kept-old kept-new");
    expect(order(slruWith(4), used)).toBe("old kept-new new kept-old");
  });

  test("priority evicts the lowest priority first, then the least recently used entry", () => {
    const nodes: Node[] = [
      { id: "high", prio: 5, last: 1 },
      { id: "low", prio: 1, last: 10 },
      { id: "low-old", prio: 1, last: 2 },
    ];
    expect(order(priority, nodes)).toBe("low-old low high");
  });

  test("an entry has priority 0 after its retention; a retention of 0 is unlimited", () => {
    const nodes: Node[] = [
      { id: "expired", prio: 50, last: 0, keep: 10 },
      { id: "active", prio: 20, last: 95, keep: 10 },
      { id: "forever", prio: 30, last: 0 },
    ];
    expect(order(priority, nodes, 100)).toBe("expired active forever");
    expect(order(priority, nodes, 104)).toBe("expired active forever");
    expect(order(priority, [...nodes, { id: "zero", last: 50 }], 105)).toBe("expired zero active forever");
    expect(order(priority, [...nodes, { id: "zero", last: 50 }], 104)).toBe("expired zero active forever");
    expect(order(priority, [...nodes, { id: "one", prio: 1, last: 50 }], 104)).toBe("expired one active forever");
    expect(order(priority, [...nodes, { id: "one", prio: 1, last: 50 }], 105)).toBe("expired active one forever");
  });

  test("priorities are clamped to 0 .. 99", () => {
    const nodes: Node[] = [
      { id: "clamped", prio: 500, last: 1 },
      { id: "highest", prio: 99, last: 2 },
      { id: "negative", prio: -10, last: 9 },
      { id: "zero", last: 8 },
    ];
    expect(order(priority, nodes, 100)).toBe("zero negative clamped highest");
  });
});

function lastOf(text: string): Node {
  const [id, last] = text.split(" ");
  return { id, last: Number(last) };
}

describe("bugs of other systems that kvlab does not have", () => {
  test("SGLang 18843: hits are counted, so a frequently hit entry stays although it is the least recently used", () => {
    expect(served(["A", "A", "B", "C"], { policy: "lfu", blocks: 2 }).letters).toBe("AC");
    expect(served(["A", "A", "B", "C"], { policy: "lru", blocks: 2 }).letters).toBe("BC");
    for (const index of ["block-trie", "radix-tree"])
      expect(served(["A", "A", "B", "C"], { policy: "lfu", index, blocks: 2 }).letters).toBe("AC");
  });

  test("both halves of a split node have the times and hit counts of the node", () => {
    // The third request uses half of the run AB, which is split: A is as old as B, and older than X.
    const old = ["AB", "X", "A", "PQ"];
    expect(isCachedAfter(old, "A", { policy: "fifo", blocks: 3 })).toBe(false);
    expect(isCachedAfter(old, "X", { policy: "fifo", blocks: 3 })).toBe(true);
    // A has been matched three times, X twice and later than B.
    const often = ["AB", "AB", "AB", "X", "X", "X", "AC", "PQR"];
    expect(isCachedAfter(often, "A", { policy: "lfu", blocks: 4 })).toBe(true);
    expect(isCachedAfter(often, "X", { policy: "lfu", blocks: 4 })).toBe(false);
  });

  test.each(["priority", "retention"])("%s: both halves of a split node keep priority and retention", (policy) => {
    // B, X and A have the same level and were last used in this order.
    const specs: RequestSpec[] = [
      ["AB", 0, 50],
      ["X", 1, 50],
      ["A", 2],
      ["PQ", 3, 90],
    ];
    expect(isCachedAfter(specs, "A", { policy, blocks: 3 })).toBe(true);
    expect(isCachedAfter(specs, "X", { policy, blocks: 3 })).toBe(false);
  });

  test("both halves of a split node keep the retention, and the unused half keeps its last use", () => {
    const specs = (now: number): RequestSpec[] => [
      ["AB", 0, 5, 100],
      ["A", 20],
      ["X", 50, 4],
      ["PQ", now, 9],
    ];
    const own = { policy: "priority", blocks: 4 };
    // A and B have a higher priority than X until 120 and 100.
    expect([99, 100].map((now) => isCachedAfter(specs(now), "X", own))).toEqual([false, true]);
    const more = (now: number): RequestSpec[] => [...specs(now), ["R", now, 9]];
    expect([119, 120].map((now) => isCachedAfter(more(now), "A", own))).toEqual([true, false]);
  });
});

describe("priority and retention in a clock-free replay, whose time is that of the arrivals", () => {
  const own = { policy: "priority", blocks: 2 };

  test("entries of higher priority stay, regardless of recency", () => {
    expect(
      left(
        [
          ["A", 0, 5],
          ["B", 1, 3],
          ["C", 2],
        ],
        own,
      ),
    ).toBe("AC");
    expect(
      left(
        [
          ["A", 0, 5],
          ["B", 1, 3],
          ["C", 2],
        ],
        { ...own, policy: "retention" },
      ),
    ).toBe("AC");
  });

  test("a hit by a request of higher priority raises an entry's priority, one of lower priority does not lower it", () => {
    expect(
      left(
        [
          ["A", 0, 1],
          ["A", 1, 5],
          ["B", 2, 3],
          ["C", 3],
        ],
        own,
      ),
    ).toBe("AC");
    expect(
      left(
        [
          ["A", 0, 5],
          ["A", 1, 1],
          ["B", 2, 3],
          ["C", 3],
        ],
        own,
      ),
    ).toBe("AC");
  });

  test("in TensorRT-LLM the last request sets the priority, if it has one", () => {
    const trt = { ...own, policy: "retention" };
    expect(
      left(
        [
          ["A", 0, 5],
          ["A", 1, 1],
          ["B", 2, 3],
          ["C", 3],
        ],
        trt,
      ),
    ).toBe("BC");
    expect(
      left(
        [
          ["A", 0, 5],
          ["A", 1],
          ["B", 2, 3],
          ["C", 3],
        ],
        trt,
      ),
    ).toBe("AC");
  });

  test("priority and retention come from the same request: the one with the highest priority, on a tie with the longest retention", () => {
    const leftOf = (first: RequestSpec, second: RequestSpec) => left([first, second, ["B", 2, 3], ["C", 50]], own);
    expect(leftOf(["A", 0, 9, 10], ["A", 1, 5, 300])).toBe("BC");
    expect(leftOf(["A", 0, 5, 10], ["A", 1, 5, 300])).toBe("AC");
    expect(leftOf(["A", 0, 5, 10], ["A", 1, 5])).toBe("AC");
    expect(leftOf(["A", 0, 5], ["A", 1, 5, 10])).toBe("AC");
  });

  test("retention begins at the last use and expires at its last nanosecond", () => {
    const at = (now: number) =>
      left(
        [
          ["A", 0, 5, 10],
          ["A", 5],
          ["B", 6, 3],
          ["C", now],
        ],
        own,
      );
    expect(at(14)).toBe("AC");
    expect(at(15)).toBe("BC");
  });

  test("an expired entry regains its priority with its next use, but not in TensorRT-LLM", () => {
    const specs: RequestSpec[] = [
      ["A", 0, 50, 10],
      ["A", 20],
      ["B", 21, 40],
      ["C", 22],
    ];
    expect(left(specs, own)).toBe("AC");
    expect(left(specs, { ...own, policy: "retention" })).toBe("BC");
  });

  test("retention: an expired entry moves to the end of level 35, also from a lower level", () => {
    const trt = { policy: "retention", blocks: 3 };
    const specs = (now: number): RequestSpec[] => [
      ["A", 0, 50, 10],
      ["B", 1, 20, 10],
      ["C", 2],
      ["D", now],
    ];
    expect(left(specs(9), trt)).toBe("ACD");
    expect(left(specs(11), trt)).toBe("ABD");
    expect(left([...specs(11), ["E", 12], ["F", 13]], trt)).toBe("DEF");
    expect(left([...specs(11), ["E", 12]], trt)).toBe("BDE");
  });
});

test("a split is not a use: the new half has the last use of the whole node", () => {
  for (const plugin of [priority, retention]) {
    const { columns, policy } = alone(plugin, 3);
    const publish = (entry: number, user: RequestView, tick: number) => {
      columns.created(entry, tick, 16, 16, entry);
      policy.published?.(entry, user);
      columns.touched(entry, tick);
      policy.add(entry);
    };
    policy.begin?.(request(), 0);
    publish(0, request({ priority: 50, retentionNs: 10 }), 1);
    policy.begin?.(request(), 5);
    columns.created(1, 2, 16, 16, 1);
    policy.published?.(1, request());
    columns.inherited(1, 0);
    policy.split?.(0, 1);
    publish(2, request({ priority: 40 }), 2);
    policy.remove(0, "evicted");
    policy.add(1);
    expect([policy.victim(9), policy.victim(10)], plugin.name).toEqual([2, 1]);
  }
});

test("the last use of an entry is its release, not the admission of its request", () => {
  for (const plugin of [priority, retention]) {
    const { columns, policy } = alone(plugin, 2);
    const publish = (entry: number, priority: number) => {
      const user = request({ priority, retentionNs: 10 });
      columns.created(entry, 1, 16, 16, entry);
      policy.published?.(entry, user);
    };
    policy.begin?.(request(), 0);
    publish(0, 50);
    policy.begin?.(request(), 100);
    publish(1, 40);
    columns.touched(0, 2);
    policy.add(0);
    columns.touched(1, 3);
    policy.add(1);
    expect([policy.victim(109), policy.victim(110)]).toEqual([1, 0]);
  }
});

test("requests have their retention in traces with and without the column", () => {
  const plain = { inputTokens: 16, outputTokens: 1, keys: [0] };
  const builder = new TraceBuilder(16);
  builder.add({ ...plain, arrivalNs: 0 });
  expect(rowOf(builder.take(), 0)).not.toHaveProperty("retentionNs");
  for (let r = 0; r < 2000; r++) builder.add({ ...plain, arrivalNs: r, ...(r % 2 && { retentionNs: r * 1e9 }) });
  const trace = builder.take();
  expect([rowOf(trace, 1998).retentionNs, rowOf(trace, 1999).retentionNs]).toEqual([0, 1999e9]);
});

// `Levels` without a policy, as in TensorRT-LLM's tests (evictionPolicyTest.cpp).

const trt: LevelOptions = { initial: 35, expired: 35, expiredPlace: "end" };

describe("levels", () => {
  /** Entries 0 .. n − 1, all of them evictable. */
  const full = (entryCount: number) => {
    const levels = new Levels(entryCount, trt);
    for (let entry = 0; entry < entryCount; entry++) levels.add(entry, 0);
    return levels;
  };

  test("a level is FIFO; entries added to the front precede all others", () => {
    const levels = full(3);
    levels.setLevel(0, undefined, 0);
    expect(levels.victim(0)).toBe(1);
    levels.add(0, 0);
    expect(levels.victim(0)).toBe(1);
    levels.setLevel(0, undefined, 0);
    levels.addToFront(0, 0);
    expect(levels.victim(0)).toBe(0);
    levels.setLevel(1, undefined, 0);
    levels.addToFront(1, 0);
    expect(levels.victim(0)).toBe(1);
    expect(levels.count).toBe(3);
  });

  test("the lowest level is evicted first; an entry without a new level keeps its level", () => {
    const levels = full(4);
    levels.setLevel(2, 5, 0);
    levels.add(2, 0);
    expect(levels.victim(0)).toBe(2);
    levels.setLevel(2, undefined, 0);
    levels.add(2, 0);
    expect([levels.victim(0), levels.levelOf(2)]).toEqual([2, 5]);
    levels.setLevel(2, 80, 0);
    levels.add(2, 0);
    expect(levels.victim(0)).toBe(0);
  });

  test("a level with a duration expires when this time has passed since the release", () => {
    const levels = new Levels(2, trt);
    levels.setLevel(0, 80, 3);
    levels.setLevel(1, 50, 8);
    levels.add(0, 5);
    levels.add(1, 5);
    levels.refresh(5);
    expect(levels.victim(5)).toBe(1);
    levels.refresh(9);
    expect([levels.victim(9), levels.levelOf(0), levels.levelOf(1)]).toEqual([0, 35, 50]);
    // Its level has expired and is not restored.
    levels.setLevel(0, undefined, 0);
    levels.add(0, 9);
    expect(levels.victim(5)).toBe(0);
  });

  test("a duration of the default level has no effect", () => {
    const levels = full(2);
    levels.setLevel(0, 35, 1);
    levels.setLevel(1, 35, 1);
    levels.add(1, 0);
    levels.add(0, 0);
    levels.refresh(5);
    expect(levels.victim(5)).toBe(1);
  });
});

/** An operation of a queue; `later` advances `now`. */
const acts = fc.array(
  fc.record({
    entry: fc.nat(7),
    level: fc.option(fc.nat(4), { nil: undefined }),
    durationNs: fc.nat(6),
    later: fc.nat(3),
    place: fc.nat(3),
    inFront: fc.boolean(),
    look: fc.nat(12),
    refresh: fc.boolean(),
  }),
  { maxLength: 60 },
);

interface Waiting {
  readonly entry: number;
  readonly since: number;
  place: number;
  arrival: number;
}

/** A naive implementation: an array that is sorted for every victim. */
class NaiveLevels {
  readonly #options: LevelOptions;
  readonly #levels: { level: number; durationNs: number }[];
  #waiting: Waiting[] = [];
  #arrivals = 0;
  #lastPlace = 0;

  constructor(entryCount: number, options: LevelOptions) {
    this.#options = options;
    this.#levels = Array.from({ length: entryCount }, () => ({ level: options.initial, durationNs: 0 }));
  }

  setLevel(entry: number, level: number | undefined, durationNs: number): void {
    this.#waiting = this.#waiting.filter((one) => one.entry !== entry);
    this.#levels[entry] = { level: level ?? this.#levels[entry].level, durationNs };
  }

  add(entry: number, since: number, place: number): void {
    this.#lastPlace = Math.max(this.#lastPlace, place);
    this.#waiting.push({ entry, since, place, arrival: this.#arrivals++ });
  }

  addToFront(entry: number, since: number): void {
    this.#waiting.push({ entry, since, place: Number.NEGATIVE_INFINITY, arrival: -this.#arrivals++ });
  }

  #end({ entry, since }: Waiting): number {
    const { level, durationNs } = this.#levels[entry];
    return durationNs > 0 && level !== this.#options.expired ? since + durationNs : Number.POSITIVE_INFINITY;
  }

  victim(now: number): number | undefined {
    const scores = (one: Waiting) => {
      const end = this.#end(one);
      if (end > now) return [this.#levels[one.entry].level, one.place, 0, one.arrival];
      const place = this.#options.expiredPlace === "end" ? 1e9 : one.place;
      return [this.#options.expired, place, this.#options.expiredPlace === "end" ? end : 0, one.arrival];
    };
    const sorted = this.#waiting.map((one) => ({ one, score: scores(one) }));
    sorted.sort((a, b) => a.score.map((n, i) => compare(n, b.score[i])).find((n) => n !== 0) ?? 0);
    return sorted[0]?.one.entry;
  }

  refresh(now: number): void {
    const over = this.#waiting.filter((one) => this.#end(one) <= now);
    over.sort((a, b) => this.#end(a) - this.#end(b) || a.arrival - b.arrival);
    for (const one of over) {
      this.#levels[one.entry] = { level: this.#options.expired, durationNs: 0 };
      if (this.#options.expiredPlace === "end") one.place = this.#lastPlace;
      one.arrival = this.#arrivals++;
    }
  }
}

const compare = (a: number, b: number) => (a === b ? 0 : a < b ? -1 : 1);

test.each<LevelOptions>([
  { initial: 2, expired: 2, expiredPlace: "end" },
  { initial: 0, expired: 0, expiredPlace: "own" },
])(
  "a victim is the first of all entries sorted, at any time, and looking at later times changes nothing: %o",
  (options) => {
    fc.assert(
      fc.property(acts, (all) => {
        const [levels, watched, naive] = [new Levels(8, options), new Levels(8, options), new NaiveLevels(8, options)];
        let now = 0;
        for (const { entry, level, durationNs, later, place, inFront, look, refresh } of all) {
          now += later;
          for (const one of [levels, watched, naive]) {
            if (refresh) one.refresh(now);
            one.setLevel(entry, level, durationNs);
            if (place < 3) inFront ? one.addToFront(entry, now) : one.add(entry, now, place);
          }
          expect(watched.victim(now + look)).toBe(naive.victim(now + look));
          expect(watched.victim(now)).toBe(naive.victim(now));
          expect(levels.victim(now)).toBe(naive.victim(now));
        }
      }),
      { numRuns: 300 },
    );
  },
);

// One priority for each block (evictionPolicyTest.cpp, BlockConfigTest).

describe("priorities by block", () => {
  const none = undefined;
  test.each<
    [
      ranges: [start: number, end: number | undefined, priority: number][],
      block: number,
      tokens: number,
      priorities: (number | undefined)[],
    ]
  >([
    [[], 16, 40, [none, none, none]],
    [
      [
        [0, 64, 80],
        [64, 128, 50],
      ],
      64,
      256,
      [80, 50, none, none],
    ],
    [
      [
        [0, 63, 80],
        [63, 127, 30],
      ],
      32,
      127,
      [80, 80, 30, 30],
    ],
    [
      [
        [0, 1, 80],
        [1, 2, 5],
      ],
      32,
      128,
      [80, none, none, none],
    ],
    [[[0, 128, 80]], 256, 192, [80]],
    [
      [
        [0, 65, 80],
        [65, 129, 30],
      ],
      64,
      192,
      [80, 80, 30],
    ],
    [
      [
        [0, 64, 80],
        [129, none, 50],
      ],
      64,
      256,
      [80, none, none, 50],
    ],
    [
      [
        [0, 64, 80],
        [66, 67, 50],
      ],
      64,
      256,
      [80, none, none, none],
    ],
    [[[127, 193, 80]], 64, 256, [none, none, 80, 80]],
    [[[127, 193, 80]], 64, 32, [none]],
    [[[1, none, 80]], 64, 128, [none, 80]],
    [
      [
        [32, 64, 0],
        [0, 16, 100],
      ],
      16,
      64,
      [100, none, 0, 0],
    ],
  ])("%j in blocks of %i, %i tokens", (ranges, block, tokens, priorities) => {
    const named = ranges.map(([start, end, priority]) => ({ start, end, priority }));
    expect(prioritiesByBlock(named, block, tokens)).toEqual(priorities);
  });

  test.each([
    [
      [
        { start: 0, priority: 80 },
        { start: 64, end: 128, priority: 80 },
      ],
      "retention range 0 to the end overlaps the one that starts at 64",
    ],
    [
      [
        { start: 0, end: 64, priority: 80 },
        { start: 30, end: 128, priority: 80 },
      ],
      "retention range 0 to 64 overlaps the one that starts at 30",
    ],
    [[{ start: 64, end: 32, priority: 80 }], "retention range 64 to 32 has no tokens"],
    [[{ start: -1, end: 32, priority: 80 }], "retention range -1 to 32 starts before the first token"],
    [
      [{ start: 0, end: 32, priority: -1 }],
      "retention range 0 to 32 has priority -1, expected an integer from 0 to 100",
    ],
    [
      [{ start: 0, end: 32, priority: 101 }],
      "retention range 0 to 32 has priority 101, expected an integer from 0 to 100",
    ],
  ])("%j is refused", (ranges, message) => {
    expect(() => prioritiesByBlock(ranges, 16, 64)).toThrow(message);
  });
});
