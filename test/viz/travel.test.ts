import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { asyncBufferFromFile, parquetReadObjects } from "hyparquet";
import { fileWriter, ParquetWriter, schemaFromColumnData } from "hyparquet-writer";
import { beforeAll, describe, expect, test } from "vitest";
import type { DifferenceData, LogData, MomentData, PrefixData } from "../../viz/api.ts";
import { json, kvlab, newFolder } from "../cli/program.ts";
import { type Client, dashboardOver } from "./dashboard.ts";

const folder = newFolder();
const runs = join(folder, "runs");
let client: Client;
const reports: Record<string, Awaited<ReturnType<typeof json>>> = {};

interface Row {
  readonly event: string;
  readonly timeNs: bigint;
  readonly request: number;
  readonly block: number;
  readonly key: bigint;
  readonly value: number;
}
const rows: Record<string, Row[]> = {};

beforeAll(async () => {
  const small = ["example", "--limit", "120", "--events"];
  const served = [...small, "--preset", "vllm", "--target", "sim", "--blocks", "700", "--rate", "20"];
  const made = {
    lru: served,
    again: served,
    fifo: [...served, "--eviction", "fifo"],
    cached: [...small, "--blocks", "400"],
    trees: [...small, "--preset", "sglang", "--blocks", "400"],
    others: ["other.jsonl", "--events"],
    plain: ["example", "--limit", "120"],
  };
  await kvlab(folder, ["trace", "generate", "chat", "--requests", "20", "--out", "other.jsonl"]);
  const make = async ([name, args]: [string, string[]]) => {
    reports[name] = await json(folder, ["replay", ...args, "--out", `runs/${name}`]);
    if (!args.includes("--events")) return;
    const file = await asyncBufferFromFile(join(runs, name, "events.parquet"));
    rows[name] = (await parquetReadObjects({ file })) as unknown as Row[];
  };
  await Promise.all(Object.entries(made).map(make));
  client = await dashboardOver(runs);
}, 180_000);

const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0);
const moment = (run: string, query: string) => client.get<MomentData>(`/api/runs/${run}/moment?${query}`);
const bytes = (text: string) => [...Buffer.from(text, "base64")];
const places = (run: string, event: string) => rows[run].flatMap((row, at) => (row.event === event ? [at] : []));

test("a log is summarised in metrics", async () => {
  for (const run of ["lru", "cached", "trees"]) {
    const { events, kinds, overview, blocks, firstNs, lastNs } = await client.get<LogData>(`/api/runs/${run}/log`);
    expect(events).toBe(rows[run].length);
    for (const [kind, count] of Object.entries(kinds)) expect([kind, count]).toEqual([kind, places(run, kind).length]);
    const { cache, policy } = reports[run];
    expect(kinds["evict"]).toBe(cache.evictedBlocks);
    expect(sum(overview.evicted)).toBe(cache.evictedBlocks);
    expect(kinds["publish"]).toBe(cache.insertedBlocks);
    expect([firstNs, lastNs]).toEqual([rows[run][0].timeNs, rows[run].at(-1)!.timeNs].map(Number));
    expect(blocks).toBe(Math.max(...rows[run].map(({ block }) => block)) + 1);
    expect([overview.event.length, overview.event.at(-1)]).toEqual([400, events]);
    const { counts } = await moment(run, `event=${overview.event[200]}`);
    const { free, ...used } = counts;
    expect(used).toEqual({ private: overview.private[200], held: overview.held[200], idle: overview.idle[200] });
    expect(free + sum(Object.values(used))).toBe(policy.blocks);
  }
});

