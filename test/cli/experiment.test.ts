import { readFileSync } from "node:fs";
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { seededRandom } from "../../core/random.ts";
import { hasShape } from "../../lab/experiments/experiment.ts";
import { shareGptLike } from "../../lab/experiments/lmdeploy-1407.ts";
import { lengthsOf } from "../../lab/experiments/requests.ts";
import { runExperiment } from "../../lab/experiments/run-experiment.ts";
import { ended, json, kvlab, newFolder, refusal, start } from "./program.ts";

/** Replays and short simulations, which are run without the program. */
const direct = ["scan-resistance", "t-lru", "marconi", "in-the-wild", "mooncake-toolagent"] as const;
const names = [
  "roseinfer",
  "lmdeploy-1407",
  "block-size",
  "prefix-pool",
  "efficient-router",
  "token-attention",
  "lightllm-sharegpt",
  "continuous-batching",
  "batching-extremes",
  "routers",
  "disaggregation",
  "continuum",
  ...direct,
] as const;
type Name = (typeof names)[number];

const metricValues = z.record(z.string(), z.number().min(0));
/** The contract with other programs. */
const schema = z.strictObject({
  schema: z.literal("experiment/1"),
  kvlab: z.string(),
  name: z.enum(names),
  about: z.string(),
  source: z.string(),
  seed: z.literal(1),
  target: z.literal("sim"),
  workload: z.string(),
  rows: z.array(
    z.strictObject({
      configuration: z.string(),
      published: metricValues.nullable(),
      simulated: metricValues,
      ratio: metricValues.nullable(),
    }),
  ),
  headlines: z.array(
    z.strictObject({
      ratio: z.string(),
      published: z.union([z.number(), z.array(z.number().nullable()).length(2)]).nullable(),
      simulated: z.number().positive(),
      hasShape: z.boolean().nullable(),
    }),
  ),
  explanations: z.array(z.string().min(1)).min(1),
  verdict: z.strictObject({ compared: z.number(), haveShape: z.number(), deviating: z.array(z.string()) }),
});
type Document = z.infer<typeof schema>;

const documents = {} as Record<Name, Document>;

// Each experiment takes seconds, so each runs once, two at a time.
beforeAll(async () => {
  const left = names.slice(0, -direct.length);
  const work = async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift())
      documents[name] = schema.parse(await json(newFolder(), ["experiment", name]));
  };
  const replays = async () => {
    for (const name of direct)
      documents[name] = schema.parse(JSON.parse(JSON.stringify((await runExperiment(name)).report)));
  };
  await Promise.all([work(), work(), replays()]);
}, 300_000);

const ratio = (name: Name, of: string) => {
  const found = documents[name].headlines.find((headline) => headline.ratio === of);
  if (found === undefined) throw new Error(`${name} has no ratio "${of}"`);
  return found.simulated;
};
const metric = (name: Name, configuration: string, of: string) => {
  const row = documents[name].rows.find((each) => each.configuration === configuration);
  const value = row?.simulated[of];
  if (value === undefined) throw new Error(`${name} has no ${of} of "${configuration}"`);
  return value;
};

test.each(names)("%s prints one document, whose rows have our metrics and the published ones", (name) => {
  const { rows, headlines, verdict } = documents[name];
  expect(new Set(rows.map(({ configuration }) => configuration)).size).toBe(rows.length);
  for (const { published, ratio: quotients, simulated } of rows) {
    expect(Object.keys(published ?? {})).toEqual(Object.keys(quotients ?? {}));
    for (const name of Object.keys(published ?? {}))
      expect(quotients![name]).toBeCloseTo(simulated[name] / published![name]);
  }
  const compared = headlines.filter(({ published }) => published !== null);
  expect(verdict).toEqual({
    compared: compared.length,
    haveShape: compared.filter(({ hasShape: has }) => has === true).length,
    deviating: compared.filter(({ hasShape: has }) => has === false).map((headline) => headline.ratio),
  });
});

