import { describe, expect, test } from "vitest";
import { deletePrefix, evict, pin, unpin } from "../../core/cache/operations.ts";
import { BlockState } from "../../core/cache/pool.ts";
import { InvariantError } from "../../core/errors.ts";
import { EventKind } from "../../core/log/events.ts";
import { type LiveCache, type LiveConfig, liveAs } from "../support/live-cache.ts";

// Past bugs of the prefix caches of LMDeploy, TurboMind, roseinfer and vLLM's PrefixPool, each as a test that the same
// composition passes here. A letter is a token, a block is four. Those of the serving engines are in
// defects-engines.test.ts, those of other simulators in defects-simulators.test.ts.
//
// Not applicable here:
//
//   LMDeploy 4618          a refactoring
//   LMDeploy 4799, half    checkpoints of state-space models: there is no state besides keys and values
//   of 4700 and 4688       (the part about blocks is tested below)
//   TurboMind 4270, 4292   walking the whole trie in every step, and crashes of the repair: no code here walks it; the cost of
//                          a block as a cache grows is measured by `kvlab check`
//   TurboMind 4001         an integration fix, whose cache part is that of 3835
//   roseinfer 8            a benchmark of 64 equal prompts in one run
//   PR 1669, sample        Python errors of a script; the table in which groups are slower than none is for the simulator
//   LMDeploy 1719          results that change on a hit because sums are in another order: there is no model here

const demoRules = { "match-limit": "all", "cache-generated": "false", "full-hit": "stored-logits" };

/** The block trie of issue 1407: all of a prompt may be a hit, outputs are not cached. */
const demo = (own: LiveConfig = {}) => liveAs("lmdeploy", { ...own, rules: { ...demoRules, ...own.rules } });

/** Contents of the evicted blocks so far, in order. */
function evicted(live: LiveCache): string[] {
  const { kind, key } = live.log.columns();
  return [...key].filter((_, at) => kind[at] === EventKind.evict).map((content) => live.textOf(content));
}

/** Contents of the evictable blocks. */
function evictable(live: LiveCache): string[] {
  const { index } = live.cache;
  const blocks = [...index.blocks()].sort((a, b) => a - b);
  return live.cachedTexts().filter((_, i) => index.isEvictable(index.entryOf(blocks[i])));
}

/** A hash with which all contents collide. */
const oneHash: NonNullable<LiveConfig["hash"]> = (lanes) => lanes.fill(7);