describe("a moment", () => {
  test("has the state of every block, and all cached blocks in the tree", async () => {
    for (const run of ["lru", "cached", "trees"])
      for (const share of [0, 0.2, 0.5, 0.83, 1]) {
        const event = Math.floor(share * rows[run].length);
        const { counts, blocks, tree, steps, timeNs } = await moment(run, `event=${event}`);
        const { blocks: all } = reports[run].policy;
        expect([blocks.cells, blocks.blocksPerCell]).toEqual([all, 1]);
        const life = bytes(blocks.life);
        expect([0, 1, 2, 3].map((one) => life.filter((each) => each === one).length)).toEqual([
          ...[counts.free, counts.private, counts.held, counts.idle],
        ]);
        const owners = Buffer.from(blocks.owner, "base64");
        life.forEach((one, block) => {
          expect(owners.readInt32LE(4 * block) === -1).toBe(one === 0);
        });
        if (counts.idle > 0 && blocks.oldestNs > 0) expect(Math.max(...bytes(blocks.age))).toBe(255);
        expect(sum(tree.tokens)).toBe(16 * (counts.held + counts.idle));
        expect(sum(tree.heldBlocks)).toBe(counts.held);
        expect(steps).toBe(places(run, "step").filter((at) => at < event).length);
        expect(timeNs).toBe(Number(rows[run][Math.max(0, event - 1)].timeNs));
      }
  });

  test("is found by time, and before the next or the last event of a kind", async () => {
    const evicts = places("lru", "evict");
    const middle = evicts[Math.floor(evicts.length / 2)];
    const { next, before, event } = await moment("lru", `from=${middle}&next=evict`);
    expect([event, next[0].event, next[0].kind]).toEqual([middle, middle, "evict"]);
    expect(before.map((one) => one.event)).toEqual(Array.from({ length: 12 }, (_, i) => middle - 12 + i));
    expect(next.slice(1).some(({ why }) => why)).toBe(false);
    expect((await moment("lru", `from=${middle + 1}&next=evict`)).event).toBe(evicts.find((at) => at > middle));
    expect((await moment("lru", `from=${middle}&previous=evict`)).event).toBe(evicts.findLast((at) => at < middle));
    expect((await moment("lru", "from=999999999&previous=evict")).event).toBe(evicts.at(-1));
    expect((await moment("lru", "from=0&previous=evict")).event).toBe(0);
    const end = rows["lru"].length;
    expect((await moment("lru", `from=${evicts.at(-1)! + 1}&next=evict`)).event).toBe(end);
    expect((await moment("lru", "event=999999999")).event).toBe(end);
    const time = Number(rows["lru"][middle].timeNs);
    const after = rows["lru"].findIndex(({ timeNs }) => Number(timeNs) > time);
    expect((await moment("lru", `timeNs=${time}`)).event).toBe(after);
    expect((await moment("lru", "timeNs=0")).event).toBe(rows["lru"].findIndex(({ timeNs }) => timeNs > 0n));
  });

  test("has the requested number of nodes, the largest ones unmerged", async () => {
    const { tree: all } = await moment("lru", "event=99999999");
    expect(all.merged.every((count) => count === 1)).toBe(true);
    for (const nodes of [1, 2, 7, 40]) {
      const { tree } = await moment("lru", `event=99999999&nodes=${nodes}`);
      expect(tree.parent.length).toBeLessThanOrEqual(nodes);
      expect(sum(tree.merged)).toBe(all.parent.length);
      expect([sum(tree.tokens), sum(tree.hits)]).toEqual([sum(all.tokens), sum(all.hits)]);
      if (nodes === 40)
        expect(Math.max(...tree.tokens.filter((_, i) => tree.merged[i] === 1))).toBe(Math.max(...all.tokens));
    }
  });

  test("names the node of the next event's block", async () => {
    const [at] = places("lru", "hit");
    const { tree, next } = await moment("lru", `event=${at}`);
    expect(tree.block.slice(0, tree.next + 1)).toContain(next[0].block);
    expect(next[0].text).toMatch(/^request \d+ references its block 0, content \d+, cached by request \d+/);
  });
});

test("the reason of an eviction states the victim's rank in the policy's order", async () => {
  for (const [run, first] of [
    ["lru", / has been idle for [\d.]+ \S+, the longest of [\d,]+ evictable;/],
    ["trees", / has been idle for [\d,]+ events, the longest of [\d,]+ evictable;/],
    ["fifo", / was cached [\d.]+ \S+ ago, the longest ago of [\d,]+ evictable;/],
  ] as const) {
    const evicts = places(run, "evict");
    for (const at of [evicts[0], evicts[evicts.length >> 1], evicts.at(-1)!]) {
      const [{ why }] = (await moment(run, `event=${at}`)).next;
      expect(why).toMatch(/^request \d+ needs [\d,]+ blocks?, (none is|[\d,]+ (is|are)) free; physical block \d+ /);
      expect(why).toMatch(first);
    }
  }
});

