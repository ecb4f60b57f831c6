import { expect, test } from "vitest";
import { openTrace, simulate } from "../../index.ts";

const input = await openTrace("example", { limit: 200 });

test("--pp divides weights and KV among the stages: the cache has more than twice the blocks, and every request is served", async () => {
  const [one, two] = [await simulate(input, { rate: 20 }), await simulate(input, { rate: 20, pp: 2 })];
  expect(one.report.simulation).not.toHaveProperty("pipelineParallel");
  expect(two.report.simulation).toMatchObject({ pipelineParallel: 2, kvBytesPerToken: 65_536 });
  expect(two.report.policy.blocks! / one.report.policy.blocks!).toBeGreaterThan(2);
  expect(two.report.trace).toEqual(one.report.trace);
});

test("--pp 1 has the report of no --pp", async () => {
  const [without, one] = [await simulate(input, {}), await simulate(input, { pp: 1 })];
  for (const field of ["simulation", "policy", "cache", "latency", "throughput"] as const)
    expect(one.report[field]).toEqual(without.report[field]);
});

test("at a rate that one GPU does not serve, two stages serve more requests per second", async () => {
  const options = { rate: 400, model: "llama-3.1-70b", gpu: "h200", tp: 2 };
  const [one, two] = [await simulate(input, options), await simulate(input, { ...options, pp: 2 })];
  const throughput = ({ report }: typeof one) => report.throughput!.requestsPerS;
  expect(throughput(two)).toBeGreaterThan(throughput(one));
});

test("a cost model of whole steps is refused", async () => {
  const cost = { name: "constant", stepNs: () => 1 };
  await expect(simulate(input, { pp: 2, cost })).rejects.toThrow(
    "--pp and --cost constant exclude each other: its times are those of whole steps",
  );
});
