import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { EventKind } from "../../core/log/events.ts";
import { acceptedTokens } from "../../core/replica/speculation.ts";
import { Recount } from "../../laws/recount.ts";
import {
  costs,
  everythingOf,
  linearCost,
  linesOf,
  type OwnSimulation,
  outcome,
  type Row,
  settings,
  simulated,
  totalOf,
  workloads,
} from "../support/simulated.ts";

const speculations = fc.record({
  tokens: fc.integer({ min: 1, max: 6 }),
  acceptance: fc.constantFrom(0, 0.3, 0.7, 1),
  seed: fc.nat(100),
});

const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);

describe("worked", () => {
  test("with 3 drafts that are all accepted, 12 output tokens after the first take 3 steps", () => {
    const rows: Row[] = [{ prompt: 4, output: 13 }];
    const own: OwnSimulation = { cost: linearCost({ fixed: 10 }), speculation: { tokens: 3, acceptance: 1, seed: 1 } };
    expect(outcome(simulated(rows, own), "finishedNs")).toEqual([40]);
    // Drafts cost a tenth of a decode step each: 10 + 3 · 1 ns for each of the three decodes.
    expect(outcome(simulated(rows, { ...own, draft: { share: 0.1 } }), "finishedNs")).toEqual([49]);
    const slow = { cost: linearCost({ fixed: 5 }) };
    expect(outcome(simulated(rows, { ...own, draft: slow }), "finishedNs")).toEqual([40 + 9 * 5]);
  });

  test("a block that has only rejected tokens is dropped after the step, and is never published", () => {
    const simulation = simulated([{ prompt: 4, output: 8 }], {
      ...{ speculation: { tokens: 4, acceptance: 0, seed: 1 }, events: true, audit: true },
      rules: { "cache-generated": "true", publish: "allocation" },
    });
    const lines = linesOf(simulation).filter((line) => /allocate|trim|step|publish/.test(line));
    // Token 4 and its drafts 5 to 8 are in two new blocks, of which the second one has drafts only.
    expect(lines.slice(0, 9)).toEqual([
      "0 allocate 0 0 -1 0",
      "0 publish 0 0 0 0",
      "1 step -1 -1 1 4",
      "1 allocate 0 1 -1 1",
      "1 allocate 0 2 -1 2",
      "2 step -1 -1 1 5",
      "2 trim 0 -1 2 2",
      "2 allocate 0 2 -1 2",
      "3 step -1 -1 1 5",
    ]);
    // Seven output tokens have KV: one whole block.
    expect(lines.filter((line) => line.includes("publish"))).toHaveLength(2);
  });

  test("with reserve=worst-case a block that has only rejected tokens stays allocated for the output", () => {
    const simulation = simulated([{ prompt: 4, output: 8 }], {
      ...{ speculation: { tokens: 4, acceptance: 0, seed: 1 }, events: true, audit: true },
      rules: { reserve: "worst-case" },
    });
    const lines = linesOf(simulation).filter((line) => /allocate|trim/.test(line));
    // Prompt and output have 12 tokens: three blocks, all of them allocated at admission.
    expect(lines).toEqual(["0 allocate 0 0 -1 0", "0 allocate 0 1 -1 1", "0 allocate 0 2 -1 2"]);
  });

  test("the accepted tokens of a long output have the expected mean", () => {
    for (const acceptance of [0.3, 0.7, 0.9]) {
      const speculation = { tokens: 4, acceptance, seed: 7 };
      const simulation = simulated(
        [
          { prompt: 4, output: 1, maxOutput: 1 },
          { prompt: 4, output: 20_000 },
        ],
        {
          ...{ scheduler: "fcfs-chunked", speculation, blockTokens: 16 },
        },
      );
      const { accepted, decodes } = simulation.replicas[0].replica.drafts;
      const expected = (1 - acceptance ** 5) / (1 - acceptance);
      expect((accepted + decodes) / decodes).toBeCloseTo(expected, 1);
    }
  });

  test("whether a draft token is accepted depends on the seed, the request and its position only", () => {
    const all = { tokens: 8, acceptance: 0.5, seed: 3 };
    for (let position = 1; position < 50; position++) {
      const accepted = acceptedTokens(all, 5, position, 8);
      expect(acceptedTokens(all, 5, position, 4)).toBe(Math.min(4, accepted));
      if (accepted > 0) expect(acceptedTokens(all, 5, position + 1, 7)).toBe(accepted - 1);
    }
  });
});

