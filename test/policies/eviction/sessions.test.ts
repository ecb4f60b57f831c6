import { describe, expect, test } from "vitest";
import { seededRandom } from "../../../core/random.ts";
import { evictionWith } from "../../../core/replica/compose.ts";
import { BlockKeys } from "../../../core/trace/content.ts";
import { readTrace, type Trace } from "../../../core/trace/trace.ts";
import { bestTimeToLive, ToolDurations } from "../../../policies/eviction/tool-durations.ts";
import { evictionRegistry } from "../../../policies/registry.ts";
import { chatSource } from "../../../traces/generators/chat.ts";
import { generated } from "../../../traces/generators/generator.ts";
import { fewShot, subAgents } from "../../../traces/generators/index.ts";
import { LiveCache } from "../../support/live-cache.ts";
import { replayed } from "../../support/replays.ts";

// `continuum`, `kvflow` and `session-refs` make the decisions of independent implementations over plain arrays, in traces with drawn
// signals, for a hash table and one request at a time.

/** An open session in the naive implementation. */
interface Session {
  contents: number[];
  steps: number;
  paused: { readonly tool: number; readonly atNs: number } | undefined;
  pinnedUntilNs: number;
  tokens: number;
}

interface Policy {
  /** The score of what the session uses; undefined = none. */
  score(session: Session, now: number): number | undefined;
  readonly marksOnly?: boolean;
  /** Time to live of a session that calls a tool. */
  ttlNs?(tool: number, tokens: number, calls: readonly Call[]): number;
}

interface Call {
  readonly tool: number;
  readonly ns: number;
}

const leastSamples = 3;

const policies: Record<string, Policy> = {
  "session-refs": { score: () => 1 },
  kvflow: { score: ({ steps }) => (steps === 0 ? undefined : -steps), marksOnly: true },
  continuum: {
    score: ({ pinnedUntilNs }, now) => (pinnedUntilNs > now ? pinnedUntilNs : undefined),
    ttlNs(tool, tokens, calls) {
      const own = calls.filter((call) => call.tool === tool);
      const known = own.length >= leastSamples ? own : calls;
      if (known.length < leastSamples) return 2e9;
      const gains = known.map(({ ns }) => {
        const finished = known.filter((other) => other.ns <= ns).length;
        return { ns, gain: (finished / known.length) * tokens * (1e9 / 8000) - ns };
      });
      const best = gains.sort((a, b) => b.gain - a.gain || a.ns - b.ns)[0];
      return best.gain > 0 ? best.ns : 0;
    },
  },
};

interface Decisions {
  readonly hits: number[];
  readonly evicted: number[];
  readonly dropped: number[];
}

