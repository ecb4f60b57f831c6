import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { hasRecordedTraces, recordedTracePath } from "../support/recordings.ts";
import { ended, json, kvlab, newFolder, refusal, startReporting, untilDoing } from "./program.ts";

const count = z.number().int().min(0);
const field = z.number().int().min(-1);
const named = z.object({
  content: count,
  request: count,
  block: count,
  part: z.enum(["prompt", "answer"]),
  fromToken: count,
  toToken: count,
});
const event = z.object({
  event: z.string(),
  request: count.or(z.literal(-1)),
  block: field,
  key: field,
  value: field,
  cachedBy: count.nullable(),
  usedBy: count.nullable(),
});
const blocks = z.object({ free: count.nullable(), private: count, cachedHeld: count, cachedIdle: count });
const side = z.object({
  event: event.nullable(),
  words: z.string(),
  hitBlocks: count,
  refused: z.boolean(),
  before: blocks,
  after: blocks,
  onlyHere: z.object({ count, first: z.array(named).max(5) }),
});
const pair = z.object({
  first: z.literal(0),
  second: count,
  verdict: z.enum(["identical", "same-decisions", "different"]),
  compared: z.object({
    requests: count,
    events: count,
    hitBlocks: count,
    evictedBlocks: count,
    refusedRequests: count,
  }),
  asides: z.array(
    z.object({
      aside: z.enum(["block-numbers", "release-order", "miss-reasons"]),
      firstRequest: count.nullable(),
      requests: count,
    }),
  ),
  difference: z
    .object({
      request: z.object({ id: count, inputTokens: count, promptBlocks: count }),
      context: z.array(event.extend({ words: z.string() })).max(6),
      sides: z.array(side).length(2),
    })
    .nullable(),
});
/** The contract with other programs. Fields may be added, so objects are not strict; none may be removed. */
const schema = z.object({
  schema: z.literal("first-difference/1"),
  kvlab: z.string(),
  trace: z.object({ files: z.array(z.string()), requests: count }),
  seed: count,
  identical: z.boolean(),
  configurations: z.array(z.object({ name: z.string(), index: z.string(), eviction: z.string(), rules: z.object({}) })),
  sizes: z.array(
    z.object({ blocks: count.nullable(), share: z.number().nullable(), identical: z.boolean(), pairs: z.array(pair) }),
  ),
});

/** LRU, as an insertion-ordered set; at its fiftieth eviction it evicts the second entry instead of the first. */
const planted = `
export default {
  create() {
    const order = new Set();
    let evictions = 0;
    return {
      add: (entry) => order.add(entry),
      remove: (entry, why) => { order.delete(entry); if (why === "evicted") evictions++; },
      victim() { const [due, next] = order; return evictions === FIFTIETH && next !== undefined ? next : due; },
    };
  },
};`;

function folderWithPolicies(): string {
  const folder = newFolder();
  writeFileSync(join(folder, "planted.ts"), planted.replace("FIFTIETH", "49"));
  writeFileSync(join(folder, "same.ts"), planted.replace("FIFTIETH", "-1"));
  return folder;
}

/** Blocks A to C of 512 tokens, two of which fit: FIFO evicts A where LRU evicts B. */
function smallTrace(): string {
  const folder = newFolder();
  const lines = [0, 1, 0, 2, 0].map((id, i) =>
    JSON.stringify({ timestamp: i, input_length: 500, output_length: 2, hash_ids: [id] }),
  );
  writeFileSync(join(folder, "small.jsonl"), `${lines.join("\n")}\n`);
  return folder;
}

const compare = (...args: string[]) => ["compare", ...args, "--first-difference"];

async function document(folder: string, ...args: string[]) {
  const { code, stdout, stderr } = await kvlab(folder, [...compare(...args), "--json"]);
  expect(stderr).toBe("");
  const parsed = schema.parse(JSON.parse(stdout));
  expect(code).toBe(parsed.identical ? 0 : 1);
  return parsed;
}

