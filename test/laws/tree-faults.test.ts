import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { byScore } from "../../core/plugins/by-score.ts";
import type { IndexPlugin, PrefixIndex } from "../../core/plugins/index.ts";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import { scenarios } from "../../laws/configs.ts";
import { runScenario } from "../../laws/scenario.ts";
import { withinTime } from "../../laws/time-limit.ts";
import { workloads } from "../../laws/workloads.ts";
import { evictionRegistry, indexRegistry } from "../../policies/registry.ts";
import { goldenCapacities, goldenHits, goldenTrace } from "../golden/golden-trace.ts";
import { replayed } from "../support/replays.ts";
import { allPlugins } from "./all-plugins.ts";

// Planted faults: tree indexes with one changed line. A law must detect each.

const folder = mkdtempSync(join(tmpdir(), "kvlab-faults-"));
afterAll(() => rmSync(folder, { recursive: true }));
let copies = 0;

/** The index of a source file in which each given piece of text, which must occur once, is replaced. */
async function broken(file: string, ...changes: readonly (readonly [is: string, becomes: string])[]) {
  let source = readFileSync(`policies/index/${file}.ts`, "utf8");
  for (const [is, becomes] of changes) {
    expect(source.split(is), `"${is}" in ${file}.ts`).toHaveLength(2);
    source = source.replace(is, () => becomes);
  }
  const copy = join(folder, `${copies++}-${file}.ts`);
  const here = resolve("policies/index");
  writeFileSync(
    copy,
    source.replaceAll(/from "(\.[^"]*)"/g, (_, path) => `from "${resolve(here, path)}"`),
  );
  const plugins: Record<string, IndexPlugin> = await import(copy);
  return Object.values(plugins)[0];
}

type Rules = Partial<Record<RuleName, RuleValue>>;

/** The first violation with a message like `like` in overlapping requests with this index; the same in every run. */
function violation(index: IndexPlugin, like: RegExp, rules: Rules = {}): string | undefined {
  const parts = { ...allPlugins, indexes: [index], evictions: [evictionRegistry.get("random")] };
  const some = fc.noBias(fc.tuple(scenarios(parts, false, { noRules: true, rules }), workloads({ related: true })));
  for (const [scenario, workload] of fc.sample(some, { numRuns: 60, seed: 1 })) {
    try {
      const ends = withinTime(300, () => void runScenario({ ...scenario, workload: workload }));
      if (!ends) throw new Error("it does not return");
    } catch (error) {
      const message = (error as Error).message.split("\n")[0];
      if (like.test(message)) return message;
    }
  }
  return undefined;
}

const extended =
  /^entry \d+ is evictable, although it is extended by another entry$|^entries reported to the policy as evictable/;

test("indexes without a fault violate no law", async () => {
  expect(violation(await broken("radix-tree"), /./)).toBeUndefined();
  expect(violation(await broken("block-trie"), /./, { victims: "any" })).toBeUndefined();
  expect(violation(await broken("block-trie"), /./, { partial: "copy" })).toBeUndefined();
});