describe("published results are reproduced", () => {
  test("roseinfer: a cached prompt takes a fraction of the time, tokens a second gain less, naive has no hits", () => {
    for (const scheduler of ["offline", "online"]) {
      const prompts = ratio("roseinfer", `${scheduler}: prefill time, off ÷ on`);
      expect(prompts).toBeGreaterThan(2);
      expect(prompts).toBeLessThan(8);
      const tokens = ratio("roseinfer", `${scheduler}: tokens/s, on ÷ off`);
      expect(tokens).toBeGreaterThan(1.2);
      expect(tokens).toBeLessThan(prompts);
    }
    expect(metric("roseinfer", "naive, off", "hitRatioToken")).toBe(0);
    expect(metric("roseinfer", "offline, on", "hitRatioToken")).toBe(63 / 64);
    expect(metric("roseinfer", "offline, on, one step", "hitRatioToken")).toBe(0);
  });

  test("lmdeploy-1407: the cache serves a thousand chats faster by a tenth or more, blocks of 64 by less", () => {
    const gain = ratio("lmdeploy-1407", "requests/s, on ÷ off");
    expect(gain).toBeGreaterThan(1.08);
    expect(gain).toBeLessThan(1.4);
    // 96 of the 110 shared tokens, of all but the few requests of the first step.
    expect(metric("lmdeploy-1407", "on, blocks of 16", "hitRatioToken")).toBeCloseTo((96 * 990) / 336_509, 2);
    const rate = (row: string) => metric("lmdeploy-1407", row, "requestsPerS");
    expect(rate("on, blocks of 64")).toBeGreaterThan(rate("off"));
    expect(rate("on, blocks of 64")).toBeLessThan(rate("on, blocks of 16"));
  });

  test("block-size: a block of 64 loses up to 63 tokens of a prefix, one of 16 up to 15, one of 1 none", () => {
    for (const size of [64, 32, 16, 1])
      expect(metric("block-size", `blocks of ${size}`, "lostTokensMax")).toBe(size - 1);
    const hits = [64, 32, 16, 1].map((size) => metric("block-size", `blocks of ${size}`, "hitRatioToken"));
    expect(hits).toEqual(hits.toSorted((a, b) => a - b));
    expect(ratio("block-size", "requests/s, blocks of 16 ÷ 64")).toBeGreaterThan(1);
  });

  test("prefix-pool: two to three times as fast, and only smaller batches make groups slower than the pool", () => {
    expect(ratio("prefix-pool", "13B: time, plain ÷ pool")).toBeGreaterThan(2);
    expect(ratio("prefix-pool", "13B: time, plain ÷ pool")).toBeLessThan(4);
    const { rows, verdict } = documents["prefix-pool"];
    for (const count of [107, 500]) {
      const time = (row: string) => metric("prefix-pool", `${count}: ${row}`, "makespanS");
      expect(time("groups")).toBeLessThan(time("trie, no groups"));
      expect(time("batches of 4")).toBeGreaterThan(2 * time("trie, no groups"));
      // The published ratio is not reproduced by numbers that would have to be inferred from it.
      expect(verdict.deviating).toContain(`${count}: time, groups ÷ generate with the pool`);
      const compared = rows.filter(
        ({ configuration, published }) => published && configuration.startsWith(`${count}:`),
      );
      expect(compared.map(({ configuration }) => configuration)).toEqual(
        ["SGLang", "trie, no groups", "groups"].map((row) => `${count}: ${row}`),
      );
    }
  });

  test("efficient-router: about 1.5 times the requests per second of reserving the longest outputs", () => {
    const gain = ratio("efficient-router", "requests/s, router with typical outputs ÷ no router");
    expect(gain).toBeGreaterThan(1.25);
    expect(gain).toBeLessThan(2);
    expect(ratio("efficient-router", "requests/s, prefix counted once ÷ per request")).toBeGreaterThan(1.1);
    expect(metric("efficient-router", "router, longest outputs", "preemptions")).toBe(0);
  });

  test("token-attention: nothing is wasted by token, more the larger the block; TGI gains twice and more", () => {
    const wasted = ["by token", "blocks of 16", "blocks of 64", "blocks of 256"].map((row) =>
      metric("token-attention", row, "wasted"),
    );
    expect(wasted[0]).toBe(0);
    expect(wasted).toEqual(wasted.toSorted((a, b) => a - b));
    expect(wasted[3]).toBeGreaterThan(0.05);
    expect(ratio("token-attention", "requests/s, TGI with token and router ÷ plain TGI")).toBeGreaterThan(2);
  });

  test("lightllm-sharegpt: the router alone gains little, and TGI's token budget costs half the throughput", () => {
    for (const row of ["7B", "7B, limit 1024"]) {
      const gain = ratio("lightllm-sharegpt", `${row}: requests/s, router ÷ no router`);
      expect(gain).toBeGreaterThan(0.95);
      expect(gain).toBeLessThan(1.1);
    }
    expect(ratio("lightllm-sharegpt", "65B: requests/s, LightLLM ÷ TGI")).toBeGreaterThan(1.5);
  });

  test("batching-extremes: without batching latency grows with the users, with batching throughput does", () => {
    const perS = (row: string) => metric("batching-extremes", row, "requestsPerS");
    expect(perS("10 users, no batching")).toBeCloseTo(perS("1 user, no batching"), 1);
    expect(perS("10 users, continuous")).toBeGreaterThan(4 * perS("1 user, continuous"));
    expect(ratio("batching-extremes", "10 users: latency p50, no batching ÷ continuous")).toBeGreaterThan(5);
    expect(ratio("batching-extremes", "continuous: latency p50, 10 users ÷ 1 user")).toBeLessThan(2);
  });

  test("continuous-batching: shorter TTFT and more requests per second, but longer TPOT", () => {
    for (const rate of [1, 4, 8, 16]) {
      expect(ratio("continuous-batching", `${rate}/s: TTFT p50, static ÷ continuous`)).toBeGreaterThan(3);
      expect(ratio("continuous-batching", `${rate}/s: TTFT p50, radix off ÷ on`)).toBeGreaterThan(1.2);
      const of = (name: string, metricName: string) => metric("continuous-batching", `${rate}/s ${name}`, metricName);
      expect(of("continuous", "requestsPerS")).toBeGreaterThanOrEqual(of("static", "requestsPerS"));
      expect(of("continuous", "tpotMsMean")).toBeGreaterThan(of("static", "tpotMsMean"));
    }
  });

  test("routers: routing by prefix has more hits and fewer copies, but more imbalance", () => {
    const of = (name: string, metricName: string) => metric("routers", `16 ${name}`, metricName);
    for (const name of ["session-affinity", "dynamo-kv", "consistent-hash", "prefix-affinity"])
      expect(of(name, "hitRatioToken"), name).toBeGreaterThan(1.2 * of("round-robin", "hitRatioToken"));
    expect(of("prefix-affinity", "duplicated")).toBeLessThan(of("round-robin", "duplicated") / 2);
    expect(of("prefix-affinity", "imbalance")).toBeGreaterThan(of("round-robin", "imbalance"));
    expect(of("prefix-affinity", "ttftMsP50")).toBeLessThan(of("round-robin", "ttftMsP50"));
  });

  test("disaggregation: more requests than mixed serving within a tight TPOT, not more within a loose one", () => {
    const of = (slo: string, name: string) =>
      ratio("disaggregation", `${slo} SLO: requests/s at 90 %, separate ÷ mixed, ${name}`);
    for (const name of ["prefill first", "chunked prefill"]) {
      expect(of("tight", name)).toBeGreaterThan(1.2);
      expect(of("loose", name)).toBeLessThanOrEqual(1);
    }
    for (const rate of [8, 16, 24]) {
      const tpot = (name: string) => metric("disaggregation", `${rate}/s ${name}`, "tpotMsP90");
      expect(tpot("1 prefill, 3 decode")).toBeLessThan(tpot("mixed, chunked prefill"));
    }
  });

  test("continuum: the time to live and service by session make jobs faster under load, less than a cache without evictions", () => {
    const job = (name: string) => metric("continuum", name, "jobS");
    for (const load of ["0.15/s", "0.2/s"]) {
      expect(job(`${load} continuum`)).toBeLessThan(0.95 * job(`${load} lru`));
      expect(job(`${load} continuum, by session`)).toBeLessThan(job(`${load} continuum`));
      expect(job(`${load} no eviction`)).toBeLessThan(job(`${load} continuum, by session`));
    }
    expect(job("0.1/s continuum")).toBeCloseTo(job("0.1/s lru"), 6);
  });

  test("scan-resistance: after the scan LRU has none of the 1,024 hot tokens and ARC all, as published", () => {
    const hits = (policy: string) => metric("scan-resistance", policy, "hitTokens");
    for (const policy of ["lru", "fifo", "clock", "2q"]) expect(hits(policy)).toBe(0);
    for (const policy of ["arc", "s3-fifo", "sieve", "slru", "lfu", "w-tinylfu"]) expect(hits(policy)).toBe(1024);
    for (const policy of ["tinylfu", "lirs"]) expect(hits(policy)).toBe(768);
  });

  test("t-lru: TTFT p90 and p95 are lower than with LRU by about a quarter, the median is higher", () => {
    for (const share of ["p90", "p95"]) {
      expect(ratio("t-lru", `TTFT ${share}, t-lru ÷ lru, the lowest`)).toBeGreaterThan(0.6);
      expect(ratio("t-lru", `TTFT ${share}, t-lru ÷ lru, the lowest`)).toBeLessThan(0.85);
    }
    const median = (policy: string) => metric("t-lru", `4,500 blocks, ${policy}`, "ttftMsP50");
    expect(median("t-lru:threshold-tokens=2000")).toBeGreaterThan(median("lru"));
  });

  test("marconi: the tuned weight has more hits than LRU in small caches and as many in large ones", () => {
    const hits = (share: string, policy: string) => metric("marconi", `${share}, ${policy}`, "hitRatioToken");
    for (const share of ["3 %", "6 %", "10 %"])
      expect(hits(share, "marconi")).toBeGreaterThan(1.03 * hits(share, "lru"));
    expect(hits("20 %", "marconi")).toBe(hits("20 %", "lru"));
    expect(hits("20 %", "marconi:alpha=0.5")).toBeLessThan(hits("20 %", "lru"));
  });

  test("in-the-wild: workload-aware eviction has more hits than LRU, and more so in smaller caches", () => {
    const gains = ["2 %", "5 %", "10 %", "20 %"].map((share) =>
      ratio("in-the-wild", `hits, workload-aware ÷ lru, ${share}`),
    );
    expect(gains).toEqual(gains.toSorted((a, b) => b - a));
    expect(gains[1]).toBeGreaterThan(1.08);
    expect(gains[3]).toBeGreaterThanOrEqual(1);
  });

  test("mooncake-toolagent: LRU of leaves is LRU that evicts the deepest block of a prompt first", () => {
    for (const share of ["2 %", "5 %", "10 %", "20 %"]) {
      const hits = (cache: string) => metric("mooncake-toolagent", `${share}, ${cache}`, "hitRatioBlock");
      expect(hits("lru of leaves")).toBe(hits("lru, deepest block first"));
      expect(hits("lru of leaves")).toBeGreaterThanOrEqual(hits("lru, first block first"));
      expect(hits("gdsf, leaves")).toBeGreaterThan(hits("lru of leaves"));
    }
  });
});

