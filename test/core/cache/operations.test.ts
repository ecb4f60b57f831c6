import { describe, expect, test } from "vitest";
import { deletePrefix, evict, pin, reset, unpin } from "../../../core/cache/operations.ts";
import { Request, Sequence } from "../../../core/cache/request.ts";
import { EventKind } from "../../../core/log/events.ts";
import { BlockKeys } from "../../../core/trace/content.ts";
import { blockTokens, letterTrace } from "../../support/letters.ts";
import { LiveCache, type LiveConfig } from "../../support/live-cache.ts";
import { replayed } from "../../support/replays.ts";

// A letter is a token and a block.

const start = (own: LiveConfig = {}) =>
  new LiveCache({ index: "block-trie", blockTokens: 1, blocks: 8, ...own, rules: { "pin-blocks": 3, ...own.rules } });

const evicted = (live: LiveCache) => {
  const { kind, key } = live.log.columns();
  return [...key].filter((_, at) => kind[at] === EventKind.evict).map((content) => live.textOf(content));
};

describe("evict", () => {
  test("evicts the policy's victims until the requested number of blocks is free", () => {
    const live = start();
    live.run("ab");
    live.run("cd");
    expect(evict(live.cache, 3, live.now)).toBe(3);
    expect(evicted(live)).toEqual(["ab", "a", "cd"]);
    expect(live.cache.freeBlocks).toBe(7);
  });

  test("evicts whole entries: one block more than requested may be free", () => {
    const live = start({ index: "radix-tree", rules: { "victim-unit": "node" } });
    live.run("abc");
    live.run("de");
    expect(evict(live.cache, 1, live.now)).toBe(3);
    expect(live.cachedTexts()).toEqual(["d", "de"]);
  });

  test("does not evict referenced blocks, and returns the number of freed ones", () => {
    const live = start();
    live.run("ab");
    live.arrive("cd", { output: "xyz" });
    live.step();
    expect(evict(live.cache, 8, live.now)).toBe(2);
    expect(live.cachedTexts().sort()).toEqual(["c", "cd"]);
  });

  test("of 0 blocks evicts nothing", () => {
    const live = start();
    live.run("ab");
    expect(evict(live.cache, 0, live.now)).toBe(0);
    expect(live.cache.index.blockCount).toBe(2);
  });

  test("evicts nothing in an unlimited cache", () => {
    const live = start({ blocks: undefined });
    live.run("ab");
    expect(evict(live.cache, 2, live.now)).toBe(0);
    expect(live.hits("ab")).toBe(2);
  });
});

describe("reset", () => {
  test("empties the cache and keeps the order of allocation", () => {
    for (const [allocator, order] of [
      // Six blocks are left on the stack; then the oldest leaf and its parent.
      ["block", [4, 5, 6, 7, 1, 0, 3, 2]],
      ["block-queue", [4, 5, 6, 7, 1, 0, 3, 2]],
    ] as const) {
      const live = start({ allocator });
      live.run("ab");
      live.run("cd");
      expect(reset(live.cache, live.now)).toBe(true);
      expect(live.cache).toMatchObject({ freeBlocks: 8, availableBlocks: 8, referencedBlocks: 0 });
      expect(["ab", "cd"].map((prompt) => live.hits(prompt))).toEqual([0, 0]);
      expect([...live.cache.freeList()]).toEqual(order);
      live.audit();
    }
  });

  test("is not counted as an eviction, and its blocks are missed as evicted afterwards", () => {
    const live = start();
    live.run("ab");
    reset(live.cache, live.now);
    expect(live.cache.counters.evictedBlocks).toBe(0);
    live.run("ab");
    expect(live.cache.counters.insertedBlocks).toBe(4);
  });

  test("is refused without side effects while a block is referenced or pinned", () => {
    const live = start();
    live.run("ab");
    const kept = live.prefix("a");
    pin(live.cache, kept, live.now);
    const before = live.state();
    expect(reset(live.cache, live.now)).toBe(false);
    expect(live.state()).toEqual(before);
    unpin(live.cache, kept, live.now);
    live.arrive("cd", { output: "xyz" });
    live.step();
    expect(reset(live.cache, live.now)).toBe(false);
    live.finish();
    expect(reset(live.cache, live.now)).toBe(true);
  });
});

