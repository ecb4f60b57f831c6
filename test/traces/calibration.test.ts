import { expect, test } from "vitest";
import { calibrationTrace, type DesignOptions, measuredFromNs } from "../../traces/calibration.ts";

const options: DesignOptions = { unitTokens: 16, maxTokens: 480, maxBatch: 8, rounds: 2, seed: 1 };

/** Groups of the measured rounds: [number of decoding requests, whether a prompt arrives during decode]. */
function groups(given: DesignOptions): [decodes: number, hasPrompt: boolean][] {
  const { arrivalNs, outputTokens } = calibrationTrace(given);
  const fromNs = measuredFromNs(given);
  const found = new Map<number, [number, boolean]>();
  arrivalNs.forEach((ns, row) => {
    if (ns < fromNs) return;
    // A prompt arrives a nanosecond after the decoding requests.
    const group = Math.floor(ns / 1000);
    const [decodes, hasPrompt] = found.get(group) ?? [0, false];
    if (outputTokens[row] > 1) found.set(group, [decodes + 1, hasPrompt]);
    else if (decodes > 0) found.set(group, [decodes, true]);
  });
  return [...found.values()];
}

test("a prefill step has 1, 2, 4, … decoding requests, and one less than the maximum", () => {
  const beside = (maxBatch: number) =>
    [...new Set(groups({ ...options, maxBatch }).flatMap(([decodes, hasPrompt]) => (hasPrompt ? [decodes] : [])))].sort(
      (a, b) => a - b,
    );
  expect(beside(8)).toEqual([1, 2, 4, 7]);
  expect(beside(6)).toEqual([1, 2, 4, 5]);
  expect(beside(2)).toEqual([1]);
  // With a maximum batch of 1 no prompt can arrive during decode.
  expect(beside(1)).toEqual([]);
});

test("every round has each kind of step once, in random order", () => {
  const all = groups(options).map(String);
  const [one, two] = [all.slice(0, all.length / 2), all.slice(all.length / 2)];
  expect(one).not.toEqual(two);
  expect(one.toSorted()).toEqual(two.toSorted());
  // Worked by hand: for four cached lengths 1, 2, 4 and 8 equal decodes, for three of them 2, 4 and 8 unequal ones; two
  // prompts arrive during 1, 2, 4 and 7 decodes.
  const count = (decodes: number, hasPrompt: boolean) =>
    one.filter((each) => each === String([decodes, hasPrompt])).length;
  expect([1, 2, 4, 8].map((decodes) => count(decodes, false))).toEqual([4, 7, 7, 7]);
  expect([1, 2, 4, 7].map((decodes) => count(decodes, true))).toEqual([8, 8, 8, 8]);
});