describe("where two runs diverge", () => {
  const difference = (a: string, b: string) => client.get<DifferenceData>(`/api/difference?a=${a}&b=${b}`);

  test("is the first event that differs", async () => {
    const same = (a: Row, b: Row | undefined) =>
      b !== undefined && Object.keys(a).every((name) => a[name as keyof Row] === b[name as keyof Row]);
    const expected = rows["lru"].findIndex((row, at) => !same(row, rows["fifo"][at]));
    const { event, identical, timesCompared, a, b } = await difference("lru", "fifo");
    expect([event, identical, timesCompared]).toEqual([expected, false, true]);
    expect([a!.kind, b!.kind]).toEqual([rows["lru"][event].event, rows["fifo"][event].event]);
    expect(a!.text).not.toBe(b!.text);
  });

  test("is absent for a repeated run", async () => {
    const { event, ...others } = await difference("lru", "again");
    expect(others).toEqual({ identical: true, timesCompared: true });
    expect(event).toBe(rows["lru"].length);
  });

  test("ignores times if one run has no clock, and is refused for different traces", async () => {
    expect(await difference("cached", "trees")).toMatchObject({ timesCompared: false, identical: false });
    expect(await difference("lru", "cached")).toMatchObject({ timesCompared: false });
    const statuses = [
      ["lru", "others", 409],
      ["lru", "plain", 404],
      ["lru", "nobody", 404],
    ] as const;
    for (const [a, b, status] of statuses)
      expect((await client.request(`/api/difference?a=${a}&b=${b}`)).status).toBe(status);
  });
});

test("prefixes save the hit tokens of the report, and waste at most the size of the cache", async () => {
  for (const run of ["lru", "fifo", "cached", "trees"]) {
    const found = await client.get<PrefixData>(`/api/runs/${run}/prefixes?most=200`);
    const { cache, policy } = reports[run];
    expect(found.valuable.length).toBeLessThan(200);
    expect(sum(found.valuable.map(({ savedTokens }) => savedTokens))).toBe(cache.hitTokens + cache.rehitTokens);
    expect(
      found.valuable.every(({ savedTokens }, i) => i === 0 || savedTokens <= found.valuable[i - 1].savedTokens),
    ).toBe(true);
    const { tokenSeconds, wastedTokenSeconds, expected } = { ...found, expected: residentTokenSeconds(rows[run]) };
    expect(tokenSeconds / expected).toBeCloseTo(1, 6);
    expect(wastedTokenSeconds).toBeLessThan(tokenSeconds);
    expect(tokenSeconds).toBeLessThan(
      policy.blocks *
        16 *
        (run === "lru" || run === "fifo" ? Number(rows[run].at(-1)!.timeNs) / 1e9 : rows[run].length),
    );
    for (const row of [...found.valuable, ...found.wasted]) {
      expect(rows[run][row.event]).toMatchObject({ event: "publish", request: row.request, value: row.fromToken / 16 });
      expect(row.wastedTokenSeconds).toBeLessThanOrEqual(row.tokenSeconds);
      expect(row.timesEvicted).toBeLessThanOrEqual(row.timesCached);
    }
    const few = await client.get<PrefixData>(`/api/runs/${run}/prefixes?most=3`);
    expect(few).toEqual({ ...found, valuable: found.valuable.slice(0, 3), wasted: found.wasted.slice(0, 3) });
  }
});

