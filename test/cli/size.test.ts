import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { SizedCluster } from "../../index.ts";
import { ended, json, kvlab, newFolder, refusal, startReporting, untilDoing } from "./program.ts";

const small = ["size", "example", "--limit", "200"];
const example = [...small, "--max-gpus", "16"];
const load = ["--rate", "60", "--slo", "ttft=300ms:p99,tpot=50ms:p95", "--capacity", "2GiB"];

/** A cluster's command line for kvlab replay. */
const replayOf = ({ gpu, tensorParallel, replicas, preset, eviction, router, cacheBytesPerGpu }: SizedCluster) => [
  ...[
    "replay",
    "example",
    "--limit",
    "200",
    "--target",
    "sim",
    "--rate",
    "60",
    "--slo",
    "ttft=300ms:p99,tpot=50ms:p95",
  ],
  ...["--gpu", gpu, "--tp", String(tensorParallel), "--replicas", String(replicas), "--preset", preset],
  ...["--eviction", eviction, "--capacity", `${cacheBytesPerGpu / 1024}KiB`, ...(router ? ["--router", router] : [])],
];

describe("kvlab size", () => {
  test("the answer has the results that kvlab replay has, and costs as much as its GPUs", async () => {
    const folder = newFolder();
    const report = await json(folder, [...example, ...load, "--gpu", "h200,l40s", "--out", "out"]);
    expect(report).toMatchObject({ schema: "size/1", model: "llama-3.1-8b", load: { loop: "open", requestsPerS: 60 } });
    const { cluster, within, limits, oneReplicaMore, moreMemory } = report.answer;
    const { latency, cache, slo, policy } = await json(folder, replayOf(cluster));
    expect(cluster).toMatchObject({
      ...{ met: true, ttftMsP99: latency.ttftMs.p99, tpotMsP50: latency.tpotMs.p50, hitRatio: cache.hitRatio.token },
      ...{ objectives: slo.objectives, goodputRequestsPerS: slo.goodputRequestsPerS, blocks: policy.blocks },
    });
    expect(cluster.costPerHour).toBeCloseTo(cluster.gpus * report.prices.gpus[cluster.gpu].perHour, 9);
    // It is the cheapest of those that were simulated and meet the SLO.
    const met = report.clusters.filter((each: typeof cluster) => each.met);
    expect(cluster.costPerHour).toBe(Math.min(...met.map((each: typeof cluster) => each.costPerHour)));
    expect(report.clusters.filter((each: { chosen: boolean }) => each.chosen)).toMatchObject([cluster]);
    expect(within).toMatchObject([
      { metric: "ttftMs", required: 0.99 },
      { metric: "tpotMs", required: 0.95 },
    ]);
    for (const { share, required } of within) expect(share).toBeGreaterThanOrEqual(required);
    expect(limits.of.replicas).toBe(Math.max(1, cluster.replicas - 1));
    expect(oneReplicaMore.replicas).toBe(cluster.replicas + 1);
    expect(moreMemory.cacheBytesPerGpu).toBe(18 * 2 ** 30);
    expect(report.simulations.search).toBeLessThan(report.grid.clusters / 4);
    expect(readdirSync(join(folder, "out")).sort()).toEqual(["size.json", "size.svg"]);
    expect(JSON.parse(readFileSync(join(folder, "out/size.json"), "utf8"))).toEqual(report);
    const svg = readFileSync(join(folder, "out/size.svg"), "utf8");
    for (const name of ["chosen", "Pareto front", "cost, USD per hour", "P99 TTFT"]) expect(svg).toContain(name);
  });

  test("threads do not change the document", async () => {
    const args = [...example, ...load, "--gpu", "l40s", "--eviction", "lru,ttl:ttl-s=60"];
    const [one, two] = await Promise.all(["1", "2"].map((count) => json(newFolder(), [...args, "--threads", count])));
    expect(one.answer.cluster.met).toBe(true);
    expect(two).toEqual(one);
  });

  test("the text begins with the answer, and has its limits, prices and the front", async () => {
    const { code, stdout } = await kvlab(newFolder(), [...example, ...load, "--gpu", "l40s"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/\n\nUse \d+ × l40s[^:]*: \$\d+\.\d\d per hour/);
    for (const part of ["Certainty\n", "Gain\n", "Limits\n", "Pareto front", "assumptions", "to find the answer among"])
      expect(stdout).toContain(part);
    expect(stdout).not.toMatch(/undefined|NaN/);
  });

  test("without a cluster that meets the SLO the exit code is 1, and the closest one is named", async () => {
    const slo = ["--slo", "ttft=300ms:p99", "--rate", "500", "--capacity", "1GiB", "--tp", "1"];
    const { code, stdout } = await kvlab(newFolder(), ["size", "example", "--limit", "200", "--max-gpus", "2", ...slo]);
    expect(code).toBe(1);
    expect(stdout).toMatch(/No cluster meets the SLO with up to 2 GPUs\. The closest is \d × h200/);
  });

  test("an SLO that one request alone misses is not searched", async () => {
    const folder = newFolder();
    const { code, stdout } = await kvlab(folder, [...example, "--slo", "ttft=1ms", "--tp", "1", "--json"]);
    expect(code).toBe(1);
    const { answer, simulations, clusters, slo } = JSON.parse(stdout);
    expect({ answer, clusters, simulations, slo }).toEqual({
      ...{ answer: null, clusters: [], simulations: { search: 1, explanation: 0 } },
      slo: { ttftMs: 1, percentiles: { ttftMs: 99 } },
    });
    const text = await kvlab(folder, [...example, "--slo", "ttft=1ms", "--tp", "1"]);
    expect(text.stdout.replace(/\s+/g, " ")).toContain("One request alone misses it on every GPU of the list");
  });

  test("a fixed number of requests in flight is a load", async () => {
    const args = ["--concurrency", "32", "--slo", "tpot=20ms", "--tp", "1"];
    const { load, answer } = await json(newFolder(), [...example, ...args]);
    expect(load).toEqual({ loop: "closed", concurrency: 32, speed: 1, requestsPerS: null });
    expect(answer.cluster.met).toBe(true);
  });

  test("an eviction policy of a user runs in the main thread", async () => {
    const folder = newFolder();
    await kvlab(folder, ["init", "policy", "mine"]);
    const args = ["--eviction", "./mine.ts", "--gpu", "l40s", "--tp", "1", "--threads", "2"];
    const { answer } = await json(folder, [...example, ...load, ...args]);
    expect(answer.cluster.eviction).toBe("mine");
  });

  test("--prices replaces the built-in prices, and decides the answer", async () => {
    const folder = newFolder();
    const args = [...example, ...load, "--gpu", "h200,l40s", "--tp", "1", "--prices", "prices.json"];
    const gpuAt = async (prices: object) => {
      writeFileSync(join(folder, "prices.json"), JSON.stringify(prices));
      const { answer, prices: used } = await json(folder, args);
      return { gpu: answer.cluster.gpu, currency: used.currency, file: used.file };
    };
    expect(await gpuAt({ currency: "EUR", h200: 1, l40s: 90 })).toEqual({
      ...{ gpu: "h200", currency: "EUR", file: "prices.json" },
    });
    expect(await gpuAt({ h200: 900, l40s: 0.1 })).toMatchObject({ gpu: "l40s", currency: "USD" });
  });

  test("SIGINT ends it with exit code 130, without files", async () => {
    const folder = newFolder();
    const child = startReporting(folder, [
      "size",
      "--slo",
      "ttft=300ms",
      "--rate",
      "60",
      "--threads",
      "2",
      "--out",
      "out",
    ]);
    const end = ended(child);
    await untilDoing(child, "simulations 1 to 4");
    child.kill("SIGINT");
    expect(await end).toEqual({ code: 130, stdout: "", stderr: "kvlab: interrupted\n" });
    expect(readdirSync(folder)).toEqual([]);
  });

  test("invalid options are refused in one line", async () => {
    const folder = newFolder();
    mkdirSync(join(folder, "folder"));
    writeFileSync(join(folder, "list.json"), "[1]");
    writeFileSync(join(folder, "free.json"), '{"h200": 0}');
    writeFileSync(join(folder, "other.json"), '{"l40s": 1}');
    writeFileSync(join(folder, "unknown.json"), '{"h300": 1}');
    writeFileSync(join(folder, "broken.json"), "{");
    const slo = ["--slo", "ttft=300ms"];
    const cases: readonly [readonly string[], RegExp][] = [
      [[], /^required option '--slo <LIMITS>' not specified$/],
      [["--slo", "ttft=300ms:p"], /^--slo has "ttft=300ms:p", expected a percentile/],
      [[...slo, "--gpu", "h300"], /^no GPU "h300": did you mean/],
      [[...slo, "--gpu", "mi300x"], /^there is no built-in price of mi300x; give --prices FILE with one/],
      [[...slo, "--gpu", "h200,h200"], /^--gpu has "h200" twice$/],
      [[...slo, "--model", "none"], /^no model "none"/],
      [[...slo, "--model", "llama-3.1-405b", "--tp", "1,2"], /^llama-3.1-405b does not fit: .*; --tp 7|--tp 8/],
      [[...slo, "--tp", "3"], /^--tp is 3, which does not divide the heads/],
      [[...slo, "--max-gpus", "1", "--tp", "2"], /^2 GPUs are more than --max-gpus 1$/],
      [
        [...slo, "--capacity", "900GiB"],
        /^--capacity contains 966367641600 bytes; no GPU has more than \d+ for its cache/,
      ],
      [[...slo, "--eviction", "belady"], /^--eviction belady cannot be used by a server/],
      [[...slo, "--eviction", "lrv"], /^unknown eviction policy "lrv"/],
      [[...slo, "--router", "none"], /^unknown router "none"/],
      [[...slo, "--preset", "vlm"], /^unknown preset "vlm"/],
      [[...slo, "--prices", "none.json"], /^none\.json: /],
      [[...slo, "--prices", "list.json"], /^list\.json: expected an object of prices by GPU/],
      [[...slo, "--prices", "free.json"], /^free\.json: the price of h200 is 0, expected a number above 0/],
      [[...slo, "--prices", "other.json"], /^other\.json: has no price of h200$/],
      [[...slo, "--prices", "unknown.json"], /^unknown\.json: no GPU "h300"/],
      [[...slo, "--prices", "broken.json"], /^broken\.json: is not JSON/],
      [[...slo, "--concurrency", "4", "--rate", "2"], /^--concurrency and --rate exclude each other/],
      [[...slo, "--warmup", "200"], /^--warmup is 200, the trace has only 200 requests$/],
      [[...slo, "--out", "/dev/null/x"], /\/dev\/null\/x/],
    ];
    const messages = await Promise.all(cases.map(([args]) => refusal(folder, [...small, ...args])));
    for (const [i, [args, message]] of cases.entries()) expect(messages[i], args.join(" ")).toMatch(message);
  });
});