describe("pin and unpin", () => {
  test("a pinned prefix is never evicted", () => {
    const live = start();
    live.run("ab");
    const kept = live.prefix("ab");
    expect(pin(live.cache, kept, live.now)).toBe("pinned");
    for (const prompt of ["cdefgh", "ijklmn"]) live.run(prompt);
    expect(live.hits("abx")).toBe(2);
    expect(unpin(live.cache, kept, live.now)).toBe(true);
    for (const prompt of ["opqrst", "uvwxyz"]) live.run(prompt);
    expect(live.hits("abx")).toBe(0);
  });

  test("unpinned blocks do not count towards pin-blocks", () => {
    const live = start();
    live.run("abc");
    live.run("def");
    const first = live.prefix("abc");
    expect(pin(live.cache, first, live.now)).toBe("pinned");
    expect(pin(live.cache, live.prefix("def"), live.now)).toBe("over budget");
    unpin(live.cache, first, live.now);
    expect(pin(live.cache, live.prefix("def"), live.now)).toBe("pinned");
  });

  test("a cache without an event log pins, unpins and deletes", () => {
    const trace = letterTrace(["AB"]);
    const { cache } = replayed(trace, { index: "block-trie", rules: { "pin-blocks": 2 } });
    const columns = new BlockKeys({ unitTokens: trace.unitTokens, blockTokens }).of(trace);
    const prefix = () => new Sequence(new Request(1, trace, 0, columns));
    const kept = prefix();
    expect(pin(cache, kept, 1)).toBe("pinned");
    expect(deletePrefix(cache, prefix(), 2)).toBe("in use");
    expect(unpin(cache, kept, 3)).toBe(true);
    expect(deletePrefix(cache, prefix(), 4)).toBe("deleted");
    expect(cache.index.blockCount).toBe(0);
  });

  test("a prefix that the step under way computes cannot be pinned before the step ends", () => {
    const live = start({ rules: { publish: "allocation" } });
    live.arrive("ab", { output: "xyz" });
    const plan = live.plan();
    expect([...live.cache.index.blocks()]).toHaveLength(2);
    expect(pin(live.cache, live.prefix("ab"), live.now)).toBe("not cached");
    live.replica.commit(plan, { durationNs: 1 }, live.now);
    expect(pin(live.cache, live.prefix("ab"), live.now)).toBe("pinned");
  });

  test("pinning a prefix does not pin the blocks that extend it", () => {
    for (const index of ["block-trie", "radix-tree", "hash-table"]) {
      const live = start({ index });
      live.run("abcd");
      expect(pin(live.cache, live.prefix("ab"), live.now)).toBe("pinned");
      evict(live.cache, 8, live.now);
      expect(live.cachedTexts()).toEqual(["a", "ab"]);
    }
  });

  test("the budget counts each block once", () => {
    const live = start();
    for (const prompt of ["abc", "abd", "x"]) live.run(prompt);
    const results = ["abc", "ab", "abc", "abd", "x"].map((text) => pin(live.cache, live.prefix(text), live.now));
    // Three blocks are pinned, some of them three times; "abd" would be the fourth.
    expect(results).toEqual(["pinned", "pinned", "pinned", "over budget", "over budget"]);
  });

  test("with pin-blocks=0 nothing can be pinned", () => {
    const live = start({ rules: { "pin-blocks": 0 } });
    live.run("ab");
    expect(pin(live.cache, live.prefix("a"), live.now)).toBe("over budget");
  });

  test("all of a prefix must be cached", () => {
    const live = start();
    live.run("ab");
    const before = live.state();
    expect(["abc", "b", "xy"].map((text) => pin(live.cache, live.prefix(text), live.now))).toEqual(
      Array.from({ length: 3 }, () => "not cached"),
    );
    expect(live.state()).toEqual(before);
  });

  test("a prefix that is pinned twice becomes evictable after both are unpinned", () => {
    const live = start();
    live.run("ab");
    const [one, other] = [live.prefix("ab"), live.prefix("ab")];
    for (const prefix of [one, other]) pin(live.cache, prefix, live.now);
    unpin(live.cache, one, live.now);
    expect(evict(live.cache, 2, live.now)).toBe(0);
    unpin(live.cache, other, live.now);
    expect(evict(live.cache, 2, live.now)).toBe(2);
    live.audit();
  });

  test("the same pin twice is one pin", () => {
    const live = start();
    live.run("ab");
    const kept = live.prefix("ab");
    expect([pin(live.cache, kept, live.now), pin(live.cache, kept, live.now)]).toEqual(["pinned", "pinned"]);
    live.audit();
    expect([unpin(live.cache, kept, live.now), unpin(live.cache, kept, live.now)]).toEqual([true, false]);
    live.audit();
    expect(live.cache.referencedBlocks).toBe(0);
  });

  test("only a pinned prefix can be unpinned, and it can be pinned again", () => {
    const live = start();
    live.run("ab");
    const prefix = live.prefix("ab");
    expect(unpin(live.cache, prefix, live.now)).toBe(false);
    for (let n = 0; n < 3; n++) {
      expect(pin(live.cache, prefix, live.now)).toBe("pinned");
      expect(unpin(live.cache, prefix, live.now)).toBe(true);
    }
    live.audit();
  });

  test("the newest of equal blocks does not replace a pinned one", () => {
    const live = start({ index: "hash-table", rules: { duplicates: "replace", "drop-blocks": 1 } });
    live.run("a");
    const kept = live.prefix("a");
    pin(live.cache, kept, live.now);
    live.run("a");
    evict(live.cache, 8, live.now);
    expect(live.cache.pool.refCountOf(kept.table[0])).toBe(1);
    expect(live.cachedTexts()).toEqual(["a"]);
  });

  test("limits of an index drop only unpinned entries", () => {
    const live = start({ index: "prompt-table", rules: { "max-entries": 1 } });
    live.run("ab");
    const kept = live.prefix("ab");
    expect(pin(live.cache, kept, live.now)).toBe("pinned");
    live.run("cd");
    expect(live.hits("ab")).toBe(2);
    unpin(live.cache, kept, live.now);
    live.run("ef");
    expect([live.hits("ab"), live.cache.index.entryCount]).toEqual([0, 1]);
  });

  test("a running request matches a pinned prefix, which stays pinned when it finishes", () => {
    const live = start();
    live.run("ab");
    pin(live.cache, live.prefix("ab"), live.now);
    expect(live.run("abc")).toBe(2);
    evict(live.cache, 8, live.now);
    expect(live.cachedTexts()).toEqual(["a", "ab"]);
  });

  test("a session matches only its own history", () => {
    const live = start({ rules: { share: "session" } });
    live.run("ab", { session: 1 });
    expect([live.hits("abc", { session: 1 }), live.hits("abc", { session: 2 }), live.hits("abc")]).toEqual([2, 0, 0]);
    expect(pin(live.cache, live.prefix("ab", { session: 2 }), live.now)).toBe("not cached");
    expect(pin(live.cache, live.prefix("ab", { session: 1 }), live.now)).toBe("pinned");
  });

  test("a pin applies to one tenant", () => {
    const live = start({ namespaces: true });
    live.run("ab", { namespace: 1 });
    expect(pin(live.cache, live.prefix("ab", { namespace: 2 }), live.now)).toBe("not cached");
    expect(deletePrefix(live.cache, live.prefix("ab", { namespace: 2 }), live.now)).toBe("not cached");
    expect(pin(live.cache, live.prefix("ab", { namespace: 1 }), live.now)).toBe("pinned");
  });
});

