import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type {
  PlanValidity,
  PluginOption,
  Scheduler,
  SchedulerContext,
  SchedulerPlugin,
} from "../../../core/plugins/index.ts";
import type { RuleName, RuleValue } from "../../../core/plugins/rules.ts";
import type { StepPlan } from "../../../core/replica/step.ts";
import { presetRegistry, schedulerRegistry } from "../../../policies/registry.ts";
import { runs } from "../../laws/all-plugins.ts";
import { nameOf, type SteppedConfig, type SteppedRequest, type SteppedRun, stepped } from "../../support/stepped.ts";

// Every scheduler serves random requests in small caches; these are properties of all schedulers.

/** Options that bound a step or the running requests, with the steps to which they apply. */
const bounds: Record<string, (plan: StepPlan, most: number, running: number, scheduler: string) => boolean> = {
  "max-num-batched-tokens": ({ count, prefillTokens, decodeTokens }, most, _running, scheduler) =>
    // A longer prompt is computed in a step of its own.
    scheduler === "fcfs" ? prefillTokens <= most || count === 1 : prefillTokens + decodeTokens <= most,
  "max-num-seqs": (_plan, most, running) => running <= most,
  "batch-size": (_plan, most, running) => running <= most,
  // Roseinfer's option bounds a step; TGI's the running requests, and 0 means as many as fit.
  "max-batch-size": ({ count }, most, running, scheduler) =>
    scheduler === "online" ? count <= most : most === 0 || running <= most,
  "max-running-requests": (_plan, most, running) => running <= most,
  "running-max-req-size": (_plan, most, running) => running <= most,
};

const request: fc.Arbitrary<SteppedRequest & { gap: number }> = fc
  .record({
    gap: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 8 })),
    input: fc.integer({ min: 1, max: 24 }),
    output: fc.integer({ min: 1, max: 14 }),
    more: fc.integer({ min: 0, max: 6 }),
    prefix: fc.tuple(fc.constantFrom("P", "Q"), fc.integer({ min: 0, max: 24 })),
    priority: fc.integer({ min: 0, max: 2 }),
    session: fc.integer({ min: 0, max: 3 }),
    marked: fc.integer({ min: 0, max: 24 }),
  })
  .map(({ more, marked, ...one }) => ({
    ...one,
    maxOutput: one.output + more,
    prefix: [one.prefix[0], Math.min(one.input, one.prefix[1])] as const,
    marked: Math.min(one.input, marked),
  }));

/** The default, or a number near the minimum. */
const valueFor = ({
  default: usual,
  min: least = 0,
  max: most = least + 12,
  fraction,
}: PluginOption): fc.Arbitrary<number> =>
  fc.oneof(
    fc.constant(usual),
    fraction
      ? fc.integer({ min: 0, max: 8 }).map((n) => least + ((Math.min(most, least + 1) - least) * n) / 8)
      : fc.integer({ min: least, max: Math.min(most, least + 12) }),
  );

/** Rules of the hash table that determine when blocks are allocated and matched. */
const rules = fc.record<Partial<Record<RuleName, RuleValue>>>({
  publish: fc.constantFrom("allocation", "step", "chunk", "finish"),
  reserve: fc.constantFrom("grow", "worst-case"),
  "cache-generated": fc.constantFrom("false", "true"),
  "match-limit": fc.constantFrom("all", "l-1"),
});

function cases(scheduler: SchedulerPlugin): fc.Arbitrary<SteppedConfig> {
  const options = Object.fromEntries(
    Object.entries(scheduler.options ?? {}).map(([name, option]) => [name, valueFor(option)]),
  );
  return fc
    .record({
      options: fc.record(options),
      blocks: fc.oneof(fc.integer({ min: 1, max: 24 }), fc.constant(undefined)),
      blockTokens: fc.integer({ min: 1, max: 4 }),
      hostBlocks: fc.integer({ min: 0, max: 12 }),
      cache: fc.oneof(
        rules.map((own) => ({ rules: own })),
        fc.constantFrom(...presetRegistry.all).map((preset) => ({ preset })),
      ),
      requests: fc.array(request, { minLength: 1, maxLength: 12, size: "max" }),
    })
    .map(({ cache, requests, ...one }) => {
      let arrival = 0;
      return {
        ...one,
        ...cache,
        scheduler,
        requests: requests.map(({ gap, ...each }) => ({ ...each, arrival: (arrival += gap) })),
      };
    });
}