describe("the demo of LMDeploy's issue 1407", () => {
  test("1: an eviction of several blocks of a chain starts at its end", () => {
    const live = demo();
    live.run("aaaabbbbcccc");
    expect(evict(live.cache, 2, live.now)).toBe(2);
    expect(evicted(live)).toEqual(["aaaabbbbcccc", "aaaabbbb"]);
    expect(live.cachedTexts()).toEqual(["aaaa"]);
    live.audit();
  });

  test("2: there is nothing to evict in an empty trie, nor after the last leaf", () => {
    const live = demo({ blocks: 3 });
    expect(evict(live.cache, 1, live.now)).toBe(0);
    live.run("aaaabbbb");
    expect(evict(live.cache, 9, live.now)).toBe(2);
    expect(evict(live.cache, 1, live.now)).toBe(0);
    expect(live.run("aaaabbbbcccc")).toBe(0);
    expect(live.run("aaaabbbbcccc")).toBe(12);
  });

  test("3: leaves with equal last use have an order", () => {
    const live = demo();
    for (const letter of "cab") live.arrive(letter.repeat(4));
    live.step();
    for (let n = 0; n < 3; n++) expect(evict(live.cache, 1, live.now)).toBe(1);
    expect(evicted(live)).toEqual(["cccc", "aaaa", "bbbb"]);
  });

  test.each(["allocation", "step"])(
    "4: a request releases the blocks of its table, not those that match its tokens (publish=%s)",
    (publish) => {
      const live = demo({ rules: { publish } });
      const grown = live.arrive("aaaabb", { output: "bbxyz" });
      for (let n = 0; n < 3; n++) live.step();
      const own = grown.table[1];
      // Another request publishes the content of the first one's second block, in another block.
      const other = live.arrive("aaaabbbb", { output: "uvwxyz" });
      live.step();
      const theirs = other.table[1];
      expect(theirs).not.toBe(own);
      expect(grown.table[1]).toBe(own);
      live.step();
      expect(grown.blockCount).toBe(0);
      expect(live.cache.pool.refCountOf(theirs)).toBe(1);
      expect(live.cache.pool.stateOf(own)).toBe(BlockState.free);
      // It is referenced: it must not be evicted, even when all evictable blocks are.
      expect(evict(live.cache, 16, live.now)).toBe(0);
      expect(live.hits("aaaabbbb")).toBe(8);
      live.finish();
      expect(live.cache.freeBlocks + live.cache.index.blockCount).toBe(16);
    },
  );

  test("5: a block is a leaf until another block extends it, and again when that is evicted", () => {
    const live = demo();
    const leaves = () => evictable(live);
    live.run("aaaa");
    expect(leaves()).toEqual(["aaaa"]);
    live.run("aaaabbbb");
    live.run("aaaacccc");
    expect(leaves().sort()).toEqual(["aaaabbbb", "aaaacccc"]);
    evict(live.cache, 1, live.now);
    expect(leaves()).toEqual(["aaaacccc"]);
    evict(live.cache, 1, live.now);
    expect(leaves()).toEqual(["aaaa"]);
  });

  test("6: a request that does not fit has no side effects, and one that fits evicts only the blocks that it needs", () => {
    const live = demo({ blocks: 4 });
    live.run("aaaabbbb");
    live.run("ccccdddd");
    const before = live.state();
    const large = live.arrive(`aaaa${"x".repeat(16)}`);
    let admitted: boolean | undefined;
    live.step((context) => {
      admitted = context.admit(large);
      context.refuse(large, "it does not fit");
    });
    expect(admitted).toBe(false);
    expect(live.state()).toEqual(before);
    expect(large.blockCount).toBe(0);
    live.run("aaaaeeee");
    expect(evicted(live)).toEqual(["aaaabbbb"]);
  });

  test("7: a completely cached prompt recomputes its last token, for the logits of the next one", () => {
    const live = liveAs("lmdeploy");
    live.run("aaaabbbb");
    live.arrive("aaaabbbb");
    expect(live.plan().items[0]).toMatchObject({ from: 4, tokens: 4, generate: 1 });
  });

  test("7: two requests of one step do not match blocks that no request computes", () => {
    const apart = demo({ rules: { publish: "step" } });
    const both = ["aaaabbbb", "aaaabbbb"].map((prompt) => apart.arrive(prompt));
    apart.step();
    expect(both.map(({ cachedTokens }) => cachedTokens)).toEqual([0, 0]);
    // If blocks match from their allocation on, the same step computes them, or it is rolled back.
    const shared = demo();
    shared.arrive("aaaabbbb");
    shared.arrive("aaaabbbb");
    const plan = shared.plan();
    expect(plan.count).toBe(2);
    shared.replica.preempt(plan.items[0].sequence, "recompute");
    expect(plan.count).toBe(0);
    expect(shared.cachedTexts()).toEqual([]);
    shared.audit();
  });

  test("7: predictable hash keys are of no use to an attacker, because content is compared", () => {
    const live = demo({ hash: oneHash });
    live.run("aaaabbbb");
    expect(["bbbbaaaa", "aaaacccc", "ccccbbbb", "aaaabbbb"].map((prompt) => live.hits(prompt))).toEqual([0, 4, 0, 8]);
  });

  test("7: no decision depends on a clock", () => {
    const victims = (times: readonly number[]) => {
      const live = demo();
      ["aaaa", "bbbb", "aaaacccc", "bbbbdddd", "aaaa"].forEach((prompt, i) => {
        live.now = times[i];
        live.run(prompt);
      });
      evict(live.cache, 4, live.now);
      return evicted(live);
    };
    const order = ["bbbbdddd", "bbbb", "aaaacccc", "aaaa"];
    expect(victims([0, 10, 20, 30, 40])).toEqual(victims([0, 0, 0, 0, 0]));
    expect(victims([40, 30, 20, 10, 0])).toEqual(victims([0, 0, 0, 0, 0]));
    expect(victims([0, 0, 0, 0, 0]).sort()).toEqual(order.sort());
  });

  test("8: the output of the demo", () => {
    const live = demo({ blocks: 5, blockTokens: 2, allocator: "block-queue" });
    const admitted = (prompt: string) => {
      const sequence = live.arrive(prompt, { output: "......" });
      live.step((context) => context.admit(sequence));
      return sequence;
    };
    /** Blocks are numbered from 1 there. */
    const blocks = ({ table, blockCount }: typeof first) =>
      [...table.subarray(0, blockCount)].map((block) => block + 1);
    const end = (sequence: typeof first) => live.step((context) => context.refuse(sequence, "it has ended"));
    const first = admitted("1234567");
    expect(blocks(first)).toEqual([1, 2, 3, 4]);
    const second = admitted("1234");
    expect(blocks(second)).toEqual([1, 2]);
    expect(blocks(admitted("23"))).toEqual([5]);
    end(first);
    expect(blocks(admitted("234567"))).toEqual([5, 4, 3]);
    end(second);
    expect(blocks(admitted("24"))).toEqual([2]);
  });
});

