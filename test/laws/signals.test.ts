import { describe, expect, test, vi } from "vitest";
import { ClientSessions } from "../../core/cache/client-sessions.ts";
import { KvCache } from "../../core/cache/kv-cache.ts";
import { EventLog } from "../../core/log/event-log.ts";
import { sentenceOf } from "../../core/log/event-text.ts";
import type { EvictionPlugin, RequestView, Signal, SignalName } from "../../core/plugins/index.ts";
import { checkPlugin } from "../../lab/check/check.ts";
import { linesOf } from "../../laws/log-lines.ts";
import type { Trial } from "../../laws/trial.ts";
import { evictionTrials } from "../../laws/trials.ts";
import { evictionRegistry } from "../../policies/registry.ts";
import { simulate } from "../../sim/simulation.ts";
import { goldenTrace } from "../golden/golden-trace.ts";
import { LiveCache } from "../support/live-cache.ts";
import { replayed } from "../support/replays.ts";
import { linearCost, simulationConfigOf, tracesOf } from "../support/simulated.ts";
import { allPlugins, holds } from "./all-plugins.ts";
import { broken, violationsWith } from "./hook-faults.ts";

// The hook `signal` and the view of sessions: every law with policies that receive signals, and faults planted in them.

const lru = evictionRegistry.get("lru");
const sessionRefs = evictionRegistry.get("session-refs");
const listening = ["continuum", "kvflow", "session-refs"].map((name) => evictionRegistry.get(name));

/** LRU that receives signals and ignores them. */
const ignoring: EvictionPlugin = {
  ...lru,
  name: "ignoring",
  create: (context) => Object.assign(lru.create(context), { signal() {} }),
};

describe.each(listening.map((plugin) => [plugin.name, plugin] as const))("with %s", (_, eviction) => {
  const named = evictionTrials.map((trial): [string, Trial] => [trial.laws.map(({ name }) => name).join(", "), trial]);
  test.each(named)("%s", (_laws, trial) => holds(trial, { ...allPlugins, evictions: [eviction] }));
});

test("policies without a fault violate no law in the same scenarios, in which every kind of signal occurs", () => {
  const seen = new Map<SignalName, number>();
  const counting = broken(sessionRefs, (inner) => ({
    signal(signal: Signal, now) {
      seen.set(signal.name, (seen.get(signal.name) ?? 0) + 1);
      inner.signal!(signal, now);
    },
  }));
  expect(violationsWith(counting)).toBe("");
  for (const name of ["pause", "resume", "close", "expect", "keep", "drop"] as const)
    expect(seen.get(name), name).toBeGreaterThan(10);
});

test("victim-is-pure detects a policy that changes its state in victim() after a signal", () => {
  const eviction = broken(sessionRefs, (inner) => {
    let isArmed = false;
    return {
      signal(signal, now) {
        isArmed = true;
        inner.signal!(signal, now);
      },
      victim(now) {
        const victim = inner.victim(now);
        if (!isArmed || victim === undefined) return victim;
        isArmed = false;
        return undefined;
      },
    };
  });
  expect(violationsWith(eviction)).toMatch(/^victim\(\) returned undefined, and \d+ when called again$/m);
});

test("signals-in-order detects a request whose session is not resumed before its admission", () => {
  const { arrived } = ClientSessions.prototype;
  const late = vi.spyOn(ClientSessions.prototype, "arrived").mockImplementation(function (
    this: ClientSessions,
    request,
    now,
  ) {
    const before = this.of(request)?.state;
    arrived.call(this, request, now);
    if (before === "paused") this.of(request)!.state = before;
  });
  try {
    expect(violationsWith(sessionRefs)).toMatch(/^request \d+ is admitted while its session is paused$/m);
  } finally {
    late.mockRestore();
  }
});

test("signals-in-order detects signals that come out of the order of time", () => {
  const { ended } = ClientSessions.prototype;
  const late = vi.spyOn(ClientSessions.prototype, "ended").mockImplementation(function (
    this: ClientSessions,
    request,
    now,
  ) {
    ended.call(this, request, now - 2);
  });
  try {
    expect(violationsWith(sessionRefs)).toMatch(/^\w+ at \d+ comes after a signal at \d+$/m);
  } finally {
    late.mockRestore();
  }
});

test("signals-in-order detects a session that pauses while one of its requests runs", () => {
  const forgets = vi.spyOn(KvCache.prototype, "arrived").mockImplementation(function (this: KvCache, request, now) {
    this.sessions.arrived(request, now);
    const session = this.sessions.of(request);
    if (session) session.requestCount = 1;
  });
  try {
    expect(violationsWith(sessionRefs)).toMatch(/^request \d+ is admitted while its session is (paused|idle)$/m);
  } finally {
    forgets.mockRestore();
  }
});

