import { describe, expect, test } from "vitest";
import { Request } from "../../../core/cache/request.ts";
import type { EvictionPlugin, Scheduler, SchedulerContext } from "../../../core/plugins/index.ts";
import type { RuleName, RuleValue } from "../../../core/plugins/rules.ts";
import { createCache } from "../../../core/replica/compose.ts";
import { Replica } from "../../../core/replica/replica.ts";
import { BlockKeys } from "../../../core/trace/content.ts";
import { type Trace, TraceBuilder } from "../../../core/trace/trace.ts";
import { lru } from "../../../policies/eviction/lru.ts";
import { blockTokens, letterTrace, served } from "../../support/letters.ts";
import { LiveCache } from "../../support/live-cache.ts";
import { configOf, replayed } from "../../support/replays.ts";

type Own = Partial<Record<RuleName, RuleValue>>;

describe("one request at a time", () => {
  test("a full cache evicts the least recently used block", () => {
    // A was used again, so B is evicted.
    expect(served(["A", "B", "A", "C"], { blocks: 2 }).letters).toBe("AC");
  });

  test("FIFO: a hit does not change the order", () => {
    expect(served(["A", "B", "A", "C"], { blocks: 2, policy: "fifo" }).letters).toBe("BC");
  });

  test("the optimum evicts the block whose next use is latest, or that has none", () => {
    expect(served(["A", "B", "C", "A", "B"], { blocks: 2, policy: "belady" }).hits).toEqual([0, 0, 0, 1, 0]);
    expect(served(["A", "B", "C", "A", "B"], { blocks: 2 }).hits).toEqual([0, 0, 0, 0, 0]);
  });

  test("of one request's blocks the deepest is evicted first, so that its prefix stays usable", () => {
    const { letters, hits } = served(["ABC", "D", "ABC"], { blocks: 3 });
    expect(hits).toEqual([0, 0, 2]);
    expect(letters).toBe("ABC");
  });

  test("with free-order=forward the first block is evicted first, and the rest is past a hole", () => {
    const { hits, report } = served(["ABC", "D", "ABC"], { blocks: 4, rules: { "free-order": "forward" } });
    expect(hits).toEqual([0, 0, 3]);
    const full = served(["ABC", "D", "ABC"], { blocks: 3, rules: { "free-order": "forward" } });
    expect(full.hits).toEqual([0, 0, 0]);
    expect(full.report.missTokens).toMatchObject({ evicted: 16, "past-hole": 32, "never-seen": 64 });
    expect(report.missTokens["past-hole"]).toBe(0);
  });

  test("a block past a hole counts as resident, but not as a hit", () => {
    const { report } = served(["ABC", "D", "ABC"], { blocks: 3, rules: { "free-order": "forward" } });
    expect(report.hitRatio).toMatchObject({ block: 0, anyResidentBlock: 2 / 7 });
  });

  test("a request whose blocks are all cached evicts nothing", () => {
    expect(served(["AB", "AB", "AB"], { blocks: 2 }).report).toMatchObject({ evictedBlocks: 0, insertedBlocks: 2 });
  });

  test("a prompt longer than the cache is refused, and counts as a lookup without hits", () => {
    const { hits, report, letters } = served(["A", "ABCD", "A"], { blocks: 3 });
    expect(hits).toEqual([0, 0, 1]);
    expect(report).toMatchObject({
      lookups: 3,
      refusedRequests: 1,
      refusedTokens: 64,
      lookupTokens: 96,
      hitTokens: 16,
    });
    expect(letters).toBe("A");
  });

  test("a partial last block of a content-id trace counts as a block, with its actual tokens", () => {
    const { report } = replayed(letterTrace(["AB", "AB"], { lastTokens: 5 }));
    expect(report).toMatchObject({ lookupBlocks: 4, lookupTokens: 42, hitBlocks: 2, hitTokens: 21 });
    expect(report.hitRatio).toMatchObject({ block: 1 / 2, token: 1 / 2, fullBlock: 1 / 2 });
  });

  test("match-limit l-1 and block-before-l exclude the last full block of a fully cached prompt", () => {
    for (const limit of ["l-1", "block-before-l"]) {
      const { hits, report } = served(["AB", "AB"], { rules: { "match-limit": limit } });
      expect(hits).toEqual([0, 1]);
      expect(report.missTokens["match-limit"]).toBe(16);
    }
  });

  test("a lookup of a longer prompt than all before it finds all its blocks, and a part of the next one", () => {
    const live = new LiveCache({ index: "block-trie", blockTokens: 2, blocks: 1000, rules: { partial: "copy" } });
    live.run("ab".repeat(500));
    expect(live.hits(`${"ab".repeat(400)}ax`)).toBe(801);
  });

  test("drop-blocks disregards matched blocks at the end", () => {
    expect(served(["ABC", "ABC"], { rules: { "drop-blocks": 2 } }).hits).toEqual([0, 1]);
  });

  test("warm-up requests fill the cache and are in no metric", () => {
    expect(served(["A", "A", "A"], { warmup: 2 }).report).toMatchObject({
      lookups: 1,
      hitBlocks: 1,
      insertedBlocks: 0,
    });
  });
});

