import { expect, test } from "vitest";
import { calibrationTrace, type DesignOptions, measuredFromNs } from "../../traces/calibration.ts";

const options: DesignOptions = { unitTokens: 16, maxTokens: 480, maxBatch: 8, rounds: 2, seed: 1 };

/** Of the measured rounds: requests that come together, as [how many answer, whether a prompt comes while they do]. */
function groups(given: DesignOptions): [answers: number, hasPrompt: boolean][] {
  const { arrivalNs, outputTokens } = calibrationTrace(given);
  const fromNs = measuredFromNs(given);
  const found = new Map<number, [number, boolean]>();
  arrivalNs.forEach((ns, row) => {
    if (ns < fromNs) return;
    // A prompt comes a nanosecond after those that answer.
    const group = Math.floor(ns / 1000);
    const [answers, hasPrompt] = found.get(group) ?? [0, false];
    if (outputTokens[row] > 1) found.set(group, [answers + 1, hasPrompt]);
    else if (answers > 0) found.set(group, [answers, true]);
  });
  return [...found.values()];
}

test("a prefill step has 1, 2, 4, … decoding requests, and one less than the maximum", () => {
  const beside = (maxBatch: number) =>
    [...new Set(groups({ ...options, maxBatch }).flatMap(([answers, hasPrompt]) => (hasPrompt ? [answers] : [])))].sort(
      (a, b) => a - b,
    );
  expect(beside(8)).toEqual([1, 2, 4, 7]);
  expect(beside(6)).toEqual([1, 2, 4, 5]);
  expect(beside(2)).toEqual([1]);
  // Nobody could come beside the only one.
  expect(beside(1)).toEqual([]);
});

test("every round has each kind of step once, in random order", () => {
  const all = groups(options).map(String);
  const [one, two] = [all.slice(0, all.length / 2), all.slice(all.length / 2)];
  expect(one).not.toEqual(two);
  expect(one.toSorted()).toEqual(two.toSorted());
  // By hand: behind four lengths of what is cached 1, 2, 4 and 8 answer alike, behind three of them 2, 4 and 8 unlike; two prompts come beside 1, 2, 4 and 7.
  const count = (answers: number, hasPrompt: boolean) =>
    one.filter((each) => each === String([answers, hasPrompt])).length;
  expect([1, 2, 4, 8].map((answers) => count(answers, false))).toEqual([4, 7, 7, 7]);
  expect([1, 2, 4, 7].map((answers) => count(answers, true))).toEqual([8, 8, 8, 8]);
});