describe("laws", () => {
  test("every request ends once with all of its tokens, no block leaks, and the log can be recounted", () => {
    let trimmed = 0;
    fc.assert(
      fc.property(workloads(), costs, settings, speculations, (rows, cost, own, speculation) => {
        const ends = rows.map(() => 0);
        const tokens = rows.map(() => 0);
        const simulation = simulated(rows, {
          ...{ ...own, speculation, cost: linearCost(cost), draft: { share: 0.2 }, audit: true },
          observers: [
            {
              ended: ({ request: { id }, generatedTokens }) => {
                ends[id]++;
                tokens[id] = generatedTokens;
              },
            },
          ],
        });
        expect(ends.every((count) => count === 1)).toBe(true);
        const refused = outcome(simulation, "refused");
        const output = outcome(simulation, "outputTokens");
        output.forEach((count, id) => {
          if (refused[id] === 0) expect(tokens[id]).toBe(count);
        });
        expect(totalOf(simulation, "generatedTokens")).toBe(sum(tokens));
        const [{ cache, log, replica }] = simulation.replicas;
        expect(cache.referencedBlocks).toBe(0);
        expect(replica.drafts.accepted).toBeLessThanOrEqual(replica.drafts.tokens);
        const ignore = () => {};
        const recount = new Recount(log!, {
          ...{ allocated: ignore, published: ignore, hit: ignore, released: ignore, removed: ignore, ended: ignore },
        });
        recount.catchUp();
        recount.compare(cache);
        for (const kind of log!.columns().kind) if (kind === EventKind.trim) trimmed++;
      }),
      { numRuns: 500 },
    );
    expect(trimmed).toBeGreaterThan(200);
  });

  test("two runs are equal, also if every step is planned; no draft and acceptance 0 generate the same steps", () => {
    fc.assert(
      fc.property(workloads(), costs, settings, speculations, (rows, cost, own, speculation) => {
        const config = { ...own, speculation, cost: linearCost(cost) };
        const once = everythingOf(simulated(rows, config));
        expect(everythingOf(simulated(rows, { ...config, everyStep: true }))).toEqual(once);
        // Without a limit of blocks, rejected drafts have no effect on any decision.
        const { blocks: _, ...unlimited } = own;
        const fixed = { ...unlimited, cost: linearCost({ fixed: 7 }) };
        const rejected = simulated(rows, { ...fixed, speculation: { ...speculation, acceptance: 0 } });
        const plain = simulated(rows, fixed);
        expect(outcome(rejected, "finishedNs")).toEqual(outcome(plain, "finishedNs"));
        expect(outcome(rejected, "hitTokens")).toEqual(outcome(plain, "hitTokens"));
      }),
      { numRuns: 200 },
    );
  });

  test("more accepted drafts never take more steps where blocks are unlimited", () => {
    fc.assert(
      fc.property(workloads({ maxRequests: 1 }), fc.integer({ min: 1, max: 6 }), (rows, tokens) => {
        const steps = [0, 0.5, 1].map((acceptance) => {
          const simulation = simulated(rows, { speculation: { tokens, acceptance, seed: 1 } });
          return simulation.replicas[0].stepCount;
        });
        expect(steps).toEqual(steps.toSorted((a, b) => b - a));
      }),
      { numRuns: 100 },
    );
  });
});