test("all experiments are listed, tables fit 100 columns, and a seed is reproducible", async () => {
  const folder = newFolder();
  const { experiments } = await json(folder, ["experiment"]);
  expect(experiments.map(({ name }: { name: string }) => name)).toEqual(names);
  const list = await kvlab(folder, ["experiment"]);
  for (const name of names) expect(list.stdout).toContain(`  ${name} `);
  const { code, stdout, stderr } = await kvlab(folder, ["experiment", "roseinfer"]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(/offline: prefill time, off ÷ on +4\.33/);
  expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(100);
  expect(await json(folder, ["experiment", "roseinfer"])).toEqual(documents.roseinfer);
});

test("help has an example and fits 80 columns", async () => {
  const { code, stdout } = await kvlab(newFolder(), ["experiment", "--help"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/Examples:\n {2}kvlab experiment/);
  expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
});

test("--gpu and --model change the metrics, and --trace replaces the requests", async () => {
  const folder = newFolder();
  const faster = await json(folder, ["experiment", "roseinfer", "--gpu", "h200", "--model", "qwen2.5-7b"]);
  expect(faster.rows[0].simulated).not.toEqual(documents.roseinfer.rows[0].simulated);
  await kvlab(folder, ["trace", "generate", "chat", "--requests", "200", "--out", "chat.jsonl"]);
  const { workload, rows } = await json(folder, ["experiment", "routers", "--trace", "chat.jsonl", "--limit", "150"]);
  expect(workload).toMatch(/^150 requests of the trace/);
  expect(rows).toHaveLength(1 + 2 * 8);
});

test("invalid options are refused in one line", async () => {
  const folder = newFolder();
  expect(await refusal(folder, ["experiment", "block-sise"])).toBe(
    'no experiment "block-sise": did you mean "block-size"?',
  );
  expect(await refusal(folder, ["experiment", "nothing-like-it"])).toMatch(/expected one of roseinfer, lmdeploy-1407/);
  expect(await refusal(folder, ["experiment", "block-size", "--trace", "x"])).toMatch(/generates its requests/);
  expect(await refusal(folder, ["experiment", "routers", "--limit", "5"])).toMatch(/--limit needs --trace/);
  expect(await refusal(folder, ["experiment", "routers", "--trace", "none.jsonl"])).toMatch(/none\.jsonl/);
  expect(await refusal(folder, ["experiment", "block-size", "--gpu", "h20000"])).toMatch(/no GPU "h20000"/);
  expect(await refusal(folder, ["experiment", "lmdeploy-1407", "--gpu", "rtx-4090"])).toMatch(/does not fit/);
});

test("drawn lengths add up to the exact total", () => {
  fc.assert(
    fc.property(
      fc.nat(),
      fc.integer({ min: 1, max: 60 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (seed, count, share) => {
        const [least, most] = [4, 300];
        const total = count * least + Math.floor(share * count * (most - least));
        const lengths = lengthsOf(seededRandom(seed), count, total, { sigma: 1, least, most });
        expect(lengths.reduce((sum, length) => sum + length, 0)).toBe(total);
        expect(Math.min(...lengths)).toBeGreaterThanOrEqual(least);
        expect(Math.max(...lengths)).toBeLessThanOrEqual(most);
      },
    ),
  );
});

test("the thousand chats have the published totals with every seed", () => {
  for (const seed of [1, 2, 99]) {
    const { requestCount, inputTokens, outputTokens } = shareGptLike(seed);
    const sum = (tokens: Uint32Array) => tokens.reduce((all, each) => all + each, 0);
    expect([requestCount, sum(inputTokens), sum(outputTokens)]).toEqual([1000, 336_509, 160_646]);
  }
});

test("a ratio has the shape of another one between its root and its square, on the same side of 1", () => {
  const shape = (published: number | readonly [number, number], simulated: number) =>
    hasShape({ ratio: "", published, simulated });
  expect([1.99, 2.01, 15.9, 16.1].map((simulated) => shape(4, simulated))).toEqual([false, true, true, false]);
  expect([0.51, 0.49, 0.07, 0.06].map((simulated) => shape(0.25, simulated))).toEqual([false, true, true, false]);
  expect([1.4, 1.5, 8.9, 9.1].map((simulated) => shape([2, 3], simulated))).toEqual([false, true, true, false]);
  expect(shape([4, Number.POSITIVE_INFINITY], 1000)).toBe(true);
  expect(hasShape({ ratio: "", simulated: 2 })).toBeUndefined();
});

test("docs/experiments.md has every experiment, its command and its ratios", () => {
  const text = readFileSync(new URL("../../docs/experiments.md", import.meta.url), "utf8");
  for (const name of names) {
    expect(text).toContain(`kvlab -- experiment ${name}\n`);
    for (const { ratio: message } of documents[name].headlines) expect(text).toContain(message);
  }
});

test("roseinfer on the real engine has the hit ratios of the simulator", async () => {
  const folder = newFolder();
  const args = ["experiment", "roseinfer", "--target", "cpu", "--model", "random:tiny", "--json"];
  const { stdout } = await ended(start(folder, args, { XDG_CACHE_HOME: folder }));
  const { rows, headlines, target } = JSON.parse(stdout);
  expect(target).toBe("cpu");
  const found = rows as { configuration: string; measured: { hitRatioToken: number; promptS: number } }[];
  expect(found.map(({ configuration, measured }) => [configuration, measured.hitRatioToken])).toEqual([
    ["naive, off", 0],
    ["naive, on", 0],
    ["offline, off", 0],
    ["offline, on", 63 / 64],
    ["online, off", 0],
    ["online, on", 63 / 64],
  ]);
  for (const { measured } of found) expect(measured.promptS).toBeGreaterThan(0);
  expect(headlines.every((headline: object) => "measured" in headline)).toBe(true);
});

test.each([
  [
    ["block-size", "--target", "cpu"],
    "experiment block-size is too large for a real engine; expected one of roseinfer",
  ],
  [
    ["roseinfer", "--target", "cpu", "--gpu", "h100"],
    "--gpu needs --target sim: the engine runs on the CPU of this machine",
  ],
  [["roseinfer", "--threads", "2"], "--threads needs --target cpu: simulated steps have none"],
])("%j is refused", async (args, message) => {
  expect(await refusal(newFolder(), ["experiment", ...args])).toBe(message);
});
