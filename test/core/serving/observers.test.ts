import { expect, test } from "vitest";
import type { Sequence } from "../../../core/cache/request.ts";
import { fanOut, type StepObserver } from "../../../core/serving/observers.ts";
import { simulated } from "../../support/simulated.ts";

type Callback = keyof StepObserver;

/** A callback that is added to `StepObserver` and missing here does not compile. */
const callbacks = Object.keys({
  planned: true,
  steps: true,
  arrived: true,
  admitted: true,
  firstToken: true,
  swappedOut: true,
  swappedIn: true,
  ended: true,
} satisfies Record<Callback, true>) as Callback[];

/** An observer that records its callbacks with their arguments. */
const recorder = (calls: unknown[], name: string): StepObserver =>
  Object.fromEntries(
    callbacks.map((callback) => [callback, (...args: unknown[]) => void calls.push([name, callback, ...args])]),
  );

test("the fan-out forwards every callback with all its arguments to every observer, in their order", () => {
  const calls: unknown[] = [];
  const both = fanOut([recorder(calls, "first"), {}, recorder(calls, "second")]);
  const all = both as Record<Callback, (...args: unknown[]) => void>;
  for (const callback of callbacks) all[callback](1, 2, 3, 4, 5);
  expect(calls).toEqual(
    callbacks.flatMap((callback) => [
      ["first", callback, 1, 2, 3, 4, 5],
      ["second", callback, 1, 2, 3, 4, 5],
    ]),
  );
});

test("a fan-out to one observer is that observer, and to none is undefined", () => {
  const one: StepObserver = {};
  expect(fanOut([one])).toBe(one);
  expect(fanOut([])).toBe(undefined);
});

test("every observer of a simulation is notified of every callback, swap-out and swap-in included", () => {
  const calls: [observer: string, callback: Callback, ...unknown[]][] = [];
  const swaps: string[] = [];
  const swapped = (direction: string) => (sequence: Sequence, tokens: number) =>
    void swaps.push(`request ${sequence.request.id}: ${tokens} tokens ${direction}`);
  // 6 blocks of 4 tokens: two prompts of 8 tokens fit, but not their output. Request 1 is swapped out with 4 output tokens; its
  // prompt is still cached when it is admitted again, so that only those are swapped in.
  simulated(
    [
      { prompt: 8, output: 9 },
      { prompt: 8, output: 9 },
    ],
    {
      scheduler: "fcfs",
      schedulerOptions: { swap: 1 },
      blocks: 6,
      hostBlocks: 8,
      observers: [
        recorder(calls, "first"),
        { swappedOut: swapped("out"), swappedIn: swapped("in") },
        recorder(calls, "second"),
      ],
    },
  );
  const named = (name: string) => calls.filter(([observer]) => observer === name).map(([, callback]) => callback);
  expect(named("second")).toEqual(named("first"));
  expect(new Set(named("first"))).toEqual(new Set(callbacks));
  expect(swaps).toEqual(["request 1: 12 tokens out", "request 1: 4 tokens in"]);
});