test("a policy that ignores signals makes the decisions of one that does not receive them", async () => {
  const plain = await goldenTrace();
  const rows = Array.from({ length: plain.requestCount }, (_, row) => row);
  const signalled = {
    ...plain,
    optional: {
      ...plain.optional,
      session: Uint32Array.from(rows, (row) => row % 40),
      tool: Uint32Array.from(rows, (row) => row % 3),
      nextUseSteps: Uint32Array.from(rows, (row) => row % 5),
      keepNs: Float64Array.from(rows, (row) => (row % 4) * 1e9),
      sessionEnd: Uint32Array.from(rows, (row) => (row % 7 === 0 ? row % 3 : 0)),
    },
  };
  const logOf = (trace: typeof plain, eviction: EvictionPlugin) =>
    linesOf(replayed(trace, { eviction, blocks: 1000, events: true }).log!);
  // Without the times, which only a policy that receives signals has.
  const decisions = (lines: readonly string[]) =>
    lines.map((line) => line.replace(/^\d+ /, "")).filter((line) => !line.startsWith("signal"));
  const log = logOf(plain, lru);
  expect(decisions(logOf(signalled, lru))).toEqual(decisions(log));
  const heard = logOf(signalled, ignoring);
  expect(decisions(heard)).toEqual(decisions(log));
  expect(heard.length).toBeGreaterThan(log.length + 100);
});

test.each([
  ["with a log", true],
  ["without a log", false],
])("a policy without the hook has no view of sessions, %s", async (_, events) => {
  const plain = await goldenTrace();
  const session = new Uint32Array(plain.requestCount).fill(1);
  let viewed = 0;
  const eviction: EvictionPlugin = {
    ...lru,
    create(context) {
      const begin = (request: RequestView) => {
        viewed++;
        expect(context.sessions.of(request)).toBeUndefined();
      };
      return Object.assign(lru.create(context), { begin });
    },
  };
  replayed({ ...plain, optional: { ...plain.optional, session } }, { eviction, blocks: 1000, events });
  expect(viewed).toBe(plain.requestCount);
});

test("kvlab check passes signals to the policy", async () => {
  const received = new Set<SignalName>();
  const eviction: EvictionPlugin = {
    ...lru,
    name: "receiving",
    create: (context) => Object.assign(lru.create(context), { signal: ({ name }: Signal) => void received.add(name) }),
  };
  await checkPlugin(eviction, { runs: 20 });
  expect([...received].sort()).toEqual(["close", "drop", "expect", "keep", "pause", "resume"]);
});

test("signals about sessions that a cache does not have, or whose requests run, have no effect", () => {
  const live = new LiveCache({ eviction: "session-refs" });
  const { sessions } = live.cache;
  const [known, other] = [live.request("aaaa", { session: 1 }), live.request("bbbb", { session: 2 })];
  expect(sessions.close(known, false, 0)).toBe("no such session");
  expect(sessions.pause(live.request("cccc"), 1, 0)).toBe("no such session");
  live.replica.submit(known, live.now);
  expect(sessions.pause(known, 1, 0)).toBe("in use");
  expect(sessions.resume(known, 0)).toBe("in use");
  expect(sessions.close(other, true, 0)).toBe("no such session");
  live.finish();
  expect(sessions.pause(known, 1, 0)).toBe("sent");
  expect(sessions.of(known)).toMatchObject({ number: 0, state: "paused", tool: 1 });
  expect(sessions.resume(known, 0)).toBe("sent");
  expect(sessions.close(known, false, 0)).toBe("sent");
  expect(sessions.of(known)).toBeUndefined();
  expect(sessions.resume(known, 0)).toBe("no such session");
});

test("without a policy that receives signals, results of operations do not depend on the event log", () => {
  const live = new LiveCache();
  const request = live.request("aaaa", { session: 1 });
  for (const log of [undefined, new EventLog()]) {
    const sessions = new ClientSessions(log);
    const results = () => [
      sessions.pause(request, 1, 0),
      sessions.resume(request, 0),
      sessions.expect(request, 1, 1, 0),
      sessions.keep(request, 1, 0),
      sessions.close(request, true, 0),
    ];
    const ignored = Array<string>(5).fill("ignored by the eviction policy");
    // The session has not begun; its request is running; the request has ended; the session is closed.
    expect(results()).toEqual(ignored);
    sessions.arrived(request, 0);
    expect(results()).toEqual(ignored);
    sessions.ended(request, 0);
    expect(results()).toEqual(ignored);
    expect(results()).toEqual(ignored);
  }
});

test("an event of a signal is a sentence with its session", () => {
  const log = new EventLog();
  log.signal(0, 7, 3, "pause");
  log.signal(0, 8, 3, "resume");
  log.signal(0, -1, 3, "drop");
  log.signal(0, 9, 0, "keep");
  const names = { content: String, blocks: String };
  const sentences = Array.from(log.events(), (event) => sentenceOf({ event, users: undefined }, names));
  expect(sentences).toEqual([
    "request 7 pauses session 3 for a tool call",
    "request 8 resumes session 3",
    "a client closes session 3, whose entries may be dropped",
    "request 9 requests that the cache keeps a prefix",
  ]);
});

test("separate prefill and decode replicas are refused with a policy that receives signals", () => {
  const [trace] = tracesOf([{ at: 0, prompt: [1, 2, 3], output: 2 }]);
  const disaggregation = { prefillReplicas: 1, decodeReplicas: 1 };
  const config = simulationConfigOf({ blocks: 20, cost: linearCost({ fixed: 10 }) });
  const own = { ...config, eviction: sessionRefs, replicas: 2, disaggregation } as unknown as typeof config;
  expect(() => simulate(trace, own)).toThrow(
    "eviction policy session-refs uses signals about sessions, which separate prefill and decode replicas do not support",
  );
});
