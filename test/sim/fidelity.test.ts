import { cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { InputError } from "../../core/errors.ts";
import { type FidelityReport, fidelity } from "../../index.ts";
import { calibrate } from "../../lab/calibrate/calibrate.ts";
import { type ErrorRow, metrics, statistics } from "../../lab/fidelity/errors.ts";
import { readRecordedEngine } from "../../lab/fidelity/recorded-engine.ts";
import { hasRecordedTraces, recordedTracePath } from "../support/recordings.ts";

const trace = () => recordedTracePath("sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl.gz");
const recordOf = (gpu: string) => recordedTracePath(`sharegpt/vllm-0.19-${gpu}-llama-3.1-8b`);

const percentOf = ({ rows }: FidelityReport, metric: ErrorRow["metric"], statistic: ErrorRow["statistic"]) =>
  100 * Math.abs(rows.find((row) => row.metric === metric && row.statistic === statistic)!.difference);

describe.runIf(hasRecordedTraces).each(["rtx4090", "rtxpro6000"])("vLLM 0.19 with Llama-3.1-8B on %s", (gpu) => {
  let report: FidelityReport;
  beforeAll(async () => {
    report = await fidelity(trace(), recordOf(gpu));
  });

  test("nothing is fitted: the times are those of the device's operator profile", () => {
    expect(report.fitted).toEqual([]);
    expect(report.cost).toBe(`profile:${gpu}-llama-3.1-8b/tp1`);
  });

  test.each([
    ["latencyMs", "mean", 3],
    ["latencyMs", "p99", 3],
    ["tpotMs", "mean", 3],
    ["tpotMs", "p99", 3],
    ["ttftMs", "mean", 5],
    ["ttftMs", "p50", 5],
    ["makespanMs", "mean", 1],
  ] as const)("%s %s is predicted within %d %", (metric, statistic, limit) => {
    expect(percentOf(report, metric, statistic)).toBeLessThan(limit);
  });

  test("first tokens have the recorded order, request for request", () => {
    expect(report.requestErrors.firstTokensInOrder).toBe(1);
  });

  test("the mean duration of the steps of a request is predicted within 4 % for nine of ten requests", () => {
    const { tpotP5, tpotP95 } = report.requestErrors;
    expect(Math.max(-tpotP5, tpotP95)).toBeLessThan(0.04);
  });

  test("every metric and statistic has a row, with its difference inside or near the bootstrap interval", () => {
    const expected = metrics.flatMap((metric) =>
      metric === "makespanMs" ? ["makespanMs mean"] : statistics.map((statistic) => `${metric} ${statistic}`),
    );
    expect(report.rows.map(({ metric, statistic }) => `${metric} ${statistic}`)).toEqual(expected);
    for (const { recorded, simulated, difference, low, high } of report.rows) {
      expect(difference).toBe(simulated / recorded - 1);
      expect(low).toBeLessThanOrEqual(high);
    }
  });
});

describe.runIf(hasRecordedTraces)("leave one run out", () => {
  test("the roofline, whose rates are fitted to operators only, is within 8 % in the means on both", async () => {
    for (const gpu of ["rtx4090", "rtxpro6000"]) {
      const report = await fidelity(trace(), recordOf(gpu), { cost: "roofline" });
      expect(report.fitted).toEqual([]);
      for (const metric of ["latencyMs", "tpotMs", "ttftMs"] as const)
        expect(percentOf(report, metric, "mean")).toBeLessThan(8);
    }
  });

  test("the preemptions of the RTX 4090 are within 5 % of 194", async () => {
    const { preemptions } = await fidelity(trace(), recordOf("rtx4090"));
    expect(Math.abs(preemptions / 194 - 1)).toBeLessThan(0.05);
  });

  test("the null model, fitted to the other run, is more than 4 % off in mean latency on both", async () => {
    for (const [gpu, other] of [
      ["rtx4090", "rtxpro6000"],
      ["rtxpro6000", "rtx4090"],
    ]) {
      const report = await fidelity(trace(), recordOf(gpu), { null: true, fitTo: recordOf(other) });
      expect(report.fitted.map(({ name, to }) => [name, to])).toEqual([
        ["stepUs", recordOf(other)],
        ["promptTokenUs", recordOf(other)],
      ]);
      expect(percentOf(report, "latencyMs", "mean")).toBeGreaterThan(4);
    }
  });

  test("a request log of a run that preempts can be calibrated to", async () => {
    const folder = mkdtempSync(join(tmpdir(), "kvlab-fidelity-"));
    const out = join(folder, "cost.json");
    const { report } = await calibrate({ trace: trace(), from: recordOf("rtx4090"), out });
    expect(report.steps).toBeGreaterThan(300);
    expect(report.coefficients.every(({ picoseconds }) => Number.isSafeInteger(picoseconds))).toBe(true);
  });
});

describe.runIf(hasRecordedTraces)("a record", () => {
  test("is read with vLLM's resolved configuration, or with its defaults where that is absent", async () => {
    expect(await readRecordedEngine(recordOf("rtx4090"))).toEqual({
      ...{ version: "0.19.0", model: "meta-llama/Llama-3.1-8B", gpu: "RTX4090" },
      ...{ tensorParallel: 1, dataParallel: 1, expertParallel: false, pipelineParallel: 1 },
      ...{ memoryShare: 0.9, blocks: 2588, blockTokens: 16, maxSequences: 256, maxTokens: 2048 },
      ...{ prefixCaching: true, reservesFullPrompt: true, asyncScheduling: true },
    });
    expect(await readRecordedEngine(recordOf("rtxpro6000"))).toMatchObject({
      ...{ gpu: "RTXPRO6000", blocks: undefined, maxSequences: 128, reservesFullPrompt: true, asyncScheduling: true },
    });
  });

  const changed = (file: string, change: (text: string) => string) => {
    const folder = mkdtempSync(join(tmpdir(), "kvlab-record-"));
    cpSync(recordOf("rtx4090"), folder, { recursive: true, filter: (path) => !path.endsWith(".csv") });
    const path = join(folder, file);
    const text = change(readFileSync(path, "utf8"));
    const copy = mkdtempSync(join(tmpdir(), "kvlab-record-"));
    for (const name of ["meta.json", "config.json", "requests.jsonl"])
      writeFileSync(join(copy, name), name === file ? text : readFileSync(join(folder, name), "utf8"));
    return copy;
  };

  test.each([
    ["meta.json", (text: string) => text.slice(0, 100), /meta\.json: is not JSON/],
    [
      "meta.json",
      (text: string) => text.replaceAll('"max_num_seqs": 256', '"max_num_seqs": "many"'),
      /meta\.json: resolved_config: scheduler_config: max_num_seqs is "many", expected a whole number from 1/,
    ],
    ["config.json", (text: string) => text.replace("RTX4090", "RTX4091"), /no GPU "RTX4091"/],
    [
      "requests.jsonl",
      (text: string) => text.replace('"input_toks": 2358', '"input_toks": 2357'),
      /requests\.jsonl: bench-0 is not request 0/,
    ],
    ["requests.jsonl", (text: string) => text.split("\n").slice(1).join("\n"), /has 299 requests, .* 300/],
  ] as const)("%s with a fault is refused in one line", async (file, change, message) => {
    const error = await fidelity(trace(), changed(file, change)).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(InputError);
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message).not.toContain("\n");
  });

  test("pipeline_parallel_size of meta.json is simulated: the stages of two GPUs take longer than one GPU, and overlap", async () => {
    const stages = changed("meta.json", (text) =>
      text.replaceAll('"pipeline_parallel_size": 1', '"pipeline_parallel_size": 2'),
    );
    const [one, two] = [await fidelity(trace(), recordOf("rtx4090")), await fidelity(trace(), stages)];
    const simulatedMs = ({ rows }: FidelityReport, metric: ErrorRow["metric"]) =>
      rows.find((row) => row.metric === metric && row.statistic === "mean")!.simulated;
    expect(simulatedMs(two, "makespanMs")).toBeLessThan(simulatedMs(one, "makespanMs"));
    expect(simulatedMs(two, "ttftMs")).not.toBe(simulatedMs(one, "ttftMs"));
  });

  test("options that exclude each other are refused", async () => {
    await expect(fidelity(trace(), recordOf("rtx4090"), { null: true, cost: "roofline" })).rejects.toThrow(
      "--null and --cost exclude each other",
    );
    await expect(fidelity(trace(), recordOf("rtx4090"), { fitTo: recordOf("rtxpro6000") })).rejects.toThrow(
      "--fit-to needs --null",
    );
  });
});