function naive(trace: Trace, capacity: number, policy: Policy): Decisions {
  const { unitTokens, optional } = trace;
  const { keys, start, promptBlocks } = new BlockKeys({ unitTokens, blockTokens: unitTokens }).of(trace);
  const decisions: Decisions = { hits: [], evicted: [], dropped: [] };
  /** In LRU order. */
  let cached: number[] = [];
  const sessions = new Map<number, Session>();
  let keeps: { readonly contents: readonly number[]; readonly untilNs: number }[] = [];
  let drops: number[] = [];
  const calls: Call[] = [];
  const remove = (victim: number) => (cached = cached.filter((key) => key !== victim));
  const scoreOf = (content: number, now: number) => {
    const kept = keeps.some(({ contents, untilNs }) => untilNs > now && contents.includes(content));
    const scores = [...sessions.values()]
      .filter(({ contents }) => contents.includes(content))
      .map((session) => policy.score(session, now) ?? Number.NEGATIVE_INFINITY);
    return Math.max(kept ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY, ...scores);
  };
  for (let request = 0; request < trace.requestCount; request++) {
    const now = trace.arrivalNs[request];
    keeps = keeps.filter(({ untilNs }) => untilNs > now);
    for (const key of cached.filter((one) => drops.includes(one))) {
      decisions.dropped.push(key);
      remove(key);
    }
    const prompt = [...keys.subarray(start[request], start[request] + promptBlocks[request])];
    drops = drops.filter((key) => !prompt.includes(key));
    const id = optional.session![request];
    const session = sessions.get(id) ?? { contents: [], steps: 0, paused: undefined, pinnedUntilNs: 0, tokens: 0 };
    const marked = optional.markedTokens?.[request] ?? 0;
    const markedBlocks = marked > 0 ? Math.floor(marked / unitTokens) : prompt.length;
    if (id > 0) {
      sessions.set(id, session);
      if (session.paused) calls.push({ tool: session.paused.tool, ns: now - session.paused.atNs });
      session.paused = undefined;
      session.pinnedUntilNs = 0;
      session.tokens = trace.inputTokens[request];
      session.contents.push(...(policy.marksOnly ? prompt.slice(0, markedBlocks) : prompt));
    }
    if (Math.ceil(trace.inputTokens[request] / unitTokens) > capacity) {
      decisions.hits.push(0);
    } else {
      const firstMiss = prompt.findIndex((key) => !cached.includes(key));
      decisions.hits.push(firstMiss < 0 ? prompt.length : firstMiss);
      const missing = prompt.filter((key) => !cached.includes(key));
      while (cached.length + missing.length > capacity) {
        const free = cached.filter((key) => !prompt.includes(key)).map((key) => ({ key, score: scoreOf(key, now) }));
        const victim = free.reduce((least, one) => (one.score < least.score ? one : least)).key;
        decisions.evicted.push(victim);
        remove(victim);
      }
      cached = [...cached.filter((key) => !prompt.includes(key)), ...prompt.reverse()];
      prompt.reverse();
    }
    const keepNs = optional.keepNs![request];
    if (keepNs > 0) {
      keeps.push({ contents: prompt.slice(0, markedBlocks), untilNs: now + keepNs });
      drops = drops.filter((key) => !prompt.slice(0, markedBlocks).includes(key));
    }
    if (id === 0) continue;
    session.steps = optional.nextUseSteps![request];
    const tool = optional.tool![request];
    const end = optional.sessionEnd![request];
    if (end > 0) {
      sessions.delete(id);
      const isUsed = (key: number) => [...sessions.values()].some(({ contents }) => contents.includes(key));
      const isFree = (key: number) => !isUsed(key) && scoreOf(key, now) === Number.NEGATIVE_INFINITY;
      if (end === 2) drops.push(...session.contents.filter(isFree));
    } else if (tool > 0) {
      session.paused = { tool, atNs: now };
      session.pinnedUntilNs = now + (policy.ttlNs?.(tool, session.tokens, calls) ?? 0);
    }
  }
  return decisions;
}

function ours(trace: Trace, blocks: number, name: string): Decisions {
  const options = name === "continuum" ? { samples: leastSamples } : {};
  const eviction = evictionWith(evictionRegistry.get(name), options);
  const { requests, log } = replayed(trace, { eviction, blocks, events: true });
  const decisions: Decisions = { hits: [...requests.hitBlocks], evicted: [], dropped: [] };
  for (const event of log!.events()) {
    if (event.name === "evict") decisions.evicted.push(event.content);
    if (event.name === "drop") decisions.dropped.push(event.content);
  }
  return decisions;
}

/** The trace with sessions and signals that are drawn at random. */
function signalled(trace: Trace, seed: number): Trace {
  const random = seededRandom(seed);
  const rows = Array.from(trace.inputTokens, (inputTokens) => ({
    markedTokens: random.below(2) === 0 ? 0 : random.below(inputTokens + 1),
    session: random.below(16),
    tool: random.below(4),
    nextUseSteps: random.below(6),
    keepNs: random.below(10) === 0 ? random.below(60) * 1e9 : 0,
    sessionEnd: random.below(12) < 10 ? 0 : 1 + random.below(2),
  }));
  const optional = {
    ...trace.optional,
    markedTokens: Uint32Array.from(rows, ({ markedTokens }) => markedTokens),
    session: Uint32Array.from(rows, ({ session }) => session),
    tool: Uint32Array.from(rows, ({ tool }) => tool),
    nextUseSteps: Uint32Array.from(rows, ({ nextUseSteps }) => nextUseSteps),
    keepNs: Float64Array.from(rows, ({ keepNs }) => keepNs),
    sessionEnd: Uint32Array.from(rows, ({ sessionEnd }) => sessionEnd),
  };
  return { ...trace, optional };
}

const traces: [string, () => Promise<Trace>][] = [
  ["chat", () => readTrace(chatSource({ requests: 130, seed: 3, unitTokens: 128, systemPrompts: 8, sessionsPerS: 2 }))],
  ["few-shot", () => readTrace(generated(fewShot, { requests: 130, seed: 5, unitTokens: 256 }))],
  ["sub-agents", () => readTrace(generated(subAgents, { requests: 150, seed: 7, unitTokens: 512 }))],
];

