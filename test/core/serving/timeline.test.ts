import { expect, test } from "vitest";
import { Timeline } from "../../../core/serving/timeline.ts";
import { linearCost, simulated } from "../../support/simulated.ts";

interface TimelineEvent {
  readonly name: string;
  readonly ph: string;
  readonly id?: number;
  readonly ts?: number;
  readonly dur?: number;
  readonly args?: Record<string, unknown>;
}

test("a timeline has the phases of each request as nested spans, and the steps with their durations", () => {
  let text = "";
  const timeline = new Timeline((part) => {
    text += part;
  });
  // One request at a time: the second one waits for the three steps of the first. The third does not fit into 4 blocks.
  simulated(
    [
      { prompt: 4, output: 3 },
      { prompt: 4, output: 1 },
      { prompt: 40, output: 1 },
    ],
    { cost: linearCost({ fixed: 1000 }), observers: [timeline], blocks: 4 },
  );
  timeline.close();
  const { traceEvents } = JSON.parse(text) as { traceEvents: TimelineEvent[] };
  const spansOf = (request: number) =>
    traceEvents
      .filter(({ id, ph }) => id === request && (ph === "b" || ph === "e"))
      .map(({ name, ph, ts }) => `${name} ${ph === "b" ? "begins" : "ends"} at ${ts}`);
  expect(spansOf(0)).toEqual([
    "request 0 begins at 0",
    "queued begins at 0",
    "queued ends at 0",
    "prefill begins at 0",
    "prefill ends at 1",
    "decode begins at 1",
    "decode ends at 3",
    "request 0 ends at 3",
  ]);
  expect(spansOf(1)).toEqual([
    "request 1 begins at 0",
    "queued begins at 0",
    "queued ends at 3",
    "prefill begins at 3",
    "prefill ends at 4",
    "decode begins at 4",
    "decode ends at 4",
    "request 1 ends at 4",
  ]);
  expect(spansOf(2).filter((span) => /prefill|decode/.test(span))).toEqual([]);
  const refused = traceEvents.find(({ name, ph }) => name === "request 2" && ph === "b")!;
  expect(refused.args).toHaveProperty("refused");
  const names = traceEvents.filter(({ ph }) => ph === "M").map(({ name, args }) => [name, args?.name]);
  expect(names).toEqual([
    ["process_name", "replica 0"],
    ["thread_name", "steps"],
  ]);
  const steps = traceEvents.filter(({ ph }) => ph === "X").map(({ name, ts, dur }) => [name, ts, dur]);
  expect(steps).toEqual([
    ["prefill", 0, 1],
    ["decode", 1, 1],
    ["decode", 2, 1],
    ["prefill", 3, 1],
  ]);
  // Counters: running and waiting requests, and blocks, at the beginning of each step.
  const counters = traceEvents.filter(({ ph }) => ph === "C").map(({ name, ts, args }) => [name, ts, args]);
  expect(counters.filter(([, ts]) => ts === 0)).toEqual([
    ["requests", 0, { running: 1, waiting: expect.any(Number) }],
    ["blocks", 0, { private: expect.any(Number), held: expect.any(Number), idle: 0 }],
  ]);
});
