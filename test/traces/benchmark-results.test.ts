import { expect, test } from "vitest";
import { readTrace } from "../../core/trace/trace.ts";
import { openTrace } from "../../traces/open.ts";
import { failureOf, fileOf } from "./files.ts";

async function read(content: string) {
  const source = await openTrace([fileOf(content, "results.json")]);
  const trace = await readTrace(source);
  return {
    source,
    lengths: Array.from(trace.inputTokens, (tokens, r) => [tokens, trace.outputTokens[r]]),
    arrivalsS: Array.from(trace.arrivalNs, (time) => time / 1e9),
    lengthsOnly: trace.lengthsOnly,
  };
}

const vllm = {
  duration: 5,
  input_lens: [10, 30, 20],
  output_lens: [1, 0, 2],
  itls: [[0.5], [], [0.1]],
  errors: ["", "x", ""],
};

test("the results of a benchmark are a trace of lengths in the order of the start times", async () => {
  const { source, lengths, arrivalsS, lengthsOnly } = await read(
    JSON.stringify({ ...vllm, start_times: [100.5, 102, 101] }, undefined, 2),
  );
  expect([source.format, source.content, lengthsOnly]).toEqual(["benchmark-results", "lengths", true]);
  expect([lengths, arrivalsS]).toEqual([
    [
      [10, 1],
      [20, 2],
      [30, 0],
    ],
    [0, 0.5, 1.5],
  ]);
  expect(source.notes?.()).toEqual(["requests without output, such as failed ones: 1 of 3"]);
});

test("several runs follow one another", async () => {
  const run = JSON.stringify({ ...vllm, start_times: [100.5, 102, 101] });
  expect((await read(`${run}\n${run}\n`)).arrivalsS).toEqual([0, 0.5, 1.5, 1.5, 2, 3]);
});

test("results without start times arrive at random", async () => {
  const { arrivalsS, source } = await read(JSON.stringify(vllm));
  expect(arrivalsS[0]).toBe(0);
  expect(arrivalsS[2]).toBeGreaterThan(arrivalsS[1]);
  expect(source.notes?.()).toContain(
    "the trace has no arrival times: requests arrive at random, one a second (--rate changes the rate)",
  );
});

test.each<[object, string]>([
  [{ output_lens: [1, 2] }, "output_lens has 2 values, expected 3 as in input_lens"],
  [{ input_lens: [1, 2.5, 3] }, "input_lens[1] is 2.5, expected integers from 0 to 2147483647"],
  [{ input_lens: "x" }, 'input_lens is "x", expected an array of integers from 0 to 2147483647'],
  [{ start_times: [1, 2, -1] }, "start_times[2] is -1, expected numbers of seconds, 0 or more"],
  [{ start_times: [1, 2, 1e14] }, "start_times differ by more than 26 days, expected the times of one run"],
])("results with %j are refused", async (changed, message) => {
  expect(await failureOf(() => read(JSON.stringify({ ...vllm, ...changed })))).toBe(`results.json:1: ${message}`);
});