describe.each(traces)("%s", (_name, read) => {
  const trace = read().then((plain) => signalled(plain, 11));
  test.each(Object.keys(policies))("%s", async (name) => {
    const given = await trace;
    const longest = Math.ceil(Math.max(...given.inputTokens) / given.unitTokens);
    let differing = 0;
    for (const share of [-0.02, 0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6]) {
      const blocks = Math.floor(longest + share * (given.distinctKeys - longest));
      const decisions = ours(given, blocks, name);
      expect(decisions, `${blocks} blocks`).toEqual(naive(given, blocks, policies[name]));
      if (decisions.evicted.join() !== ours(given, blocks, "lru").evicted.join()) differing++;
    }
    expect(differing, "capacities at which the victims are not those of LRU").toBeGreaterThan(4);
  });
});

describe("with signals by hand", () => {
  const live = (eviction: string) => new LiveCache({ eviction, blocks: 3, blockTokens: 4 });

  test("session-refs evicts the entries of a closed session before older ones of an open session", () => {
    const cache = live("session-refs");
    cache.run("aaaa", { session: 1 });
    cache.run("bbbb", { session: 2, sessionEnd: 1 });
    cache.run("cccc", { session: 3 });
    cache.run("dddd");
    expect(cache.cachedTexts().sort()).toEqual(["aaaa", "cccc", "dddd"]);
  });

  test("kvflow evicts entries without a next use first, then the one with the most steps to its next use", () => {
    const cache = live("kvflow");
    cache.run("aaaa", { session: 1, nextUseSteps: 5 });
    cache.run("bbbb", { session: 2, nextUseSteps: 1 });
    cache.run("cccc");
    cache.run("dddd", { session: 3, nextUseSteps: 2 });
    expect(cache.cachedTexts().sort()).toEqual(["aaaa", "bbbb", "dddd"]);
    cache.run("eeee");
    expect(cache.cachedTexts().sort()).toEqual(["bbbb", "dddd", "eeee"]);
  });

  test("continuum keeps the entries of a paused session until its time to live has passed", () => {
    const cache = live("continuum");
    cache.run("aaaa", { session: 1, tool: 1 });
    cache.run("bbbb");
    cache.run("cccc");
    cache.run("dddd");
    expect(cache.cachedTexts().sort()).toEqual(["aaaa", "cccc", "dddd"]);
    cache.now += 2e9;
    cache.run("eeee");
    expect(cache.cachedTexts().sort()).toEqual(["cccc", "dddd", "eeee"]);
  });

  test("a dropped session's entries that no other session uses are evicted although no space is needed", () => {
    const cache = live("session-refs");
    cache.run("aaaabbbb", { session: 1 });
    cache.run("aaaacccc", { session: 2, sessionEnd: 2 });
    cache.step();
    expect(cache.cachedTexts().sort()).toEqual(["aaaa", "aaaabbbb"]);
  });

  test("a kept prefix is evicted after entries of open sessions, until its time", () => {
    const cache = live("session-refs");
    cache.run("aaaa", { keepNs: 100 });
    cache.run("bbbb", { session: 1 });
    cache.run("cccc", { session: 2 });
    cache.run("dddd", { session: 3 });
    expect(cache.cachedTexts().sort()).toEqual(["aaaa", "cccc", "dddd"]);
    cache.now += 100;
    cache.run("eeee", { session: 4 });
    expect(cache.cachedTexts().sort()).toEqual(["cccc", "dddd", "eeee"]);
  });
});

test("the time to live is the duration with the largest expected gain, from the tool's durations or those of all tools", () => {
  expect(bestTimeToLive([1, 2, 90], 60)).toBe(2); // 20 − 1, 40 − 2, 60 − 90
  expect(bestTimeToLive([1, 2, 90], 600)).toBe(90); // 199, 398, 510
  expect(bestTimeToLive([50], 40)).toBe(0);
  const durations = new ToolDurations();
  for (const ns of [5, 1, 3]) durations.add(1, ns);
  durations.add(2, 7);
  expect(durations.of(1, 3)).toEqual([1, 3, 5]);
  expect(durations.of(2, 3)).toEqual([1, 3, 5, 7]);
  expect(durations.of(2, 5)).toBeUndefined();
});