/** The position of each request in its tokens; every step continues at the end of the previous one. */
class Places {
  readonly #at = new Map<number, number>();
  readonly #preemptions = new Map<number, number>();

  follow(plan: StepPlan): void {
    for (const { sequence, from, tokens, prefill, generate } of plan.items.slice(0, plan.count)) {
      const { id, inputTokens } = sequence.request;
      const before = this.#preemptions.get(id) === sequence.preemptions ? this.#at.get(id) : undefined;
      if (before !== undefined) {
        expect(from, `${nameOf(id)} continues at its position`).toBe(before);
      } else if (sequence.preemptions === 0) {
        const { cachedTokens } = sequence;
        expect(cachedTokens).toBeLessThanOrEqual(inputTokens);
        if (from !== cachedTokens) expect([from, cachedTokens]).toEqual([inputTokens - 1, inputTokens]);
      }
      expect(from + tokens).toBeLessThanOrEqual(sequence.knownTokens);
      expect(generate).toBe(from + tokens === sequence.knownTokens ? 1 : 0);
      if (!prefill) expect(tokens).toBe(1);
      this.#preemptions.set(id, sequence.preemptions);
      this.#at.set(id, from + tokens);
    }
  }
}

function logOf({ log }: SteppedRun): string[] {
  return Array.from({ length: log.count }, (_, i) => log.line(i));
}

/** The complete state after a run. */
function stateOf(run: SteppedRun): unknown {
  const { cache, steps, stalls, finished, ends, refused, generated } = run;
  return {
    ...{ steps, stalls, finished, ends, refused, generated, log: logOf(run) },
    counters: { ...cache.counters },
    words: [...cache.pool.words],
    free: [...cache.freeList()],
    stored: [...cache.index.blocks()],
  };
}

/** Plans every step, and compares each with the plan before it as long as the replica states that one to be valid. */
function expectValidity(config: SteppedConfig): void {
  let valid = 0;
  let before: unknown;
  let operations = 0;
  const batchOf = ({ items, count }: StepPlan) =>
    items.slice(0, count).map(({ sequence, tokens, generate }) => [sequence.request.id, tokens, generate]);
  stepped({
    ...config,
    submitted() {
      valid = 0;
    },
    planned(plan, replica) {
      const batch = batchOf(plan);
      if (valid > 0) {
        expect([batch, replica.cache.entries.tick], "the valid plan is made again").toEqual([before, operations]);
      }
      before = batch;
    },
    committed(replica) {
      valid = Math.max(replica.repeatableSteps(), valid - 1);
      operations = replica.cache.entries.tick;
    },
  });
}

const many = { numRuns: runs(150) };

describe.each(schedulerRegistry.all.map((scheduler) => [scheduler.name, scheduler] as const))(
  "%s",
  (name, scheduler) => {
    test("every request finishes with its whole output or is refused with a reason, and no block stays referenced", () => {
      fc.assert(
        fc.property(cases(scheduler), (config) => {
          const places = new Places();
          const run = stepped({
            ...config,
            planned(plan, replica) {
              const ids = plan.items.slice(0, plan.count).map(({ sequence }) => sequence.request.id);
              expect(new Set(ids).size, "no request is in a step twice").toBe(ids.length);
              const running = new Set(replica.running.map(({ request }) => request.id));
              expect(
                ids.filter((id) => !running.has(id)),
                "only those that run are in a step",
              ).toEqual([]);
              places.follow(plan);
              for (const [option, isKept] of Object.entries(bounds)) {
                const most = config.options?.[option];
                if (most === undefined) continue;
                expect(isKept(plan, most, replica.running.length, name), `${option} ${most} is kept`).toBe(true);
              }
            },
          });
          const { requests } = config;
          const ended = [...run.finished, ...Object.keys(run.refused)].sort();
          expect(ended).toEqual(requests.map((_, id) => nameOf(id)).sort());
          requests.forEach(({ output }, id) => {
            if (nameOf(id) in run.refused) expect(run.refused[nameOf(id)]).toMatch(/\w+ \w+/);
            else expect(run.generated[id]).toBe(output);
          });
          expect(run.stalls, "no step is empty while a request waits").toEqual([]);
          const { pool } = run.cache;
          for (let block = 0; block < pool.blockCount; block++) expect(pool.refCountOf(block)).toBe(0);
          expect(run.replica.freeHostBlocks).toBe(config.hostBlocks);
        }),
        many,
      );
    });

    test("no request is refused that the cache could serve alone", () => {
      fc.assert(
        fc.property(cases(scheduler), (config) => {
          const run = stepped(config);
          const { blocks, blockTokens = 4 } = config;
          // A request that matches a part of a node protects all of it, and can be refused for that (TGI): corrections.test.ts.
          fc.pre(run.cache.rules["node-match"] !== "whole");
          for (const refused of Object.keys(run.refused)) {
            const id = config.requests.findIndex((_, i) => nameOf(i) === refused);
            const { input, output, maxOutput = output } = config.requests[id];
            const longest = run.cache.rules.reserve === "worst-case" ? maxOutput : output;
            expect(blocks).toBeLessThan(Math.ceil((input + longest - 1) / blockTokens));
          }
        }),
        many,
      );
    });

    test("the same requests have the same schedule in every run", () => {
      fc.assert(
        fc.property(cases(scheduler), (config) => {
          expect(stateOf(stepped(config))).toEqual(stateOf(stepped(config)));
        }),
        { numRuns: runs(30) },
      );
    });

    test("as long as a plan is valid, the next plans are the same", () => {
      fc.assert(
        fc.property(cases(scheduler), (config) => expectValidity(config)),
        many,
      );
    });

    test("a run that does not plan again while a plan is valid is the same as one that plans every step", () => {
      fc.assert(
        fc.property(cases(scheduler), (config) => {
          expect(stateOf(stepped({ ...config, repeats: true }))).toEqual(stateOf(stepped(config)));
        }),
        many,
      );
    });
  },
);