/** Sum over cached blocks of tokens × residence time in the cache. */
function residentTokenSeconds(log: readonly Row[]): number {
  const hasClock = log.at(-1)!.timeNs > 0n;
  const timeOf = (at: number) => (hasClock ? Number(log[Math.min(at, log.length - 1)].timeNs) / 1e9 : at);
  const isGone = ({ event }: Row) => event === "evict" || event === "drop";
  // A prompt's last block may be partial; its eviction has the length.
  const tokens = new Map(log.filter(isGone).map(({ key, value }) => [key, value % 16 || 16]));
  const cached = new Map<number, { since: number; key: bigint }>();
  let total = 0;
  const end = (block: number, at: number) => {
    const { since, key } = cached.get(block)!;
    total += (tokens.get(key) ?? 16) * (timeOf(at) - since);
    cached.delete(block);
  };
  log.forEach((row, at) => {
    if (row.event === "publish") cached.set(row.block, { since: timeOf(at), key: row.key });
    if (isGone(row)) end(row.block, at);
  });
  for (const block of [...cached.keys()]) end(block, log.length);
  return total;
}

const of = (run: string, what: string) => client.request(`/api/runs/${run}/${what}`);
const refusal = async (run: string, what: string) => {
  const { status, text } = await of(run, what);
  expect(text).not.toContain("\\n");
  return [status, JSON.parse(text).error];
};

test("a run without an event log is refused with a message", async () => {
  for (const what of ["log", "moment?event=1", "prefixes"])
    expect(await refusal("plain", what)).toEqual([404, "the run was saved without its events (kvlab replay --events)"]);
});

test.each([
  "moment",
  "moment?event=-1",
  "moment?event=1e3",
  "moment?event=99999999999999999999",
  "moment?event=1&event=2",
  "moment?event[]=1",
  "moment?event=1&nodes=0",
  "moment?event=1&nodes=99999999",
  "moment?event=1&timeNs=4",
  "moment?from=1",
  "moment?next=evict",
  "moment?from=1&next=evict&previous=evict",
  "moment?from=1&next=__proto__",
  "moment?from=1&next=",
  "moment?event=1&what=2",
  "log?event=1",
  "prefixes?most=0",
  "prefixes?most=201",
])("an invalid query is refused: %s", async (what) => {
  const [status] = await refusal("lru", what);
  expect(status).toBe(400);
});

test("a log that is a link out of the folder is refused", async () => {
  cpSync(join(runs, "plain"), join(runs, "linked"), { recursive: true });
  symlinkSync(join(runs, "lru/events.parquet"), join(runs, "linked/events.parquet"));
  expect((await of("linked", "log")).status).toBe(404);
  rmSync(join(runs, "linked"), { recursive: true });
  for (const id of ["..%2flru", "%2e%2e", "lru%2f..%2flru"]) expect([400, 404]).toContain((await of(id, "log")).status);
});

