import { expect, test } from "vitest";
import { Metrics } from "../../../core/serving/metrics.ts";
import { linearCost, type Row, simulated } from "../../support/simulated.ts";

type Options = NonNullable<Parameters<typeof simulated>[1]>;
const loadOf = (rows: readonly Row[], options: Options, warmup = 0) =>
  new Metrics(simulated([...rows], options), warmup).load();

// A step takes 100 ns and 1 ns per token.
const cost = linearCost({ fixed: 100, prefillTokens: 1, decodeTokens: 1 });

/** `count` requests of one prompt token and `output` output tokens, one every `intervalNs`. */
const regular = (count: number, intervalNs: number, output = 1): Row[] =>
  Array.from({ length: count }, (_, i) => ({ at: i * intervalNs, prompt: 1, output }));

test("the window ends with the last arrival, and rates in it count only requests that finish in it", () => {
  // The first request finishes at 101 + 101 = 202, the second, which arrives at 1000, at 1101.
  const rows: Row[] = [
    { at: 0, prompt: 1, output: 2 },
    { at: 1000, prompt: 1, output: 1 },
  ];
  const load = loadOf(rows, { cost });
  expect(load).toMatchObject({ windowMs: 1000e-6, drainMs: 101e-6, steady: false, limitedBy: "load" });
  expect(load.offeredRequestsPerS).toBeCloseTo(2e6, 0);
  expect(load.offeredTokensPerS).toBeCloseTo(5e6, 0);
  expect(load.servedRequestsPerS).toBeCloseTo(1e6, 0);
  expect(load.servedOutputTokensPerS).toBeCloseTo(2e6, 0);
  // It finishes after the ramp of 101 ns.
  expect(load.steadyRequests).toBe(1);
});

test("requests that arrive at once have no window, and the device is their limit if all of them run", () => {
  const load = loadOf(regular(8, 0, 5), { cost, scheduler: "fcfs-chunked" });
  expect(load).toMatchObject({ windowMs: 0, offeredRequestsPerS: null, servedRequestsPerS: null, steady: false });
  expect(load.limitedBy).toBe("compute");
});

test("a run is steady if 100 requests finish between its ramp and its drain and the drain is short", () => {
  // Each request is served in 101 ns before the next one arrives; the first finishes within the ramp.
  const enough = loadOf(regular(102, 200), { cost });
  expect(enough).toMatchObject({ steadyRequests: 100, steady: true, limitedBy: "load" });
  expect(loadOf(regular(101, 200), { cost })).toMatchObject({ steadyRequests: 99, steady: false });
  // One request at a time, arriving at twice the rate of service: the drain is as long as the window.
  const overloaded = loadOf(regular(400, 50), { cost, scheduler: "naive" });
  expect(overloaded.drainMs / overloaded.windowMs).toBeGreaterThan(0.9);
  expect(overloaded.steady).toBe(false);
});

test("requests of the warm-up are not part of the load", () => {
  const load = loadOf(regular(20, 1000), { cost, warmup: 10 }, 10);
  expect(load.windowMs).toBeCloseTo(9000e-6, 9);
  expect(load.steadyRequests).toBe(8);
});

test("refused requests are not part of the throughput", () => {
  // Four blocks of 4 tokens: the second prompt is refused. The other two take 101 ns each.
  const rows: Row[] = [
    { at: 0, prompt: 1 },
    { at: 0, prompt: 40 },
    { at: 1000, prompt: 1 },
  ];
  const throughput = new Metrics(simulated(rows, { cost, blocks: 4 }), 0).throughput();
  expect(throughput.makespanS).toBeCloseTo(1101e-9, 15);
  expect(throughput.requestsPerS).toBeCloseTo(2 / 1101e-9, 0);
  expect(throughput.inputTokensPerS).toBeCloseTo(2 / 1101e-9, 0);
  expect(throughput.outputTokensPerS).toBeCloseTo(2 / 1101e-9, 0);
});

const burst = regular(40, 0, 20);
const long = Array.from({ length: 40 }, (): Row => ({ at: 0, prompt: 64, output: 1 }));
const limits: [scheduler: string, limit: string, options: Record<string, number>, blocks: number, rows: Row[]][] = [
  ["fcfs-chunked", "max-num-seqs", { "max-num-seqs": 2 }, 1000, burst],
  ["fcfs-chunked", "token-budget", { "max-num-batched-tokens": 64 }, 2000, long],
  ["fcfs-chunked", "blocks", {}, 12, burst],
  ["fcfs", "max-num-seqs", { "max-num-seqs": 2 }, 1000, burst],
  ["fcfs", "token-budget", { "max-num-batched-tokens": 64 }, 2000, long],
  ["fcfs", "blocks", { watermark: 0 }, 12, burst],
  ["lpm", "max-num-seqs", { "max-running-requests": 2 }, 1000, burst],
  ["lpm", "token-budget", { "chunked-prefill-size": 64 }, 2000, long],
  ["lpm", "blocks", {}, 12, burst],
  ["tgi-queue", "max-num-seqs", { "max-batch-size": 2, "max-waiting-tokens": 1 }, 1000, burst],
  ["tgi-queue", "token-budget", { "max-batch-prefill-tokens": 64, "waiting-served-ratio": 0 }, 2000, long],
  ["tgi-queue", "blocks", { "waiting-served-ratio": 0 }, 12, burst],
  ["efficient-router", "max-num-seqs", { "running-max-req-size": 2, "router-max-wait-tokens": 0 }, 1000, burst],
  ["efficient-router", "token-budget", { "batch-max-tokens": 64 }, 2000, long],
  ["efficient-router", "blocks", { "router-max-wait-tokens": 0 }, 12, burst],
  ["online", "max-num-seqs", { "max-batch-size": 2 }, 1000, burst],
  ["static", "scheduler", { "batch-size": 2 }, 1000, burst],
  ["naive", "scheduler", {}, 1000, burst],
];

test.each(limits)("%s: requests wait because of %s", (scheduler, limit, schedulerOptions, blocks, rows) => {
  const load = loadOf(rows, { cost, scheduler, schedulerOptions, blocks });
  expect(load.limitedBy, JSON.stringify(load.waiting)).toBe(limit);
});

test("where most requests are refused, blocks are the limit", () => {
  const rows = Array.from({ length: 10 }, (_, i): Row => ({ at: i * 1000, prompt: i < 4 ? 4 : 400, output: 1 }));
  expect(loadOf(rows, { cost, blocks: 10 }).limitedBy).toBe("blocks");
});