describe.concurrent("compare --first-difference", () => {
  test("shows both sides at the divergence, as derived by hand, and exits with 1", async () => {
    const args = compare("small.jsonl", "--eviction", "lru,fifo", "--blocks", "2");
    const { code, stdout, stderr } = await kvlab(smallTrace(), args);
    expect({ code, stderr }).toEqual({ code: 1, stderr: "" });
    expect(stdout).toContain("fifo: diverges from lru at request 3; identical until then: 3 requests,");
    expect(stdout.replace(/\s+/g, " ")).toContain(" events, 1 block hit, 0 evicted");
    expect(stdout).toContain("request 3: 500 prompt tokens, 1 block, 0 of them hits\n");
    expect(stdout).toContain(
      "request 3 misses content 2 (block 0 of request 3's prompt, tokens 0–500):\n        never-seen\n",
    );
    const sides = stdout.slice(stdout.indexOf("next")).replace(/\s+/g, " ");
    expect(sides).toContain("request 3 evicts content 1 request 3 evicts content 0");
    expect(sides).toContain("1 content 1 content 0: request 0, block 0 1: request 1, block 0 ");
    expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(stdout).not.toContain("\x1b");
  });

  test("prints the same as schema first-difference/1", async () => {
    const { sizes, configurations, trace } = await document(
      smallTrace(),
      ...["small.jsonl", "--eviction", "lru,fifo", "--blocks", "2,3"],
    );
    expect(trace.requests).toBe(5);
    expect(configurations.map(({ name, eviction }) => [name, eviction])).toEqual([
      ["lru", "lru"],
      ["fifo", "fifo"],
    ]);
    expect(sizes.map(({ blocks, identical }) => [blocks, identical])).toEqual([
      [2, false],
      [3, true],
    ]);
    const [{ pairs }, roomy] = sizes;
    const { request, sides } = pairs[0].difference!;
    expect(request).toEqual({ id: 3, inputTokens: 500, promptBlocks: 1 });
    expect(sides.map(({ words }) => words)).toEqual([
      "request 3 evicts content 1 (block 0 of request 1's prompt, tokens 0–500), cached by request 1, last used by request 1; physical block 1",
      "request 3 evicts content 0 (block 0 of request 0's prompt, tokens 0–500), cached by request 0, last used by request 2; physical block 0",
    ]);
    for (const { before, after } of sides)
      expect([before, after]).toEqual(Array(2).fill({ free: 0, private: 0, cachedHeld: 0, cachedIdle: 2 }));
    expect(sides.map(({ onlyHere }) => onlyHere.first.map(({ content }) => content))).toEqual([[0], [1]]);
    expect(roomy.pairs[0]).toMatchObject({ verdict: "identical", compared: { requests: 5, hitBlocks: 2 } });
  });

  test("counts identical decisions as a replay does, and exits with 0", async () => {
    const folder = folderWithPolicies();
    const args = ["--limit", "800", "--eviction", "lru,./same.ts", "--blocks", "1000"];
    const { code, stdout } = await kvlab(folder, compare(...args));
    const { cache } = await json(folder, ["replay", "--limit", "800", "--blocks", "1000", "--no-save"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/same: identical decisions \(800 requests, [\d,]+ events, /);
    const grouped = (n: number) => n.toLocaleString("en-US");
    expect(stdout.replace(/\s+/g, " ")).toContain(
      `${grouped(cache.hitBlocks)} blocks hit, ${grouped(cache.evictedBlocks)} evicted)`,
    );
    expect(readdirSync(folder).sort()).toEqual(["planted.ts", "same.ts"]);
  });

  test("finds the different victim at the fiftieth eviction of a user's policy, and no other difference", async () => {
    const args = ["--limit", "400", "--eviction", "lru,./same.ts,./planted.ts", "--blocks", "500,1000"];
    const { sizes } = await document(folderWithPolicies(), ...args);
    for (const { pairs } of sizes) {
      expect(pairs.map(({ verdict }) => verdict)).toEqual(["identical", "different"]);
      expect(pairs[1].compared.evictedBlocks).toBe(49);
      expect(pairs[1].difference!.sides.map((side) => side.event?.event)).toEqual(["evict", "evict"]);
    }
  });

  test("reports differences that are not decisions", async () => {
    const args = ["--limit", "150", "--rule", "free-order=reverse,forward", "--blocks", "100000"];
    const { sizes } = await document(newFolder(), ...args, "--audit");
    const [{ verdict, asides }] = sizes[0].pairs;
    expect(verdict).toBe("same-decisions");
    expect(asides).toContainEqual({ aside: "release-order", firstRequest: 0, requests: expect.any(Number) });
    expect(asides).toContainEqual({ aside: "block-numbers", firstRequest: null, requests: 0 });
    const { code, stdout } = await kvlab(newFolder(), compare(...args));
    expect(code).toBe(0);
    expect(stdout.replace(/\s+/g, " ")).toMatch(
      /free-order=forward: identical decisions; the order in which blocks are released differs from request 0 on, in \d+ requests \(/,
    );
  });

  test("compares indexes, and names the rules whose defaults differ", async () => {
    const args = ["--limit", "400", "--index", "hash-table,none,block-trie", "--blocks", "500"];
    const { stdout } = await kvlab(newFolder(), compare(...args));
    expect(stdout).toContain("none: diverges from hash-table at request 0; ");
    expect(stdout.replace(/\s+/g, " ")).toMatch(
      /block-trie: identical decisions; rules differ: .*victims=any and leaf /,
    );
  });

  test("counts refusals as decisions", async () => {
    const args = ["small.jsonl", "--rule", "reserve=grow,worst-case", "--block-size", "512"];
    const folder = newFolder();
    const long = { timestamp: 0, input_length: 1000, output_length: 900, hash_ids: [1, 2] };
    writeFileSync(
      join(folder, "small.jsonl"),
      `${JSON.stringify({ ...long, hash_ids: [1, 2, 3, 4], input_length: 2000 })}\n${JSON.stringify(long)}\n`,
    );
    const { sizes } = await document(folder, ...args, "--blocks", "3");
    const [{ compared, difference }] = sizes[0].pairs;
    expect(compared).toMatchObject({ requests: 1, refusedRequests: 1 });
    expect(difference!.sides.map(({ refused }) => refused)).toEqual([false, true]);
    expect(difference!.sides[1].words).toBe("request 1 is refused: it needs more blocks than the cache has");
  });

  test("names the plug-in file whose policy fails", async () => {
    const folder = newFolder();
    const bad = "export default { create: () => ({ add() {}, remove() {}, victim: () => 12345 }) };";
    writeFileSync(join(folder, "bad.ts"), bad);
    expect(await refusal(folder, compare("--eviction", "lru,./bad.ts", "--blocks", "500"))).toMatch(
      /^\.\/bad\.ts: at request \d+: eviction policy returned entry 12345/,
    );
  });

  test.each([
    [["--out", "x"], "--first-difference and --out exclude each other: no metrics are shown or saved"],
    [["--metric", "token"], "--first-difference and --metric exclude each other: no metrics are shown or saved"],
    [["--warmup", "5"], "--first-difference and --warmup exclude each other: no metrics are shown or saved"],
    [[], "--first-difference compares two combinations or more, such as --eviction lru,fifo"],
    [
      ["--rule", "cache-generated=true,false"],
      /^--first-difference compares content ids, .*; give each rule one value$/,
    ],
  ])("refuses %j", async (args, message) => {
    expect(await refusal(newFolder(), compare("--limit", "50", ...args))).toMatch(message);
  });
});

test("a signal ends it with exit code 130, one line and no files", async () => {
  const folder = newFolder();
  const sizes = Array.from({ length: 400 }, (_, i) => 40_000 + i).join(",");
  const child = startReporting(folder, compare("--rule", "duplicates=adopt,keep,swap", "--blocks", sizes));
  const end = ended(child);
  await untilDoing(child, "comparing");
  child.kill("SIGINT");
  expect(await end).toEqual({ code: 130, stdout: "", stderr: "kvlab: interrupted\n" });
  expect(readdirSync(folder)).toEqual([]);
});

describe.runIf(hasRecordedTraces)("with the recorded traces", () => {
  test("rules about duplicates have no effect if requests are served one at a time", async () => {
    const file = recordedTracePath("mooncake/conversation_trace.jsonl.gz");
    const { sizes } = await document(newFolder(), file, "--rule", "duplicates=adopt,keep", "--blocks", "10000");
    expect(sizes[0].pairs[0]).toMatchObject({
      verdict: "identical",
      compared: { requests: 12_031, hitBlocks: 61_046, evictedBlocks: 217_454 },
    });
  });
});
