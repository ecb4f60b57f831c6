import { describe, expect, test } from "vitest";
import { Prompts, replicaOf, routed, routerOf } from "./replicas.ts";

describe("round-robin", () => {
  test("chooses the replicas in turn, regardless of load", () => {
    const [loaded, idle] = [{ waiting: 9 }, 0];
    expect(routed(routerOf("round-robin", 3), Array(7).fill(["a", [loaded, idle, idle]]))).toEqual([
      0, 1, 2, 0, 1, 2, 0,
    ]);
  });
});

describe("least-loaded", () => {
  test("chooses the replica with the fewest requests, of equals the first", () => {
    const to = routed(routerOf("least-loaded", 3), [
      ["a", [0, 0, 0]],
      ["a", [1, 0, 0]],
      ["a", [{ waiting: 1 }, { running: 2 }, { waiting: 1, running: 1 }]], // 1, 2, 2
      ["a", [{ waiting: 3 }, { running: 3 }, { waiting: 1, running: 1 }]], // 3, 3, 2
      ["a", [5, 4, 4]],
    ]);
    expect(to).toEqual([0, 1, 0, 2, 1]);
  });
});

describe("vllm-dp", () => {
  test("a waiting request weighs as much as four running ones, and numbers are up to 100 ms old", () => {
    const router = routerOf("vllm-dp", 2);
    const at = (nowMs: number, loads: Parameters<typeof routed>[1][number][1]) =>
      routed({ route: (request, replicas) => router.route(request, replicas, nowMs * 1e6) }, [["a", loads]])[0];
    expect(at(0, [{ waiting: 1 }, { running: 3 }])).toBe(1); // 4, 3
    expect(at(10, [0, { running: 4 }])).toBe(0); // 4, 7 of then: not yet updated
    expect(at(20, [0, { running: 4 }])).toBe(1); // 8, 7
    expect(at(100, [0, { running: 4 }])).toBe(0); // 0, 4
    expect(at(101, [0, { running: 4 }])).toBe(0); // 4, 4
  });
});

describe("random", () => {
  test("chooses three replicas about equally often", () => {
    const counts = [0, 0, 0];
    const router = routerOf("random", 3);
    for (const to of routed(router, Array(3000).fill(["a", [9, 0, 0]]))) counts[to]++;
    // Standard deviation √(3000 · 1/3 · 2/3) = 26.
    for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(130);
  });
});

describe("power-of-two", () => {
  test("never chooses the most loaded of three, and the least loaded in two of three cases", () => {
    // Pairs {0, 1}, {0, 2}, {1, 2} are as likely: replica 2 wins in the last two, replica 1 in the first.
    const counts = [0, 0, 0];
    for (const to of routed(routerOf("power-of-two", 3), Array(3000).fill(["a", [9, 5, 0]]))) counts[to]++;
    expect(counts[0]).toBe(0);
    expect(Math.abs(counts[2] - 2000)).toBeLessThan(130);
  });

  test("chooses either of two equals", () => {
    const to = new Set(routed(routerOf("power-of-two", 2), Array(50).fill(["a", [3, 3]])));
    expect(to.size).toBe(2);
  });
});

describe("session-affinity", () => {
  test("a session stays with the replica of its first request, the least loaded one at that time", () => {
    const to = routed(routerOf("session-affinity", 3), [
      ["a", [2, 1, 3], { session: 1 }], // least loaded: 1
      ["a", [0, 1, 3], { session: 2 }], // 0
      ["a", [0, 9, 0], { session: 1 }], // stays, although full
      ["a", [0, 9, 0], { session: 0 }], // no session: 0
      ["a", [4, 9, 0], { session: 0 }], // no session: 2, the least loaded
      ["a", [4, 9, 0], { session: 2 }], // stays
      ["a", [4, 9, 0], { session: 3 }], // 2
    ]);
    expect(to).toEqual([1, 0, 1, 0, 2, 0, 2]);
  });

  test("of equally loaded replicas the one with the fewest sessions gets the next session", () => {
    const idle = [0, 0, 0];
    const to = routed(routerOf("session-affinity", 3), [
      ["a", idle, { session: 1 }], // 0
      ["a", idle, { session: 2 }], // 1
      ["a", [1, 1, 0], { session: 3 }], // 2
      ["a", [1, 0, 0], { session: 4 }], // 1, which has as many sessions as 2
      ["a", idle, { session: 5 }], // 0
      ["a", idle, { session: 6 }], // 2 has one session, the others two
    ]);
    expect(to).toEqual([0, 1, 2, 1, 0, 2]);
  });

  test("equal session ids of two namespaces are different sessions", () => {
    const router = routerOf("session-affinity", 2);
    const to = routed(router, [
      ["a", [0, 1], { session: 1, namespace: 1 }],
      ["a", [1, 0], { session: 1, namespace: 2 }],
      ["a", [1, 0], { session: 1, namespace: 1 }],
    ]);
    expect(to).toEqual([0, 1, 0]);
  });
});

test("an option that a router does not have, or a value out of range, is refused by name", () => {
  expect(() => routerOf("prefix-affinity", 2, { "cache-treshold": 0.5 })).toThrow(
    'router prefix-affinity has no option "cache-treshold": did you mean "cache-threshold"?',
  );
  expect(() => routerOf("round-robin", 2, { speed: 1 })).toThrow(
    'router round-robin has no option "speed": it has none',
  );
  expect(() => routerOf("prefix-affinity", 2, { "cache-threshold": 2 })).toThrow(
    "option cache-threshold of prefix-affinity is 2, expected a number from 0 to 1",
  );
  expect(() => routerOf("consistent-hash", 2, { replication: 1.5 })).toThrow(
    "option replication of consistent-hash is 1.5, expected a whole number from 1 to 4096",
  );
});

test("routers have a random stream of their own", () => {
  const prompts = new Prompts();
  const router = routerOf("random", 1000, { seed: 5 });
  const other = routerOf("random", 1000, { seed: 6 });
  const replicas = Array.from({ length: 1000 }, () => replicaOf(0));
  const draw = (from: typeof router) => Array.from({ length: 10 }, () => from.route(prompts.request("a"), replicas, 0));
  expect(draw(router)).not.toEqual(draw(other));
});
