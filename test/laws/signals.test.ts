import { describe, expect, test, vi } from "vitest";
import { ClientSessions } from "../../core/cache/client-sessions.ts";
import { KvCache } from "../../core/cache/kv-cache.ts";
import type { EvictionPlugin, Signal, SignalName } from "../../core/plugins/index.ts";
import { linesOf } from "../../laws/log-lines.ts";
import type { Trial } from "../../laws/trial.ts";
import { evictionTrials } from "../../laws/trials.ts";
import { evictionRegistry } from "../../policies/registry.ts";
import { goldenTrace } from "../golden/golden-trace.ts";
import { LiveCache } from "../support/live-cache.ts";
import { replayed } from "../support/replays.ts";
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
