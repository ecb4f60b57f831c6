import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { byScore } from "../../core/plugins/by-score.ts";
import type { IndexPlugin, PrefixIndex } from "../../core/plugins/index.ts";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import { scenarios } from "../../laws/configs.ts";
import { play } from "../../laws/scenario.ts";
import { withinTime } from "../../laws/time-limit.ts";
import { worlds } from "../../laws/worlds.ts";
import { evictionRegistry, indexRegistry } from "../../policies/registry.ts";
import { goldenCapacities, goldenHits, goldenTrace } from "../golden/golden-trace.ts";
import { replayed } from "../support/replays.ts";
import { everyPart } from "./parts.ts";

// Trees that are broken on purpose, by a line of theirs that reads otherwise: a law must see each.

const folder = mkdtempSync(join(tmpdir(), "kvlab-faults-"));
afterAll(() => rmSync(folder, { recursive: true }));
let copies = 0;

/** The index of this file with each of these pieces, which is there once, replaced. */
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

/** What the checks say first of overlapping requests with this index that is like this; the same in every run. */
function complaint(index: IndexPlugin, like: RegExp, rules: Rules = {}): string | undefined {
  const parts = { ...everyPart, indexes: [index], evictions: [evictionRegistry.get("random")] };
  const some = fc.noBias(fc.tuple(scenarios(parts, false, { noRules: true, rules }), worlds({ related: true })));
  for (const [scenario, world] of fc.sample(some, { numRuns: 60, seed: 1 })) {
    try {
      const ends = withinTime(300, () => void play({ ...scenario, world }));
      if (!ends) throw new Error("it does not return");
    } catch (error) {
      const message = (error as Error).message.split("\n")[0];
      if (like.test(message)) return message;
    }
  }
  return undefined;
}

const mayNot = /^entry \d+ may go, and another extends it$|^what the policy was told is evictable/;

test("without a fault there is nothing to complain of", async () => {
  expect(complaint(await broken("radix-tree"), /./)).toBeUndefined();
  expect(complaint(await broken("block-trie"), /./, { victims: "any" })).toBeUndefined();
  expect(complaint(await broken("block-trie"), /./, { partial: "copy" })).toBeUndefined();
});

describe("a radix tree that is caught:", () => {
  const mayGo =
    "return this.#length[node] > 0 && this.#referencedBlocks[node] === 0 && this.#firstChild[node] === none;";
  const told = "this.#host.split(lower, upper, this.#end[lower], this.#end[lower] - this.#start[lower]);";
  const shorter =
    "this.#host.resized(lower, this.#end[lower], this.#end[lower] - this.#start[lower], this.#keyOf[this.#last[lower]]);";
  const faults: [fault: string, caught: RegExp, ...changes: (readonly [string, string])[]][] = [
    [
      "the upper half of a cut run has a block too many",
      /does not return|referenced in part|of entry/,
      ["this.#length[upper] = length;", "this.#length[upper] = length + 1;"],
    ],
    [
      "a block of the lower half is said to be the upper one's",
      /which do not follow|tokens of entry|depth of entry|referenced in part/,
      ["this.#nodeOf[b] = upper;", "this.#nodeOf[b] = length === 0 ? upper : lower;"],
    ],
    [
      "the lower half is as long as before",
      /does not return|referenced in part|would free/,
      ["this.#length[lower] -= length;", ""],
    ],
    [
      "the lower half is told to be as long as before",
      /^tokens of entry \d+ is \d+, expected \d+$/m,
      [told, told.replace("this.#end[lower] - this.#start[lower]", "this.#end[lower]")],
    ],
    ["the halves do not share what happened before", /^(accessCount|createdAt) of entry/m, [told, shorter]],
    [
      "a run may go while it is held",
      /may go|held/,
      [mayGo, "return this.#length[node] > 0 && this.#firstChild[node] === none;"],
    ],
    [
      "a run may go while another extends it",
      mayNot,
      [mayGo, "return this.#length[node] > 0 && this.#referencedBlocks[node] === 0;"],
    ],
    [
      "a run may go while one below it is held",
      /may go, and|added twice|which a request holds|what the policy was told is evictable/,
      ["if (this.#firstChild[node] === none) this.#host.evictable(node);", "this.#host.evictable(node);"],
    ],
    [
      "the head of a run goes first",
      /goes before \d+ blocks that extend it|and nothing that it extends|referenced in part/,
      [
        "let block = this.#last[node];\n    for (let i = 0; i < count; i++) {",
        "const node1: number[] = [];\n    for (let b = this.#last[node], n = length; n > 0; n--, b = before[b]) node1.unshift(b);\n    let block = node1[0];\n    for (let i = 0; i < count; i++) {",
      ],
      ["block = before[block];\n    }\n    this.#host.evicted", "block = node1[i + 1];\n    }\n    this.#host.evicted"],
    ],
    [
      "a shortened run is told to end where it did",
      /^depth of entry \d+ is \d+, expected \d+$/m,
      ["this.#end[node] = this.#start[node] + tokens;", ""],
    ],
    [
      "a shortened run has the key that it had",
      /^key of entry \d+ is \d+, expected \d+$/m,
      [
        "this.#host.resized(node, this.#end[node], tokens, this.#keyOf[last]);",
        "this.#host.resized(node, this.#end[node], tokens, this.#host.columns.key[node]);",
      ],
    ],
    [
      "a partial block in the middle of a run",
      /^(depth|tokens) of entry \d+ is \d+, expected \d+$/m,
      ["partialAt >= from && partialAt < insertion.to", "partialAt < from && partialAt > insertion.to"],
    ],
  ];
  test.each(faults)("%s", async (_fault, caught, ...changes) => {
    const index = await broken("radix-tree", ...changes);
    const rules = { "cache-generated": "true", publish: "finish" };
    expect(complaint(index, caught) ?? complaint(index, caught, rules)).toMatch(caught);
  });
});

