import fc from "fast-check";
import { expect, test } from "vitest";
import { blocksOf } from "../../../core/cache/request.ts";
import type { SchedulerContext, SchedulerPlugin, SequenceView } from "../../../core/plugins/index.ts";
import { presetRegistry } from "../../../policies/registry.ts";
import { runs } from "../../laws/all-plugins.ts";
import { type SteppedConfig, stepped } from "../../support/stepped.ts";

/** Takes random decisions, with preemptions and swaps at any time, for a number of steps; then serves all in order. */
function erratic(decisions: readonly number[]): SchedulerPlugin {
  return {
    name: "erratic",
    about: "",
    source: "",
    create() {
      let at = 0;
      const next = (below: number) => (at < decisions.length ? decisions[at++] % below : undefined);
      const preempt = (context: SchedulerContext, sequence: SequenceView, how: number) => {
        const fits = blocksOf(sequence.computedTokens, context.blockTokens) <= context.freeHostBlocks;
        context.preempt(sequence, fits && how % 3 > 0 ? "swap" : "recompute", how % 4 === 0 ? "tail" : "head");
      };
      const act = (context: SchedulerContext, act: number) => {
        const { running } = context;
        const some = running[(next(97) ?? 0) % Math.max(1, running.length)];
        const first = context.firstWaiting;
        const tokens = 1 + (next(9) ?? 8);
        if (act < 3 && some && !some.inStep) context.schedule(some, tokens);
        else if (act < 6 && first) context.admit(first, act === 3 ? undefined : tokens, act === 4 ? 1 : 0);
        else if (act < 8 && some) preempt(context, some, next(12) ?? 0);
        else if (first) context.deletePrefix(first.request);
      };
      return {
        plan(context) {
          for (let some = next(6) ?? 0; some > 0 && at < decisions.length; some--) act(context, next(9) ?? 0);
          inOrder(context);
        },
      };
    },
  };
}

/** Schedules all requests in order, so that the step is not empty. */
function inOrder(context: SchedulerContext): void {
  const { running } = context;
  for (let i = 0; i < running.length; i++) if (running[i].inStep) return;
  for (let sequence = running[0]; sequence; sequence = running[0]) {
    if (context.schedule(sequence)) return;
    if (running.length === 1) context.refuse(sequence, "too few blocks");
    else context.preempt(running[running.length - 1], "recompute");
  }
  for (let first = context.firstWaiting; first; first = context.firstWaiting) {
    if (context.admit(first)) return;
    context.refuse(first, "too few blocks");
  }
}

const cases: fc.Arbitrary<Omit<SteppedConfig, "scheduler"> & { decisions: number[] }> = fc.record({
  decisions: fc.array(fc.nat(1000), { maxLength: 200, size: "max" }),
  blocks: fc.integer({ min: 2, max: 24 }),
  blockTokens: fc.integer({ min: 1, max: 4 }),
  hostBlocks: fc.integer({ min: 0, max: 16 }),
  preset: fc.constantFrom(...presetRegistry.all),
  requests: fc.array(
    fc
      .record({
        input: fc.integer({ min: 1, max: 20 }),
        output: fc.integer({ min: 1, max: 12 }),
        shared: fc.integer({ min: 0, max: 20 }),
        session: fc.integer({ min: 0, max: 2 }),
      })
      .map(({ shared, ...one }) => {
        const common = Math.min(shared, one.input);
        return { ...one, prefix: ["P", common] as const, marked: common };
      }),
    { minLength: 1, maxLength: 8 },
  ),
});

test("swaps at any time lose nothing: requests continue at their positions, and blocks in host memory add up", () => {
  let swaps = 0;
  fc.assert(
    fc.property(cases, ({ decisions, ...config }) => {
      const run = stepped({
        ...config,
        scheduler: erratic(decisions),
        planned(plan, replica) {
          let used = 0;
          for (let one: SequenceView | undefined = replica.firstWaiting; one; one = one.next)
            used += blocksOf(one.swappedTokens, replica.blockTokens);
          expect(replica.freeHostBlocks).toBe(replica.hostBlocks - used);
          if (plan.swappedTokens > 0) swaps++;
          for (const { sequence, from, tokens } of plan.items.slice(0, plan.count)) {
            // Tokens before those of the step are computed, or swapped in by this step.
            expect(from + tokens).toBe(sequence.computedTokens + sequence.stepTokens);
            expect(from + tokens).toBeLessThanOrEqual(sequence.knownTokens);
          }
        },
      });
      expect(run.finished.length + Object.keys(run.refused).length).toBe(config.requests.length);
      for (const { id, output } of config.requests.map((one, i) => ({ ...one, id: i })))
        if (run.finished.includes(String.fromCharCode(65 + id))) expect(run.generated[id]).toBe(output);
      expect(run.replica.freeHostBlocks).toBe(config.hostBlocks);
      for (let block = 0; block < config.blocks!; block++) expect(run.cache.pool.refCountOf(block)).toBe(0);
    }),
    { numRuns: runs(600) },
  );
  expect(swaps).toBeGreaterThan(100);
});