describe("token traces", () => {
  const tokens = (
    prompts: readonly (readonly number[])[],
    own: { namespaces?: number[]; outputs?: number[][] } = {},
  ) => {
    const builder = new TraceBuilder(1);
    prompts.forEach((keys, r) => {
      builder.add({
        arrivalNs: r,
        inputTokens: keys.length,
        outputTokens: own.outputs?.[r].length ?? 1,
        keys,
        ...(own.namespaces && { namespace: own.namespaces[r] }),
        ...(own.outputs && { generatedKeys: own.outputs[r] }),
      });
    });
    return builder.take();
  };
  const blockOf4 = { blockTokens: 4 };

  test("tokens that do not fill a block are missed as shorter-than-block", () => {
    const { report } = replayed(tokens([[1, 2, 3, 4, 5, 6]]), blockOf4);
    expect(report.lookupBlocks).toBe(1);
    expect(report.missTokens).toMatchObject({ "never-seen": 4, "shorter-than-block": 2 });
  });

  test("the same tokens after another prefix are other content", () => {
    const trace = tokens([
      [1, 2, 3, 4, 5, 6, 7, 8],
      [9, 9, 9, 9, 5, 6, 7, 8],
    ]);
    expect(replayed(trace, blockOf4).report.hitBlocks).toBe(0);
  });

  test("blocks are not shared between namespaces, and the report counts these misses", () => {
    const prompt = [1, 2, 3, 4, 5, 6, 7, 8];
    const { requests, report } = replayed(tokens([prompt, prompt, prompt], { namespaces: [0, 1, 1] }), blockOf4);
    expect([...requests.hitBlocks]).toEqual([0, 0, 2]);
    expect(report.missTokens).toMatchObject({ "never-seen": 8, "other-namespace": 8 });
  });

  test("with cache-generated an output is a hit in the next prompt, except for its last token", () => {
    // 5 + 4 − 1 = 8 tokens are computed: two blocks.
    const prompts = [
      [1, 2, 3, 4, 5],
      [1, 2, 3, 4, 5, 6, 7, 8, 9],
    ];
    const trace = tokens(prompts, { outputs: [[6, 7, 8, 9], [0]] });
    expect(replayed(trace, { ...blockOf4, rules: { "cache-generated": "true" } }).requests.hitBlocks[1]).toBe(2);
    expect(replayed(trace, blockOf4).requests.hitBlocks[1]).toBe(1);
  });
});

/** A replica whose scheduler executes the actions of the test in its next plan. */
function replicaOf(trace: Trace, blocks: number | undefined, rules: Own = {}, eviction?: EvictionPlugin) {
  const config = { ...configOf(trace, { blocks, rules }), ...(eviction && { eviction }) };
  const columns = new BlockKeys({ unitTokens: trace.unitTokens, blockTokens: config.blockTokens }).of(trace);
  const cache = createCache(config);
  let next: (context: SchedulerContext) => unknown = () => {};
  const scheduler: Scheduler = {
    plan(context) {
      next(context);
    },
  };
  const replica = new Replica({ cache, scheduler, generation: "step" });
  const sequences = Array.from({ length: trace.requestCount }, (_, r) => new Request(r, trace, r, columns));
  return {
    cache,
    replica,
    submit: (r: number) => replica.submit(sequences[r], 0),
    /** Plans a step with these actions. */
    step(plan: (context: SchedulerContext) => unknown) {
      next = plan;
      return replica.plan(0);
    },
    run(plan: (context: SchedulerContext) => unknown) {
      next = plan;
      const step = replica.plan(0);
      const copies = [...step.copies];
      replica.commit(step, { durationNs: 0 }, 0);
      return copies;
    },
  };
}

