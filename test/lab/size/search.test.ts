import fc from "fast-check";
import { expect, test } from "vitest";
import { type Choice, cheapest, compareChoices, type Probe, type SearchOption } from "../../../lab/size/search.ts";

/** An option with the smallest number of replicas that meets the SLO, of itself and with an unlimited cache. */
interface Known extends SearchOption {
  readonly needed: number;
  readonly neededUnlimited: number;
}

const most = 16;

/** Grids of hardware, routers and eviction policies. */
const grids = fc
  .record({
    prices: fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 4 }),
    routers: fc.integer({ min: 1, max: 3 }),
    evictions: fc.integer({ min: 1, max: 4 }),
    needed: fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 48, maxLength: 48 }),
    gains: fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 48, maxLength: 48 }),
  })
  .map(({ prices, routers, evictions, needed, gains }): Known[] =>
    prices.flatMap((replicaCost, hardware) =>
      Array.from({ length: routers }, (_, router) => {
        const relaxed = hardware * routers + router;
        const neededUnlimited = needed[relaxed];
        return Array.from({ length: evictions }, (_, e) => ({
          ...{ replicaCost, hardware, relaxed, most, neededUnlimited, order: routers - router },
          fewest: Math.max(1, neededUnlimited - 5),
          needed: neededUnlimited + gains[relaxed * evictions + e],
        }));
      }).flat(),
    ),
  );

/** A ratio to the limit that falls with the replicas, and is at most 1 if and only if they are enough. */
const worstOf = (needed: number, replicas: number) => needed / replicas;

const results = (options: readonly Known[]) => (probes: readonly Probe[]) =>
  probes.map(({ option, replicas, unlimited }) => {
    const { needed, neededUnlimited } = options[option];
    const worst = worstOf(unlimited ? neededUnlimited : needed, replicas);
    // A gross estimate changes the simulations, not the choice.
    return { met: worst <= 1, worst, isUnlimited: needed === neededUnlimited, needed: (needed * 7) % 11 };
  });

/** Every option with every number of replicas. */
function bruteForce(options: readonly Known[]): Choice | undefined {
  const all = options.flatMap(({ needed, replicaCost }, option) =>
    Array.from({ length: most }, (_, i) => ({
      ...{ option, replicas: i + 1, cost: replicaCost * (i + 1), worst: worstOf(needed, i + 1) },
    })),
  );
  const [best] = all.filter(({ worst }) => worst <= 1).sort(compareChoices);
  return best && { option: best.option, replicas: best.replicas };
}

test("the search chooses what brute force does, with a fifth of the simulations on small grids", async () => {
  let [none, simulated, all] = [0, 0, 0];
  await fc.assert(
    fc.asyncProperty(grids, async (options) => {
      const probed = new Set<string>();
      const chosen = await cheapest(options, async (probes) => {
        for (const probe of probes) {
          expect(probe.replicas).toBeGreaterThanOrEqual(1);
          expect(probe.replicas).toBeLessThanOrEqual(most);
          probed.add(JSON.stringify(probe));
        }
        return results(options)(probes);
      });
      expect(chosen).toEqual(bruteForce(options));
      none += Number(chosen === undefined);
      simulated += probed.size;
      all += options.length * most;
    }),
    { numRuns: 1000 },
  );
  expect(none).toBeGreaterThan(10);
  expect(simulated / all).toBeLessThan(0.2);
});

test("in a grid of 36 combinations and 16 counts it simulates less than a tenth", async () => {
  const options: Known[] = [3, 4, 7, 8].flatMap((replicaCost, hardware) =>
    [5, 4, 3].flatMap((neededUnlimited, router) =>
      [1, 1, 0].map((gain) => ({
        ...{ replicaCost, hardware, relaxed: 3 * hardware + router, most, fewest: 1, order: 0 },
        ...{ needed: neededUnlimited + gain + hardware, neededUnlimited: neededUnlimited + hardware },
      })),
    ),
  );
  const probed = new Set<string>();
  const chosen = await cheapest(options, async (probes) => {
    for (const probe of probes) probed.add(JSON.stringify(probe));
    return results(options)(probes);
  });
  expect(chosen).toEqual(bruteForce(options));
  expect(probed.size).toBeLessThan((options.length * most) / 10);
});