/** A scheduler with changed plans. */
const changed = (
  plugin: SchedulerPlugin,
  plan: (real: Scheduler, context: SchedulerContext) => PlanValidity,
): SchedulerPlugin => ({
  ...plugin,
  create(given) {
    const real = plugin.create(given);
    return {
      plan: (context) => plan(real, context),
      repeated: (steps) => real.repeated?.(steps),
      ...(real.arrived && { arrived: (sequence, now) => real.arrived!(sequence, now) }),
      finished: (sequence, now) => real.finished?.(sequence, now),
    };
  },
});

test("planted fault: a plan that depends on a scheduler's own counter is not valid until its inputs change", () => {
  let count = 0;
  const counting = changed(schedulerRegistry.get("fcfs-chunked"), (_real, context) => {
    const { running, firstWaiting } = context;
    if (firstWaiting && !context.admit(firstWaiting) && running.length === 0) context.refuse(firstWaiting, "too long");
    const most = ++count % 5 === 0 ? 1 : running.length;
    for (const each of running.slice(0, most)) if (!each.inStep) context.schedule(each);
    return "until-change";
  });
  const requests = [1, 2].map((input) => ({ input, output: 14 }));
  expect(() => expectValidity({ scheduler: counting, blocks: undefined, blockTokens: 16, requests })).toThrow(
    "the valid plan is made again",
  );
});

test.each(["naive", "fcfs", "fcfs-chunked", "priority", "session-priority", "shortest-prefill-first"])(
  "%s has no state that changes a plan: the recorded inputs and actions of its plans determine their validity",
  (name) => {
    const always = changed(schedulerRegistry.get(name), (real, context) => {
      real.plan(context);
      return "until-change";
    });
    const synchronous = cases(always).map((config) => ({
      ...config,
      options: { ...config.options, ...(always.options?.["async-scheduling"] && { "async-scheduling": 0 }) },
    }));
    fc.assert(fc.property(synchronous, expectValidity), many);
  },
);

test("a plan stays valid over many steps without decisions", () => {
  const quiet = ["naive", "fcfs", "fcfs-chunked", "priority", "session-priority", "shortest-prefill-first"];
  const sglang = ["sglang-fcfs", "lpm", "dfs-weight", "lof", "hrrn", "random", "mini-sglang"];
  const others = ["static", "offline", "online", "tgi-queue", "efficient-router", "past-future", "prefix-groups"];
  for (const scheduler of [...quiet, ...sglang, ...others]) {
    let repeated = 0;
    stepped({
      scheduler,
      blocks: 32,
      blockTokens: 16,
      repeats: true,
      requests: [
        { input: 3, output: 40 },
        { input: 5, output: 40 },
      ],
      committed: (_replica, _now, steps) => (repeated += steps),
    });
    expect(repeated, scheduler).toBeGreaterThan(25);
  }
});
