import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { evictionRegistry, indexRegistry } from "../../policies/registry.ts";
import { runs, scenarios, weakHash } from "./configs.ts";
import { oneAtATime } from "./recorder.ts";
import { play } from "./scenario.ts";

// Requests that overlap in every way: admitted, computed in chunks, answered, preempted, refused, steps that do not
// happen. After every operation the cache is audited, counted a second time from its log and compared with the naive
// model; every step reads what is really in the blocks.

describe.each(evictionRegistry.all.map((plugin) => [plugin.name, plugin] as const))("with %s", (_name, eviction) => {
  // An unlimited pool is larger than any of these traces needs, and checked block by block all the same.
  const share = eviction.unlimited ? 0.2 : 1;

  test("every law holds after every operation", () => {
    fc.assert(
      fc.property(scenarios({ evictions: [eviction] }), (scenario) => {
        play(scenario);
      }),
      { numRuns: runs(100 * share) },
    );
  });

  test("an admission that fails leaves no trace, however often it is tried", () => {
    fc.assert(
      fc.property(scenarios({ evictions: [eviction] }), (scenario) => {
        expect(play({ ...scenario, insist: 3 }).log).toEqual(play(scenario).log);
      }),
      { numRuns: runs(25 * share) },
    );
  });

  test("without its batch methods, without log and checks, it decides the same", () => {
    fc.assert(
      fc.property(scenarios({ evictions: [eviction] }), (scenario) => {
        const { config } = scenario;
        const plain = play({ ...scenario, checked: false });
        const single = { ...config, eviction: oneAtATime(eviction) };
        expect(play({ ...scenario, config: single, checked: false }).decisions).toEqual(plain.decisions);
        expect(play({ ...scenario, peek: false }).decisions).toEqual(plain.decisions);
      }),
      { numRuns: runs(25 * share) },
    );
  });
});

describe.each(indexRegistry.all.map((plugin) => [plugin.name, plugin] as const))("with index %s", (_name, index) => {
  test("where nearly all hashes collide, nothing is decided differently", () => {
    fc.assert(
      fc.property(scenarios({ indexes: [index], hash: weakHash }), (scenario) => {
        const { hash: _hash, ...config } = scenario.config;
        expect(play(scenario).log).toEqual(play({ ...scenario, config }).log);
      }),
      { numRuns: runs(30) },
    );
  });
});