describe("deletePrefix", () => {
  test.each(["block-trie", "radix-tree"])(
    "in a %s, deletes the last block, all below it, and the blocks above it that no other block extends",
    (index) => {
      const live = start({ index });
      for (const prompt of ["abcd", "abe", "abcf"]) live.run(prompt);
      expect(deletePrefix(live.cache, live.prefix("abc"), live.now)).toBe("deleted");
      expect(live.cachedTexts().sort()).toEqual(["a", "ab", "abe"]);
      expect(deletePrefix(live.cache, live.prefix("abe"), live.now)).toBe("deleted");
      expect(live.cache.freeBlocks).toBe(8);
      live.audit();
    },
  );

  test("in a hash table, deletes its unreferenced blocks, and blocks after them stay cached", () => {
    const live = start({ index: "hash-table" });
    live.run("abcd");
    expect(deletePrefix(live.cache, live.prefix("ab"), live.now)).toBe("deleted");
    expect(live.cachedTexts()).toEqual(["abc", "abcd"]);
    expect(live.hits("abcd")).toBe(0);
  });

  test("in a hash table that keeps equal blocks, deletes all of them", () => {
    const live = start({ index: "hash-table", rules: { publish: "step", duplicates: "keep" } });
    live.arrive("ab");
    live.arrive("ab");
    live.step();
    expect(live.cachedTexts()).toEqual(["a", "ab", "a", "ab"]);
    expect(deletePrefix(live.cache, live.prefix("ab"), live.now)).toBe("deleted");
    expect(live.cachedTexts()).toEqual([]);
  });

  test("in a hash table, deletes the newest of equal blocks and the older one that was pinned", () => {
    const live = start({ index: "hash-table", rules: { duplicates: "replace", "drop-blocks": 1 } });
    live.run("a");
    const kept = live.prefix("a");
    pin(live.cache, kept, live.now);
    live.run("a");
    unpin(live.cache, kept, live.now);
    expect(live.cachedTexts()).toEqual(["a", "a"]);
    expect(deletePrefix(live.cache, live.prefix("a"), live.now)).toBe("deleted");
    expect(live.cachedTexts()).toEqual([]);
  });

  test("is refused without side effects while the last block is referenced or pinned", () => {
    for (const index of ["block-trie", "radix-tree", "hash-table"]) {
      const live = start({ index });
      live.run("abc");
      pin(live.cache, live.prefix("ab"), live.now);
      const before = live.state();
      expect(deletePrefix(live.cache, live.prefix("ab"), live.now)).toBe("in use");
      expect(deletePrefix(live.cache, live.prefix("a"), live.now)).toBe("in use");
      expect(live.state()).toEqual(before);
      expect(live.hits("abc")).toBe(3);
      // No request references the blocks after the pinned prefix.
      expect(deletePrefix(live.cache, live.prefix("abc"), live.now)).toBe("deleted");
      expect(live.cachedTexts()).toEqual(["a", "ab"]);
    }
  });

  test("of a prefix that is not cached does nothing", () => {
    const live = start();
    live.run("ab");
    const before = live.state();
    expect(["abc", "b", "xyz"].map((text) => deletePrefix(live.cache, live.prefix(text), live.now))).toEqual(
      Array.from({ length: 3 }, () => "not cached"),
    );
    expect(live.state()).toEqual(before);
  });

  test("in a prompt table, deletes the prompt and no other", () => {
    const live = start({ index: "prompt-table" });
    for (const prompt of ["ab", "abc"]) live.run(prompt);
    expect(deletePrefix(live.cache, live.prefix("a"), live.now)).toBe("not cached");
    expect(deletePrefix(live.cache, live.prefix("ab"), live.now)).toBe("deleted");
    expect([live.hits("ab"), live.hits("abc")]).toEqual([0, 3]);
  });

  test("in a prefix trie, a prefix whose beginning is referenced can be deleted", () => {
    const live = start({ index: "prefix-trie" });
    live.run("abx", { markedTokens: 2 });
    pin(live.cache, live.prefix("a"), live.now);
    expect(deletePrefix(live.cache, live.prefix("ab"), live.now)).toBe("deleted");
    expect(live.cachedTexts()).toEqual(["a"]);
  });
});

test("the example of docs/operations.md", () => {
  const live = start({ blockTokens: 4, rules: { "pin-blocks": 2 } });
  for (const prompt of ["aaaabbbb", "cccc"]) live.run(prompt);
  const { cache, now } = live;
  const [prefix, sameAgain] = [live.prefix("aaaabbbb"), live.prefix("aaaabbbb")];
  expect(pin(cache, prefix, now)).toBe("pinned");
  expect(evict(cache, 3, now)).toBe(1);
  expect(reset(cache, now)).toBe(false);
  expect(deletePrefix(cache, sameAgain, now)).toBe("in use");
  expect(unpin(cache, prefix, now)).toBe(true);
  expect(deletePrefix(cache, sameAgain, now)).toBe("deleted");
  expect(reset(cache, now)).toBe(true);
});