describe("LMDeploy, PyTorch engine", () => {
  test("3386: prompts with colliding hashes do not match each other's blocks", () => {
    const live = liveAs("lmdeploy", { hash: oneHash, blocks: 64 });
    const prompts = Array.from({ length: 12 }, (_, i) => `${String.fromCharCode(97 + i).repeat(4)}....x`);
    for (const prompt of prompts) expect(live.run(prompt)).toBe(0);
    for (const prompt of prompts) expect(live.hits(prompt)).toBe(8);
  });

  test("3868: if all leaves are referenced there is no victim, and no crash", () => {
    const live = liveAs("lmdeploy");
    live.arrive("aaaabbbb", { output: "uvwxyz" });
    live.step();
    const before = live.state();
    expect(evict(live.cache, 4, live.now)).toBe(0);
    expect(live.state()).toEqual(before);
  });

  test("4184: a prompt matches while its first request still decodes", () => {
    const live = liveAs("lmdeploy");
    live.arrive("aaaabbbbx", { output: "uvwxyz" });
    live.step();
    expect(live.hits("aaaabbbby")).toBe(8);
  });

  test("4688: a long prompt that was preempted between two chunks resumes after the first", () => {
    const live = liveAs("lmdeploy");
    const long = live.arrive("aaaabbbbccccdddd");
    live.step((context) => context.admit(long, 8));
    live.step((context) => context.preempt(long, "recompute"));
    live.step((context) => context.admit(long, 8));
    expect(long.cachedTokens).toBe(8);
    expect(long.computedTokens).toBe(16);
  });

  test("4700: a pinned block is no victim, and a request without references releases nothing", () => {
    const live = liveAs("lmdeploy", { blocks: 3, rules: { "pin-blocks": 2 } });
    live.run("aaaabbbb");
    expect(pin(live.cache, live.prefix("aaaabbbb"), live.now)).toBe("pinned");
    live.run("cccc");
    live.run("dddd");
    expect(evicted(live)).toEqual(["cccc"]);
    expect(live.hits("aaaabbbbx")).toBe(8);
    const before = live.state();
    const nothing = live.arrive("eeee");
    live.step((context) => context.refuse(nothing, "before it ran"));
    expect(live.state()).toEqual(before);
  });

  test("a match whose admission fails changes no counter, no reference and no last use", () => {
    const live = liveAs("lmdeploy", { blocks: 4 });
    live.run("aaaax");
    live.run("bbbbx");
    const { counters } = live.cache;
    const before = structuredClone({ ...counters });
    const large = live.arrive(`aaaa${"x".repeat(16)}`);
    for (let n = 0; n < 3; n++)
      live.step((context) => {
        expect(context.admit(large)).toBe(false);
      });
    expect({ ...counters }).toEqual(before);
    expect(large).toMatchObject({ blockCount: 0, cachedBlocks: 0, cachedTokens: 0, computedTokens: 0 });
    expect(live.hits("aaaax")).toBe(4);
    // It was looked up, but not used: it is still the older of the two.
    evict(live.cache, 1, live.now);
    expect(evicted(live)).toEqual(["aaaa"]);
  });
});

