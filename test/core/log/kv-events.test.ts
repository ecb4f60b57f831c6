import { describe, expect, test } from "vitest";
import { deletePrefix, evict, reset } from "../../../core/cache/operations.ts";
import { type KvEvent, KvEventReader } from "../../../core/log/kv-events.ts";
import { LiveCache, type LiveConfig } from "../../support/live-cache.ts";

// A letter is a token, a block is two.

function start(own: LiveConfig = {}) {
  const live = new LiveCache({ blockTokens: 2, ...own });
  const reader = new KvEventReader(live.log);
  /** Events as text, with prompts for contents. */
  const take = () => reader.take().map((event) => textOf(event, live));
  return { live, take };
}

function textOf(event: KvEvent, live: LiveCache): string {
  if (event.type === "cleared") return `cleared ${event.blocks}`;
  const contents = event.contents.map((content) => live.textOf(content)).join(" ");
  if (event.type === "removed" || event.parent === undefined) return `${event.type} ${contents}`;
  return `${event.type} ${contents} after ${live.textOf(event.parent)}`;
}

describe.each(["hash-table", "block-trie", "radix-tree"])("of a %s", (index) => {
  test("a prompt is one event, and blocks that extend it have it as parent", () => {
    const { live, take } = start({ index });
    live.run("aabbcc");
    expect(take()).toEqual(["stored aa aabb aabbcc"]);
    live.run("aabbdd");
    expect(take()).toEqual(["stored aabbdd after aabb"]);
    live.run("aabbcc");
    expect(take()).toEqual([]);
  });

  test("blocks are listed with their contents", () => {
    const { live } = start({ index });
    const reader = new KvEventReader(live.log);
    const first = live.arrive("aabb", { output: "uvwxyz" });
    live.step();
    expect(reader.take()).toMatchObject([{ type: "stored", blocks: [...first.table.subarray(0, 2)] }]);
  });

  test("evicted blocks are removed, in the order of eviction", () => {
    const { live, take } = start({ index, blocks: 3 });
    live.run("aabb");
    live.run("ccdd");
    expect(take()).toEqual(["stored aa aabb", "removed aabb", "stored cc ccdd"]);
    evict(live.cache, 9, live.now);
    expect(take()).toEqual(["removed aa ccdd cc"]);
  });

  test("a reset is one event without an event for each block", () => {
    const { live, take } = start({ index });
    live.run("aabb");
    live.run("ccdd");
    take();
    expect(reset(live.cache, live.now)).toBe(true);
    live.run("aa");
    expect(take()).toEqual(["cleared 4", "stored aa"]);
  });

  test("also in an unlimited cache", () => {
    const { live, take } = start({ index, blocks: undefined });
    live.run("aabb");
    take();
    expect(reset(live.cache, live.now)).toBe(true);
    expect(take()).toEqual(["cleared 2"]);
    live.run("aabb");
    expect(take()).toEqual(["stored aa aabb"]);
  });

  test("a deleted prefix is removed", () => {
    const { live, take } = start({ index });
    live.run("aabb");
    live.run("aacc");
    take();
    expect(deletePrefix(live.cache, live.prefix("aacc"), live.now)).toBe("deleted");
    // A hash table does not store that another prefix begins with "aa".
    expect(take()).toEqual(index === "hash-table" ? ["removed aacc aa"] : ["removed aacc"]);
  });

  test("blocks of a step that does not run are removed", () => {
    const { live, take } = start({ index, rules: { publish: "allocation" } });
    live.arrive("aabb");
    const plan = live.plan();
    expect(take()).toEqual(["stored aa aabb"]);
    live.replica.rollback(plan, live.now);
    expect(take()).toEqual(["removed aabb aa"]);
  });

  test("each chunk has the one before as parent, also for output tokens", () => {
    const { live, take } = start({ index, rules: { publish: "step", "cache-generated": "true" } });
    const sequence = live.arrive("aabbcc", { output: "ddeef" });
    live.step((context) => context.admit(sequence, 3));
    expect(take()).toEqual(["stored aa"]);
    live.step((context) => context.schedule(sequence, 3));
    expect(take()).toEqual(["stored aabb aabbcc after aa"]);
    live.step();
    live.step();
    expect(take()).toEqual(["stored aabbccdd after aabbcc"]);
    live.finish();
    expect(take()).toEqual(["stored aabbccddee after aabbccdd"]);
  });

  test("after a preemption, blocks that are hit again are parents and are not stored again", () => {
    const { live, take } = start({ index, rules: { publish: "step" } });
    const sequence = live.arrive("aabbcc");
    live.step((context) => context.admit(sequence, 4));
    take();
    live.step((context) => context.preempt(sequence, "recompute"));
    live.finish();
    expect(take()).toEqual(["stored aabbcc after aabb"]);
  });

  test("contents of a tenant are separate", () => {
    const { live, take } = start({ index, namespaces: true });
    live.run("aabb", { namespace: 1 });
    live.run("aabb", { namespace: 2 });
    expect(take()).toEqual(["stored 1:aa 1:aabb", "stored 2:aa 2:aabb"]);
  });
});

test("two requests with the same content store it once if the duplicate is replaced, twice if both are kept", () => {
  for (const [duplicates, expected] of [
    ["swap", ["stored aa aabb", "stored aabbcc after aabb"]],
    ["keep", ["stored aa aabb", "stored aa aabb aabbcc"]],
  ] as const) {
    const { live, take } = start({ rules: { publish: "step", duplicates } });
    live.arrive("aabb");
    live.arrive("aabbcc");
    live.step();
    expect(take()).toEqual(expected);
  }
});

test("content that is stored twice is removed twice", () => {
  const { live, take } = start({ rules: { publish: "step", duplicates: "keep" } });
  live.arrive("aa");
  live.arrive("aa");
  live.step();
  evict(live.cache, 2, live.now);
  expect(take()).toEqual(["stored aa", "stored aa", "removed aa aa"]);
});

test("content that replaces equal content is stored before or after the removal, so that consumers count", () => {
  const { live, take } = start({ rules: { publish: "step", duplicates: "replace" } });
  live.arrive("aa");
  live.arrive("aa");
  live.step();
  const balance = take().reduce((count, event) => count + (event.startsWith("stored") ? 1 : -1), 0);
  expect(balance).toBe(1);
});

test("a prompt table stores whole prompts, with the contents of all their blocks", () => {
  const { live, take } = start({ index: "prompt-table", blocks: 4 });
  live.run("aabbc");
  expect(take()).toEqual(["stored aa aabb aabbc"]);
  live.run("aabb");
  // It has its own blocks, although their contents are the first two of the other prompt, which is evicted.
  expect(take()).toEqual(["removed aabbc aabb aa", "stored aa aabb"]);
});

test("a prefix pool stores marked prefixes", () => {
  const { live, take } = start({ index: "prefix-pool" });
  live.run("aabbccd", { markedTokens: 5 });
  expect(take()).toEqual(["stored aa aabb"]);
});

test("without changes there is no event", () => {
  const { live, take } = start();
  expect(take()).toEqual([]);
  live.hits("aabb");
  expect(evict(live.cache, 3, live.now)).toBe(0);
  expect(take()).toEqual([]);
  expect(reset(live.cache, live.now)).toBe(true);
  expect(take()).toEqual(["cleared 0"]);
});