describe("the laws detect a radix tree in which", () => {
  const isEvictable =
    "return this.#length[node] > 0 && this.#referencedBlocks[node] === 0 && this.#firstChild[node] === none;";
  const split = "this.#host.split(lower, upper, this.#end[lower], this.#end[lower] - this.#start[lower]);";
  const shorter =
    "this.#host.resized(lower, this.#end[lower], this.#end[lower] - this.#start[lower], this.#keyOf[this.#last[lower]]);";
  const faults: [fault: string, caught: RegExp, ...changes: (readonly [string, string])[]][] = [
    [
      "the upper half of a split node has a block too many",
      /blocks evictable, only \d+ idle|would free|referenced in part|of entry/,
      ["this.#length[upper] = length;", "this.#length[upper] = length + 1;"],
    ],
    [
      "a block of the upper half is assigned to the lower one",
      /which are not consecutive|tokens of entry|depth of entry|referenced in part/,
      ["this.#nodeOf[b] = upper;", "this.#nodeOf[b] = length === 0 ? upper : lower;"],
    ],
    [
      "the length of the lower half is not reduced by a split",
      /does not return|referenced in part|would free/,
      ["this.#length[lower] -= length;", ""],
    ],
    [
      "the reported tokens of the lower half are not reduced by a split",
      /^tokens of entry \d+ is \d+, expected \d+$/m,
      [split, split.replace("this.#end[lower] - this.#start[lower]", "this.#end[lower]")],
    ],
    ["the upper half of a split does not inherit the history", /^(accessCount|createdAt) of entry/m, [split, shorter]],
    [
      "a referenced node is evictable",
      /evictable|referenced/,
      [isEvictable, "return this.#length[node] > 0 && this.#firstChild[node] === none;"],
    ],
    [
      "a node with children is evictable",
      extended,
      [isEvictable, "return this.#length[node] > 0 && this.#referencedBlocks[node] === 0;"],
    ],
    [
      "a released node with referenced children is evictable",
      /evictable, although|added twice|which a request references|reported to the policy as evictable/,
      ["if (this.#firstChild[node] === none) this.#host.evictable(node);", "this.#host.evictable(node);"],
    ],
    [
      "the beginning of a node is evicted first",
      /removed before \d+ blocks that extend it|but not the block before it|referenced in part/,
      [
        "let block = this.#last[node];\n    for (let i = 0; i < count; i++) {",
        "const node1: number[] = [];\n    for (let b = this.#last[node], n = length; n > 0; n--, b = before[b]) node1.unshift(b);\n    let block = node1[0];\n    for (let i = 0; i < count; i++) {",
      ],
      ["block = before[block];\n    }\n    this.#host.evicted", "block = node1[i + 1];\n    }\n    this.#host.evicted"],
    ],
    [
      "the end of a shortened node is not updated",
      /^depth of entry \d+ is \d+, expected \d+$/m,
      ["this.#end[node] = this.#start[node] + tokens;", ""],
    ],
    [
      "the key of a shortened node is not updated",
      /^key of entry \d+ is \d+, expected \d+$/m,
      [
        "this.#host.resized(node, this.#end[node], tokens, this.#keyOf[last]);",
        "this.#host.resized(node, this.#end[node], tokens, this.#host.columns.key[node]);",
      ],
    ],
    [
      "a partial block is stored in the middle of a node",
      /^(depth|tokens) of entry \d+ is \d+, expected \d+$/m,
      ["partialAt >= from && partialAt < insertion.to", "partialAt < from && partialAt > insertion.to"],
    ],
  ];
  test.each(faults)("%s", async (_fault, caught, ...changes) => {
    const index = await broken("radix-tree", ...changes);
    const rules = { "cache-generated": "true", publish: "finish" };
    expect(violation(index, caught) ?? violation(index, caught, rules)).toMatch(caught);
  });
});

/** The block trie with some methods replaced. */
function trieWith(own: (inner: PrefixIndex) => Pick<PrefixIndex, "matchPartial">): IndexPlugin {
  const trie = indexRegistry.get("block-trie");
  return {
    ...trie,
    create(context, blockCount) {
      const inner = trie.create(context, blockCount);
      return Object.assign(inner, own(inner));
    },
  };
}

describe("the laws detect a block trie in which", () => {
  test("a block with children is evictable", async () => {
    const change = ["(this.#anyVictim || this.#firstChild[entry] === none)", "true"] as const;
    expect(violation(await broken("block-trie", change), extended)).toBeDefined();
  });

  test("a referenced block is evictable", async () => {
    const change = ["return this.#host.isIdle(entry) && ", "return "] as const;
    expect(violation(await broken("block-trie", change), /^entry \d+ is evictable/)).toBeDefined();
  });

  test("the descendants of an evicted block stay stored", async () => {
    const change = ["let end = this.#deepest(entry); end !== entry;", "let end = entry; end !== entry;"] as const;
    expect(
      violation(await broken("block-trie", change), /removed before \d+ blocks/, { victims: "any" }),
    ).toBeDefined();
  });

  test("a partial match is one token too long", () => {
    const index = trieWith((inner) => {
      const matchPartial = inner.matchPartial!.bind(inner);
      return {
        matchPartial(above, key, contents, found) {
          matchPartial(above, key, contents, found);
          if (found.tokens > 0) found.tokens++;
        },
      };
    });
    expect(violation(index, /tokens cached for request|matched|reads/, { partial: "copy" })).toBeDefined();
  });

  test("a partial match is of another namespace", () => {
    const index = trieWith((inner) => {
      const matchPartial = inner.matchPartial!.bind(inner);
      return {
        matchPartial(above, key, contents, found) {
          matchPartial(above, key, contents, found);
          if (above >= 0 || found.tokens > 0) return;
          // Matches any block, also those of other namespaces.
          for (const block of inner.blocks()) [found.block, found.tokens] = [block, 1];
        },
      };
    });
    expect(violation(index, /tokens cached for request|matched|reads/, { partial: "copy" })).toBeDefined();
  });
});

test.each(["block-trie", "radix-tree"])("golden counts distinguish MRU from LRU in a %s", async (index) => {
  const mru = { ...evictionRegistry.get("lru"), ...byScore("-lastAccess", "releaseOrder") };
  const trace = await goldenTrace();
  const hits = goldenCapacities(trace).map(
    (blocks) => replayed(trace, { index, eviction: mru, blocks }).report.hitBlocks,
  );
  expect(hits.join(" ")).not.toBe(goldenHits["lru"]);
});
