import { beforeAll, describe, expect, test } from "vitest";
import { type RecordedRun, type RequestTimes, readRecordedRun } from "../../lab/calibrate/recorded-run.ts";
import { compare, simulateRecorded } from "../../scripts/recorded-run.ts";
import { hasRecordedTraces, recordedTracePath } from "../support/recordings.ts";

describe.runIf(hasRecordedTraces)("a run of vLLM 0.19: Llama-3.1-8B on an RTX PRO 6000, 300 conversations", () => {
  let run: RecordedRun;
  let simulated: RequestTimes;
  beforeAll(async () => {
    run = await readRecordedRun(
      recordedTracePath("sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl.gz"),
      recordedTracePath("sharegpt/vllm-0.19-rtxpro6000-llama-3.1-8b"),
    );
    simulated = simulateRecorded(run);
  });

  const percentOf = (from: number, to: number) =>
    new Map(compare(run.times, simulated, from, to).map(({ name, difference }) => [name, 100 * Math.abs(difference)]));

  const limits = [
    ["ttft mean", 3],
    ["ttft p50", 5],
    ["ttft p99", 3],
    ["tpot mean", 1],
    ["latency mean", 1.5],
  ] as const;

  test.each(limits)("%s is predicted within %d %%", (name, percent) => {
    expect(percentOf(0, 300).get(name)).toBeLessThan(percent);
  });

  test.each(limits)(
    "on the half that the factors were not fitted to, %s is predicted within %d %%",
    (name, percent) => {
      expect(percentOf(150, 300).get(name)).toBeLessThan(percent);
    },
  );

  test("without a queue, TTFT is predicted within 10 %: the rest of the running step, the step planned ahead, and the request's own", () => {
    const [whole] = compare(run.times, simulated, 1, 128);
    expect(whole.name).toBe("ttft mean");
    expect(Math.abs(whole.difference)).toBeLessThan(0.1);
  });

  test("the mean error of each request's first and last token is below a quarter of a second", () => {
    for (const kind of ["ttftMs", "latencyMs"] as const) {
      const errors = simulated[kind].map((ms, row) => Math.abs(ms - run.times[kind][row]));
      expect(errors.reduce((sum, ms) => sum + ms, 0) / errors.length).toBeLessThan(250);
    }
  });
});