/** The trie with a method of its own. */
function trieWith(own: (inner: PrefixIndex) => Pick<PrefixIndex, "matchPart">): IndexPlugin {
  const trie = indexRegistry.get("block-trie");
  return {
    ...trie,
    create(context, blockCount) {
      const inner = trie.create(context, blockCount);
      return Object.assign(inner, own(inner));
    },
  };
}

describe("a block trie that is caught:", () => {
  test("a block may go while another extends it", async () => {
    const change = ["(this.#anyVictim || this.#firstChild[entry] === none)", "true"] as const;
    expect(complaint(await broken("block-trie", change), mayNot)).toBeDefined();
  });

  test("a block that is held may go", async () => {
    const change = ["return this.#host.isIdle(entry) && ", "return "] as const;
    expect(complaint(await broken("block-trie", change), /may go, and somebody holds it|may go while/)).toBeDefined();
  });

  test("what hangs below an evicted block can still be found", async () => {
    const change = ["let end = this.#deepest(entry); end !== entry;", "let end = entry; end !== entry;"] as const;
    expect(complaint(await broken("block-trie", change), /goes before \d+ blocks/, { victims: "any" })).toBeDefined();
  });

  test("a part of a block is a token longer than it is", () => {
    const index = trieWith((inner) => {
      const matchPart = inner.matchPart!.bind(inner);
      return {
        matchPart(above, key, contents, found) {
          matchPart(above, key, contents, found);
          if (found.tokens > 0) found.tokens++;
        },
      };
    });
    expect(complaint(index, /tokens cached for request|finds|reads/, { partial: "copy" })).toBeDefined();
  });

  test("a part of a block is another namespace's", () => {
    const index = trieWith((inner) => {
      const matchPart = inner.matchPart!.bind(inner);
      return {
        matchPart(above, key, contents, found) {
          matchPart(above, key, contents, found);
          if (above >= 0 || found.tokens > 0) return;
          // Contents without a token in common, among them those of other namespaces.
          for (const block of inner.blocks()) [found.block, found.tokens] = [block, 1];
        },
      };
    });
    expect(complaint(index, /tokens cached for request|finds|reads/, { partial: "copy" })).toBeDefined();
  });
});

test.each(["block-trie", "radix-tree"])("golden counts: MRU under the name of lru is caught in a %s", async (index) => {
  const mru = { ...evictionRegistry.get("lru"), create: byScore("-lastAccess", "releaseOrder") };
  const trace = await goldenTrace();
  const hits = goldenCapacities(trace).map(
    (blocks) => replayed(trace, { index, eviction: mru, blocks }).report.hitBlocks,
  );
  expect(hits.join(" ")).not.toBe(goldenHits["lru"]);
});