describe("overlapping requests", () => {
  test("a completely cached prompt computes its last token in a copy if the block is shared", () => {
    const { cache, submit, run } = replicaOf(letterTrace(["AB", "AB"], { outputTokens: 3 }), 6);
    const first = submit(0);
    run((context) => context.admit(first));
    const second = submit(1);
    const copies = run((context) => {
      context.schedule(first);
      context.admit(second);
    });
    expect(copies).toEqual([{ source: first.table[1], target: second.table[1] }]);
    expect(second.table[0]).toBe(first.table[0]);
    expect(second.table[1]).not.toBe(first.table[1]);
    expect(cache.counters).toMatchObject({ hitBlocks: 2, hitTokens: 32, copiedBlocks: 1 });
  });

  test("a copied block is a hit for the policy, too", () => {
    const hits: number[] = [];
    const counting: EvictionPlugin = {
      ...lru,
      create: (context) => {
        const order = lru.create(context);
        return {
          add: (entry) => order.add(entry),
          remove: (entry, why) => order.remove(entry, why),
          victim: (now) => order.victim(now),
          hit: (entry, request) => {
            expect(request.id).toBe(1);
            hits.push(entry);
          },
        };
      },
    };
    const { submit, run } = replicaOf(letterTrace(["AB", "AB"], { outputTokens: 3 }), 6, {}, counting);
    const first = submit(0);
    run((context) => context.admit(first));
    const blocks = [...first.table.subarray(0, 2)];
    const second = submit(1);
    run((context) => {
      context.schedule(first);
      context.admit(second);
    });
    expect(hits).toEqual(blocks);
  });

  test("with stored logits there is nothing to compute and nothing to copy", () => {
    const { cache, submit, run } = replicaOf(letterTrace(["AB", "AB"], { outputTokens: 3 }), 6, {
      "full-hit": "stored-logits",
    });
    const first = submit(0);
    run((context) => context.admit(first));
    const second = submit(1);
    expect(run((context) => context.admit(second))).toEqual([]);
    expect([...second.table.subarray(0, 2)]).toEqual([...first.table.subarray(0, 2)]);
    expect(cache.counters.copiedBlocks).toBe(0);
  });

  test("reserve=worst-case refuses a request that reserve=grow admits", () => {
    // One block of prompt, up to two of output.
    const trace = letterTrace(["A", "B"], { outputTokens: 2 * blockTokens });
    const admitted = (rules: Own) => {
      const { submit, step } = replicaOf(trace, 4, rules);
      const results: boolean[] = [];
      const [first, second] = [submit(0), submit(1)];
      step((context) => results.push(context.admit(first), context.admit(second)));
      return results;
    };
    expect(admitted({ reserve: "grow" })).toEqual([true, true]);
    expect(admitted({ reserve: "worst-case" })).toEqual([true, false]);
  });

  test("a refused admission has no side effects", () => {
    const { cache, submit, step } = replicaOf(letterTrace(["AB", "CD"]), 3);
    const [first, second] = [submit(0), submit(1)];
    step((context) => context.admit(first));
    const before = [...cache.pool.words];
    let admitted: boolean | undefined;
    step((context) => {
      admitted = context.admit(second);
    });
    expect(admitted).toBe(false);
    expect([...cache.pool.words]).toEqual(before);
  });

  test("with publish=step a block matches after the step that computes it, and not before", () => {
    const { submit, run, cache } = replicaOf(letterTrace(["A", "A"], { outputTokens: 2 }), 4, { publish: "step" });
    const [first, second] = [submit(0), submit(1)];
    run((context) => {
      context.admit(first);
      expect(context.cachedTokens(second)).toBe(0);
    });
    expect(cache.cachedTokens(second)).toBe(16);
  });

  test("a rolled back step leaves no block that matches", () => {
    const { submit, step, replica, cache } = replicaOf(letterTrace(["AB"]), 4);
    const first = submit(0);
    replica.rollback(
      step((context) => context.admit(first)),
      0,
    );
    expect([...cache.index.blocks()]).toEqual([]);
    expect(cache.freeBlocks).toBe(4);
    expect(replica.waitingCount).toBe(1);
  });

  test("duplicates=swap frees the own block, keep keeps both", () => {
    const stored = (duplicates: string) => {
      const { submit, run, cache } = replicaOf(letterTrace(["A", "A"], { outputTokens: 2 }), 4, {
        publish: "step",
        duplicates,
      });
      const [first, second] = [submit(0), submit(1)];
      run((context) => {
        context.admit(first);
        context.admit(second);
      });
      return { blocks: cache.index.blockCount, shared: first.table[0] === second.table[0] };
    };
    expect(stored("swap")).toEqual({ blocks: 1, shared: true });
    expect(stored("keep")).toEqual({ blocks: 2, shared: false });
  });

  test("adopt references a cached block past a hole at admission, and recomputes it in place", () => {
    const trace = letterTrace(["ABC", "D", "ABC"], { outputTokens: 2 });
    const { submit, run, cache } = replicaOf(trace, 4, { "free-order": "forward", duplicates: "adopt" });
    for (const r of [0, 1]) {
      const sequence = submit(r);
      run((context) => context.admit(sequence));
      while (cache.referencedBlocks > 0) run((context) => context.schedule(sequence));
    }
    const resident = [...cache.index.blocks()];
    const third = submit(2);
    run((context) => context.admit(third));
    expect(third.cachedBlocks).toBe(0);
    expect(resident).toEqual(expect.arrayContaining([third.table[1], third.table[2]]));
  });

  test("a preempted request matches its computed blocks", () => {
    const { submit, run, step } = replicaOf(letterTrace(["AB"], { outputTokens: 4 }), 4);
    const only = submit(0);
    run((context) => context.admit(only));
    step((context) => {
      context.preempt(only, "recompute");
      context.admit(only);
    });
    expect(only.cachedTokens).toBe(32);
    expect(only.preemptions).toBe(1);
  });
});