describe("LMDeploy, TurboMind", () => {
  test("1450: a reused block does not match by its former content", () => {
    const live = liveAs("turbomind", { blocks: 2 });
    live.run("aaaax");
    live.run("bbbbcccc");
    expect(live.hits("aaaax")).toBe(0);
    expect(live.hits("aaaabbbb")).toBe(0);
    expect(live.hits("bbbbx")).toBe(4);
  });

  test("1450: descendants of a victim do not stay cached, where no lookup reaches them", () => {
    const live = liveAs("turbomind", { rules: { "free-order": "forward", partial: "none" } });
    live.run("aaaabbbbcccc");
    // The beginning is oldest; all of it is evicted.
    expect(evict(live.cache, 1, live.now)).toBe(3);
    expect(live.cachedTexts()).toEqual([]);
    expect(live.cache.freeBlocks).toBe(16);
  });

  test("1450: the tail of a sequence is older than its beginning", () => {
    const live = liveAs("turbomind");
    live.run("aaaabbbbcccc");
    evict(live.cache, 2, live.now);
    expect(live.cachedTexts()).toEqual(["aaaa"]);
  });

  test("3835: the last block of an output, which may be partial, is not published; full ones are", () => {
    const live = liveAs("turbomind");
    live.run("aaaabb", { output: "bbccdef" });
    // Twelve tokens are computed: the last output token never is.
    expect(live.cachedTexts()).toEqual(["aaaa", "aaaabbbb", "aaaabbbbccde"]);
    const shorter = liveAs("turbomind");
    shorter.run("aaaabb", { output: "bbccde" });
    expect(shorter.cachedTexts()).toEqual(["aaaa", "aaaabbbb"]);
    expect(shorter.hits("aaaabbbbccdex")).toBe(8);
  });

  test("4717: two requests never write to one block", () => {
    const live = liveAs("turbomind");
    const both = ["aaaabbbbx", "aaaabbbbx"].map((prompt) => live.arrive(prompt));
    live.plan();
    const tables = both.map(({ table, blockCount }) => [...table.subarray(0, blockCount)]);
    expect(new Set(tables.flat()).size).toBe(6);
  });
});

describe("roseinfer", () => {
  const rose = (own: LiveConfig = {}) => liveAs("roseinfer", own);

  test("1: the first eviction of an entry frees its blocks", () => {
    const live = rose({ blocks: 3 });
    live.run("aaaabb");
    live.run("ccccdd");
    expect(evicted(live)).toEqual(["aaaabb", "aaaa"]);
    expect(live.cache.freeBlocks).toBe(1);
  });

  test("2: max-entries=0 means none", () => {
    const live = rose({ rules: { "max-entries": 0 } });
    expect([live.run("aaaa"), live.run("aaaa")]).toEqual([0, 0]);
    expect(live.cache.index.entryCount).toBe(0);
  });

  test("3: no request references a released block", () => {
    const { cache } = rose();
    expect(() => cache.refs.reference(0)).toThrow(InvariantError);
    expect(() => cache.refs.reference(0)).toThrow("block 0 is free, not idle");
    expect(cache.pool.refCountOf(0)).toBe(0);
  });

  test("4: a cache with all blocks evicts some for a request that needs them", () => {
    const live = rose({ blocks: 2 });
    for (const letter of "abcde") live.run(letter.repeat(8));
    expect(live.cache.counters).toMatchObject({ refusedRequests: 0, evictedBlocks: 8 });
  });

  test("5: a finished request references no block, while others of its batch continue", () => {
    const live = rose();
    const short = live.arrive("aaaab", { output: "u" });
    live.arrive("ccccd", { output: "uvwxyz" });
    live.step();
    expect(live.replica.running.length).toBe(1);
    expect(short.blockCount).toBe(0);
    expect(live.cache.index.evictableBlocks).toBe(2);
    expect(evict(live.cache, 2, live.now)).toBe(2);
  });

  test("6: a miss does not copy its last block", () => {
    const live = rose();
    live.run("aaaab", { output: "uvwxyz" });
    expect(live.cache.counters.copiedBlocks).toBe(0);
    expect(live.hits("aaaab")).toBe(5);
  });

  test("7: a prompt matches by the content of its blocks, not by its last token", () => {
    const live = rose();
    live.run("xxxxaaaabbbb");
    expect(["aaaabbbb", "yyyyaaaabbbb", "xxxxaaaabbbb"].map((prompt) => live.hits(prompt))).toEqual([0, 0, 12]);
  });
});

