import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ReplicaView, Router } from "../../../core/plugins/index.ts";
import { Prompts, replicaOf, routerOf } from "./replicas.ts";

const unbounded = { "mean-load-factor": 0 };
const idle = (count: number): ReplicaView[] => Array.from({ length: count }, () => replicaOf(0));

/** The replica of each of `count` different prompts. */
function placesOf(router: Router, replicas: readonly ReplicaView[], count: number): number[] {
  const prompts = new Prompts();
  return Array.from({ length: count }, (_, i) =>
    router.route(prompts.request(String.fromCharCode(0x4e00 + i)), replicas, 0),
  );
}

describe("the first blocks of a prompt determine the replica", () => {
  const prompts = new Prompts();
  const router = routerOf("consistent-hash", 64, { ...unbounded, "prefix-blocks": 2 });
  const to = (letters: string) => router.route(prompts.request(letters), idle(64), 0);

  test("prompts with the same first two blocks are routed to one replica", () => {
    expect(new Set(["ab", "abc", "abd", "abdefgh"].map(to)).size).toBe(1);
  });

  test("a shorter prompt is hashed completely", () => {
    expect(to("a")).toBe(to("a"));
    // 20 prompts of one block, and 20 that continue differently after an "a", are not all on one of 64 replicas.
    expect(new Set(Array.from("abcdefghijklmnopqrst", to)).size).toBeGreaterThan(8);
    expect(new Set(Array.from("bcdefghijklmnopqrstu", (letter) => to(`a${letter}`))).size).toBeGreaterThan(8);
  });

  test("a prompt without a full block is routed to the least loaded replica", () => {
    expect(routerOf("consistent-hash", 3).route(prompts.request("", { more: 3 }), [2, 1, 1].map(replicaOf), 0)).toBe(1);
  });
});

test("prompts are distributed about evenly", () => {
  const counts = new Int32Array(8);
  for (const to of placesOf(routerOf("consistent-hash", 8, unbounded), idle(8), 16_000)) counts[to]++;
  // Shares of the ring vary by 1/√256 = 6 %, and counts of 2000 by 2 %.
  for (const count of counts) expect(Math.abs(count - 2000)).toBeLessThan(500);
});

test("an additional replica receives its share, and no prompt moves between the others", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), (count) => {
      const prompts = 2000;
      const before = placesOf(routerOf("consistent-hash", count, unbounded), idle(count), prompts);
      const after = placesOf(routerOf("consistent-hash", count + 1, unbounded), idle(count + 1), prompts);
      const moved = after.filter((to, i) => to !== before[i]);
      expect(new Set(moved)).toEqual(new Set([count]));
      const share = prompts / (count + 1);
      expect(Math.abs(moved.length - share)).toBeLessThan(0.3 * share + 4 * Math.sqrt(share));
    }),
    { numRuns: 20 },
  );
});

describe("bounded loads", () => {
  // Hand-worked for three replicas at 125 %: a replica has at most ⌈1.25 · (requests + 1) / 3⌉, the new one included.
  const prompts = new Prompts();
  const router = routerOf("consistent-hash", 3);
  const place = routerOf("consistent-hash", 3, unbounded).route(prompts.request("ab"), idle(3), 0);
  const others = [0, 1, 2].filter((i) => i !== place);
  const route = (own: number, first: number, second: number) => {
    const loads = [0, 0, 0];
    [loads[place], loads[others[0]], loads[others[1]]] = [own, first, second];
    return router.route(prompts.request("ab"), loads.map(replicaOf), 0);
  };

  test("a replica at capacity gets no more requests", () => {
    expect(route(0, 0, 0)).toBe(place);
    expect(route(1, 0, 0)).not.toBe(place); // ⌈1.25 · 2 / 3⌉ = 1
    expect(route(1, 1, 0)).toBe(place); // ⌈1.25 · 3 / 3⌉ = 2
    expect(route(4, 3, 2)).toBe(place); // ⌈1.25 · 10 / 3⌉ = 5
    expect(route(5, 3, 2)).not.toBe(place); // ⌈1.25 · 11 / 3⌉ = 5
  });

  test("the next replica on the ring below capacity gets the request", () => {
    const next = route(9, 0, 0);
    expect(others).toContain(next);
    const last = others[0] === next ? others[1] : others[0];
    const loads = [0, 0, 0];
    [loads[place], loads[next], loads[last]] = [9, 9, 0];
    expect(router.route(prompts.request("ab"), loads.map(replicaOf), 0)).toBe(last);
  });

  test("no replica exceeds its capacity, however popular a prompt is", () => {
    const factor = fc.integer({ min: 100, max: 300 });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 8 }),
        factor,
        fc.array(fc.nat(2), { maxLength: 80 }),
        (count, c, popular) => {
          const bounded = routerOf("consistent-hash", count, { "mean-load-factor": c, replication: 8 });
          const loads = new Int32Array(count);
          popular.forEach((prompt, sent) => {
            const to = bounded.route(prompts.request("xyz"[prompt]), Array.from(loads, replicaOf), 0);
            loads[to]++;
            expect(loads[to]).toBeLessThanOrEqual(Math.ceil((c * (sent + 1)) / (100 * count)));
          });
        },
      ),
    );
  });

  test("if no replica is below capacity, the hash decides", () => {
    const tight = routerOf("consistent-hash", 3, { "mean-load-factor": 1 });
    expect(tight.route(prompts.request("ab"), [5, 5, 5].map(replicaOf), 0)).toBe(place);
  });
});