describe("a damaged log is refused in one line and does not affect other runs", () => {
  const fresh = (name: string) => {
    cpSync(join(runs, "plain"), join(runs, name), { recursive: true });
    return join(runs, name, "events.parquet");
  };

  test("with missing or changed bytes", async () => {
    const whole = readFileSync(join(runs, "cached/events.parquet"));
    const path = fresh("bytes");
    for (const content of [
      whole.subarray(0, 900),
      Buffer.alloc(0),
      Buffer.from("PAR1"),
      Buffer.from(whole).fill(7, 200, 9000),
    ]) {
      writeFileSync(path, content);
      expect(await refusal("bytes", "log")).toEqual([422, expect.stringMatching(/^events.parquet is damaged \(.+\)$/)]);
    }
    writeFileSync(path, whole);
    expect((await of("bytes", "log")).status).toBe(200);
  });

  const good = [
    ["admit", 0, 0, -1, 0, 0],
    ["allocate", 0, 0, 5, -1, 0],
    ["publish", 5, 0, 5, 17, 0],
    ["release", 9, 0, 5, -1, 1],
  ] as const;
  test.each<[string, readonly (readonly [string, ...number[]])[], RegExp]>([
    ["an unknown event", [["explode", 9, 0, 5, -1, 1]], /event 4 is "explode", which is not a kind of event/],
    ["a name of Object.prototype", [["constructor", 9, 0, 5, -1, 1]], /event 4 is "constructor"/],
    [
      "a block number beyond any cache",
      [["allocate", 9, 0, 2 ** 26, -1, 0]],
      /event 4 \(allocate\): block 67108864, expected 0 to/,
    ],
    ["a block below 0", [["evict", 9, 0, -7, 17, 16]], /event 4 \(evict\): block -7, expected/],
    ["a time before the last one", [["step", 8, -1, -1, 1, 1]], /event 4 \(step\): its time is 8 ns, after 9/],
    ["a time below 0", [["step", -8, -1, -1, 1, 1]], /its time is -8 ns/],
    ["a hit of a free block", [["hit", 9, 1, 6, 17, 0]], /block 6 is free, expected referenced or idle/],
    ["a block that is allocated twice", [["allocate", 9, 1, 5, -1, 0]], /block 5 is idle, expected free/],
    ["an index beyond any prompt", [["allocate", 9, 1, 6, -1, 2 ** 30]], /place 1073741824, expected/],
    ["a miss without reason", [["miss", 9, 1, -1, 4, 9]], /its reason is 9, expected 0 to 6/],
    ["a fractional time", [["step", 9.5, -1, -1, 1, 1]], /event 4: timeNs is 9.5, expected a whole number/],
  ])("%s", async (_, bad, expected) => {
    const path = fresh("written");
    await writeLog(path, [...good, ...bad]);
    expect(await refusal("written", "moment?event=2")).toEqual([422, expect.stringMatching(expected)]);
    rmSync(join(runs, "written"), { recursive: true });
  });

  test("and the same log without the damage is read", async () => {
    await writeLog(fresh("good"), good);
    const { counts, running } = await moment("good", "event=3");
    expect([counts.held, running]).toEqual([1, [0]]);
    const { oldestNs } = (await moment("good", "event=4")).blocks;
    expect(oldestNs).toBe(0);
  });

  test("a report with unknown rules is read", async () => {
    await writeLog(fresh("rules"), good);
    const path = join(runs, "rules/run.json");
    const report = JSON.parse(readFileSync(path, "utf8"));
    for (const rules of [5, { victims: 5 }, undefined]) {
      writeFileSync(path, JSON.stringify({ ...report, policy: { ...report.policy, rules } }));
      expect((await moment("rules", "event=3")).counts.held).toBe(1);
    }
  });

  test("with other columns", async () => {
    const path = fresh("columns");
    cpSync(join(runs, "lru/requests.parquet"), path);
    expect(await refusal("columns", "log")).toEqual([422, "events.parquet is damaged (it has no column event)"]);
  });

  test("with a row count that is too small", async () => {
    mkdirSync(join(runs, "short"));
    cpSync(join(runs, "plain/run.json"), join(runs, "short/run.json"));
    const data = [...Array(50).keys()];
    const columnData = [{ name: "request", data, type: "INT32" as const, nullable: false }];
    const writer = new ParquetWriter({
      writer: fileWriter(join(runs, "short/requests.parquet")),
      schema: schemaFromColumnData({ columnData }),
    });
    await writer.write({ columnData });
    writer.num_rows = 3n;
    await writer.finish();
    expect(await refusal("short", "requests")).toEqual([
      422,
      "requests.parquet is damaged (column request is too long)",
    ]);
    expect((await client.request("/api/runs")).status).toBe(200);
  });
});

async function writeLog(path: string, events: readonly (readonly [string, ...number[]])[]): Promise<void> {
  const isWhole = events.every(([, timeNs]) => Number.isInteger(timeNs));
  const column = (at: number) => events.map((event) => event[at] as number);
  const columnData = [
    { name: "event", data: events.map(([name]) => name), type: "STRING" as const },
    isWhole
      ? { name: "timeNs", data: BigInt64Array.from(column(1), BigInt), type: "INT64" as const }
      : { name: "timeNs", data: Float64Array.from(column(1)), type: "DOUBLE" as const },
    { name: "request", data: Int32Array.from(column(2)), type: "INT32" as const },
    { name: "block", data: Int32Array.from(column(3)), type: "INT32" as const },
    { name: "key", data: BigInt64Array.from(column(4), BigInt), type: "INT64" as const },
    { name: "value", data: Int32Array.from(column(5)), type: "INT32" as const },
  ].map((one) => ({ ...one, nullable: false }));
  const writer = new ParquetWriter({ writer: fileWriter(path), schema: schemaFromColumnData({ columnData }) });
  await writer.write({ columnData });
  await writer.finish();
}