describe("vLLM PrefixPool and PrefixTrie (PR 1669)", () => {
  const marked = (live: LiveCache, prefix: string) => live.run(`${prefix}x`, { markedTokens: prefix.length });
  const found = (live: LiveCache, prefix: string) => live.hits(`${prefix}y`, { markedTokens: prefix.length });

  describe.each(["prefix-pool", "prefix-trie"])("%s", (system) => {
    test("a prefix can be deleted while others are pinned or referenced, and these stay valid", () => {
      const live = liveAs(system, { rules: { "pin-blocks": 4 } });
      for (const prefix of ["aaaa", "bbbb", "cccc"]) marked(live, prefix);
      const kept = live.prefix("cccc");
      expect(pin(live.cache, kept, live.now)).toBe("pinned");
      expect(deletePrefix(live.cache, live.prefix("aaaa"), live.now)).toBe("deleted");
      expect(["aaaa", "bbbb", "cccc"].map((prefix) => found(live, prefix))).toEqual([0, 4, 4]);
      expect(unpin(live.cache, kept, live.now)).toBe(true);
      live.audit();
    });

    test("the first prefix, in the first block, is a prefix like any other", () => {
      const live = liveAs(system, { rules: { "pin-blocks": 4 } });
      const first = live.prefix("aaaa");
      expect(first.request.id).toBe(0);
      marked(live, "aaaa");
      expect([...live.cache.index.blocks()]).toEqual([0]);
      expect(found(live, "aaaa")).toBe(4);
      expect(pin(live.cache, first, live.now)).toBe("pinned");
      expect(unpin(live.cache, first, live.now)).toBe(true);
      expect(deletePrefix(live.cache, first, live.now)).toBe("deleted");
      expect(found(live, "aaaa")).toBe(0);
    });

    test("a prefix that is not cached is not deleted, and a second deletion has no effect", () => {
      const live = liveAs(system);
      marked(live, "aaaa");
      const before = live.state();
      expect(deletePrefix(live.cache, live.prefix("bbbb"), live.now)).toBe("not cached");
      expect(live.state()).toEqual(before);
      expect(deletePrefix(live.cache, live.prefix("aaaa"), live.now)).toBe("deleted");
      expect(deletePrefix(live.cache, live.prefix("aaaa"), live.now)).toBe("not cached");
      expect(live.cache.freeBlocks).toBe(16);
    });

    test("a referenced prefix is not deleted", () => {
      const live = liveAs(system);
      const user = live.arrive("aaaax", { markedTokens: 4, output: "uvwxyz" });
      live.step();
      const before = live.state();
      expect(deletePrefix(live.cache, live.prefix("aaaa"), live.now)).toBe("in use");
      expect(live.state()).toEqual(before);
      expect(live.cache.pool.refCountOf(user.table[0])).toBe(1);
      live.finish();
      expect(deletePrefix(live.cache, live.prefix("aaaa"), live.now)).toBe("deleted");
    });

    test("tokens are compared, not only hashes", () => {
      const live = liveAs(system, { hash: oneHash });
      marked(live, "aaaa");
      expect([found(live, "bbbb"), found(live, "aaaa")]).toEqual([0, 4]);
    });

    test("a mark shorter than a block has no effect", () => {
      const live = liveAs(system);
      marked(live, "aaa");
      expect(live.cache.index.blockCount).toBe(0);
      expect(found(live, "aaa")).toBe(0);
    });

    test("prefixes that fill the pool do not starve requests without one", () => {
      const live = liveAs(system, { blocks: 3 });
      for (const prefix of ["aaaa", "bbbb", "cccc"]) marked(live, prefix);
      live.run("zzzzyyyyxxxx");
      expect(live.cache.counters).toMatchObject({ refusedRequests: 0, preemptions: 0 });
    });
  });

  test("prefixes with a common beginning share blocks in the trie, but not in the pool", () => {
    for (const [system, blocks] of [
      ["prefix-pool", 3],
      ["prefix-trie", 2],
    ] as const) {
      const live = liveAs(system);
      marked(live, "aaaa");
      marked(live, "aaaabbbb");
      expect(live.cache.index.blockCount).toBe(blocks);
      expect(deletePrefix(live.cache, live.prefix("aaaabbbb"), live.now)).toBe("deleted");
    }
  });
});
