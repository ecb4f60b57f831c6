import { beforeAll, describe, expect, test } from "vitest";
import { verifyText } from "../../cli/verify/verify-text.ts";
import { EventLog } from "../../core/log/event-log.ts";
import { EventKind, type EventName, eventNames } from "../../core/log/events.ts";
import type { AllocatorPlugin, EvictionPlugin } from "../../core/plugins/index.ts";
import { ChunkTable } from "../../core/serving/chunk-table.ts";
import { StepTable } from "../../core/serving/step-table.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import type { Clock } from "../../engine/clock.ts";
import { type Decisions, type Divergence, firstDivergence } from "../../lab/compare/decisions.ts";
import { engineFrom } from "../../lab/run/real-engine.ts";
import { decisionsWith } from "../../lab/verify/verification.ts";
import { verifyReport } from "../../lab/verify/verify-report.ts";
import { evictionRegistry, presetRegistry } from "../../policies/registry.ts";
import { combinations, sameAs } from "../../scripts/verify-matrix.ts";
import type { RecordedSteps } from "../../sim/cost/recorded.ts";
import type { SimulationConfig } from "../../sim/simulation.ts";
import { tracesOf } from "../support/simulated.ts";
import { conversationTrace, type OwnEngine, openModel, type policiesOf, type Served, serve } from "./serving.ts";

let model: Served;
beforeAll(async () => {
  model = await openModel("random:tiny", 48, 4);
});

/** The decisions of an engine, and the inputs of a simulation that should repeat them. */
interface Recording {
  readonly trace: Trace;
  readonly columns: BlockColumns;
  readonly config: ReturnType<typeof policiesOf>;
  readonly hostBlocks: number;
  readonly steps: StepTable;
  readonly engine: Decisions;
}

async function record(own: OwnEngine, trace = conversationTrace({ seed: 4, outputs: true })): Promise<Recording> {
  const chunks = new ChunkTable();
  const steps = new StepTable();
  const { engine, columns, config } = await serve(model, trace, { ...own, observers: [steps, chunks] });
  const { outcomes } = engine.arrivals.batches[0];
  const decided = { log: engine.replica.log!, chunks, outcomes };
  return { trace, columns, config, hostBlocks: own.hostBlocks ?? 0, steps, engine: decided };
}

/** Simulates the same trace, with planted differences. */
const simulate = (
  { trace, columns, config, hostBlocks, steps }: Recording,
  planted: Partial<SimulationConfig> = {},
  durations: RecordedSteps = steps,
): Promise<Decisions> => decisionsWith(durations, trace, columns, { ...config, hostBlocks, ...planted });

function expectEvents(divergence: Divergence | undefined): asserts divergence is Divergence & { what: "event" } {
  expect(divergence?.what).toBe("event");
}

/** An event as its kind, request, block and value. */
function eventAt({ log }: Decisions, at: number) {
  const { kind, request, block, value } = log.columns();
  return { kind: eventNames[kind[at]], request: request[at], block: block[at], value: value[at] };
}

const placesOf = ({ log }: Decisions, name: EventName): number[] =>
  [...log.columns().kind].flatMap((kind, at) => (kind === EventKind[name] ? [at] : []));

/** A log with these events, in this order. */
function reordered(decisions: Decisions, order: readonly number[]): Decisions {
  const log = new EventLog();
  const { kind, timeNs, request, block, key, value } = decisions.log.columns();
  for (const at of order) log.add(kind[at], timeNs[at], request[at], block[at], key[at], value[at]);
  return { ...decisions, log };
}

const tight = { preset: presetRegistry.get("vllm"), blocks: 18 } as const;

/** Swaps the first two blocks of the second allocation of at least two blocks. */
const swapsTwoBlocks = (allocator: AllocatorPlugin): AllocatorPlugin => ({
  ...allocator,
  create(blockCount) {
    const made = allocator.create(blockCount);
    const allocate = made.allocate.bind(made);
    let calls = 0;
    made.allocate = (table, from, to) => {
      allocate(table, from, to);
      if (to - from < 2 || ++calls !== 2) return;
      [table[from], table[from + 1]] = [table[from + 1], table[from]];
    };
    return made;
  },
});

/** Returns another evictable entry as the third victim. */
const skipsAVictim = (eviction: EvictionPlugin): EvictionPlugin => ({
  ...eviction,
  create(context) {
    const made = eviction.create(context);
    const idle = new Set<number>();
    let evicted = 0;
    return {
      add(entry) {
        idle.add(entry);
        made.add(entry);
      },
      remove(entry, why) {
        idle.delete(entry);
        if (why === "evicted") evicted++;
        made.remove(entry, why);
      },
      victim(now) {
        const right = made.victim(now);
        const wrong = [...idle].find((entry) => entry !== right);
        return evicted === 2 ? (wrong ?? right) : right;
      },
      published: (...args) => made.published?.(...args),
      hit: (...args) => made.hit?.(...args),
      begin: (...args) => made.begin?.(...args),
    };
  },
});

describe("planted differences are found at their positions", () => {
  test("without a planted difference none is found", async () => {
    const recording = await record(tight);
    expect(firstDivergence(recording.engine, await simulate(recording))).toBeUndefined();
  });

  test("one swapped block id", async () => {
    const recording = await record(tight);
    const { engine, config } = recording;
    const simulator = await simulate(recording, { allocator: swapsTwoBlocks(config.allocator) });
    const divergence = firstDivergence(engine, simulator);
    expectEvents(divergence);
    const [mine, other] = [engine, simulator].map((side) => eventAt(side, divergence.events));
    expect(mine).toMatchObject({ kind: "allocate", request: other.request, value: other.value });
    // The simulator allocates the engine's block next, and vice versa.
    expect(eventAt(simulator, divergence.events + 1).block).toBe(mine.block);
    expect(other.block).toBe(eventAt(engine, divergence.events + 1).block);
  });

  test("an eviction out of order", async () => {
    const recording = await record({ blocks: 18, scheduler: "fcfs-chunked" });
    const { engine, config } = recording;
    const simulator = await simulate(recording, { eviction: skipsAVictim(config.eviction) });
    const divergence = firstDivergence(engine, simulator);
    expectEvents(divergence);
    expect(divergence.events).toBe(placesOf(engine, "evict")[2]);
    const [mine, other] = [engine, simulator].map((side) => eventAt(side, divergence.events));
    expect([mine.kind, other.kind]).toEqual(["evict", "evict"]);
    expect(mine.block).not.toBe(other.block);
  });

  test("a publication one step early", async () => {
    const recording = await record(tight);
    const simulator = await simulate(recording);
    const [step] = placesOf(simulator, "step").slice(3);
    const publish = placesOf(simulator, "publish").find((at) => at > step)!;
    const order = Array.from({ length: simulator.log.count }, (_, at) => at);
    order.splice(publish, 1);
    order.splice(step, 0, publish);
    const divergence = firstDivergence(recording.engine, reordered(simulator, order));
    expect(divergence).toEqual({ what: "event", events: step, steps: 3, onlyTime: false });
  });

  test("publication at allocation instead of after the step", async () => {
    const recording = await record({ ...tight, rules: { publish: "step" } });
    const simulator = await simulate(recording, { rules: { ...recording.config.rules, publish: "allocation" } });
    const divergence = firstDivergence(recording.engine, simulator);
    expectEvents(divergence);
    expect(divergence.steps).toBe(0);
    expect(eventAt(simulator, divergence.events)).toMatchObject({ kind: "publish", request: 0, value: 0 });
  });

  test("a missing copy", async () => {
    const recording = await record({ ...tight, preset: presetRegistry.get("turbomind") });
    const simulator = await simulate(recording);
    expect(firstDivergence(recording.engine, simulator)).toBeUndefined();
    const [, missing] = placesOf(simulator, "copy");
    const order = Array.from({ length: simulator.log.count }, (_, at) => at).filter((at) => at !== missing);
    const divergence = firstDivergence(recording.engine, reordered(simulator, order));
    expect(divergence).toMatchObject({ what: "event", events: missing, onlyTime: false });
  });

  test("a preemption by recomputation instead of a swap-out", async () => {
    const recording = await record({ ...tight, hostBlocks: 24, scheduler: "fcfs", schedulerOptions: { swap: 1 } });
    const simulator = await simulate(recording, { schedulerOptions: { swap: 0 } });
    const divergence = firstDivergence(recording.engine, simulator);
    expectEvents(divergence);
    expect(divergence.events).toBe(placesOf(recording.engine, "swapOut")[0]);
  });

  test("a token computed in another chunk of the same step", async () => {
    const scheduler = { scheduler: "fcfs-chunked", schedulerOptions: { "max-num-batched-tokens": 11 } };
    const recording = await record({ ...tight, ...scheduler });
    const simulator = await simulate(recording);
    const { step, tokens, prefill } = simulator.chunks;
    const at = step.findIndex((number, i) => number === step[i + 1] && prefill[i] + prefill[i + 1] === 2);
    tokens[at]--;
    tokens[at + 1]++;
    const divergence = firstDivergence(recording.engine, simulator);
    expect(divergence).toMatchObject({ what: "chunk", chunk: at, steps: step[at], onlyTime: false });
  });

  test("a chunk with another block", async () => {
    const recording = await record(tight);
    const simulator = await simulate(recording);
    simulator.chunks.blocks[30]++;
    expect(firstDivergence(recording.engine, simulator)).toMatchObject({ what: "chunk", chunk: 30 });
  });

  test("a metric of one request, with equal decisions", async () => {
    const recording = await record(tight);
    const simulator = await simulate(recording);
    simulator.outcomes.hitTokens[7]++;
    expect(firstDivergence(recording.engine, simulator)).toEqual({ what: "outcome", request: 7, name: "hitTokens" });
  });
});

describe("a duration that is off by 1 ns", () => {
  /** Request 1 arrives in the nanosecond in which the first step ends. */
  const [trace] = tracesOf([
    { at: 0, prompt: 9, output: 4 },
    { at: 1_000_000, prompt: 5, output: 2 },
  ]);
  const everyMs = (): Clock => {
    let nowNs = 0;
    return { now: () => (nowNs += 1_000_000), waitUntil: async () => {} };
  };
  /** A step is planned when the one before it has ended, so that a late arrival changes the next step. */
  const schedulerOptions = { "async-scheduling": 0 };
  const recorded = () => record({ ...tight, schedulerOptions, clock: everyMs(), choice: { fold: true } }, trace);
  const offBy = ({ steps }: Recording, ns: number): RecordedSteps => ({
    ...steps,
    durationNs: steps.durationNs.map((durationNs, step) => durationNs + (step === 0 ? ns : 0)),
  });

  test("is found at its step, and so is the admission that it delays", async () => {
    const recording = await recorded();
    const { engine } = recording;
    const simulator = await simulate(recording, {}, offBy(recording, -1));
    const [step] = placesOf(engine, "step");
    expect(firstDivergence(engine, simulator)).toEqual({ what: "event", events: step, steps: 0, onlyTime: true });
    const decision = firstDivergence(engine, simulator, false);
    expectEvents(decision);
    expect(decision.steps).toBe(1);
    expect(eventAt(engine, decision.events)).toMatchObject({ kind: "admit", request: 1 });
    expect(decision.events).toBe(placesOf(engine, "admit")[1]);
  });

  test("is found even if it changes no decision", async () => {
    const recording = await recorded();
    const simulator = await simulate(recording, {}, offBy(recording, 1));
    expect(firstDivergence(recording.engine, simulator)).toMatchObject({ what: "event", steps: 0, onlyTime: true });
    expect(firstDivergence(recording.engine, simulator, false)).toBeUndefined();
  });

  test("is reported with both times, and the states before", async () => {
    const recording = await recorded();
    const { columns, config, steps, engine } = recording;
    const simulator = await simulate(recording, {}, offBy(recording, -1));
    const divergence = firstDivergence(engine, simulator);
    const input = { name: "two", files: ["two"], format: "made", trace, inputTokens: 14, outputTokens: 6 };
    const real = engineFrom({ model: "random:tiny" }, trace);
    const report = verifyReport(input, columns, config, real, { engine, steps, simulator, divergence });
    expect(report).toMatchObject({ identical: false, difference: { onlyTime: true, steps: 0, what: "event" } });
    expect(report.difference!.sides).toMatchObject({
      engine: {
        timeNs: 1_000_000,
        words: "a step computes 9 tokens of 1 request",
        before: { running: [0], waiting: [1] },
      },
      simulator: { timeNs: 999_999, before: { running: [0], waiting: [] } },
    });
    expect(report.thereupon).toMatchObject({ steps: 1, requests: [1] });
    expect(report.thereupon!.sides.simulator).toMatchObject({
      timeNs: 999_999,
      words: "step 1 begins, with 1 request: 0",
    });
    expect(report.thereupon!.sides.engine).toMatchObject({
      words: "request 1 is admitted with 0 of its 1 prompt block cached (0 tokens)",
      before: {
        waiting: [1],
        tables: [{ request: 1, blocks: null }],
        blocks: { free: 15, private: 1, cachedHeld: 2, cachedIdle: 0 },
      },
      after: { running: [0, 1], waiting: [], tables: [{ request: 1, blocks: [3, 4] }], blocks: { free: 13 } },
    });
    const text = verifyText(input, report);
    expect(text).toContain("different: the first difference is after 0 steps and");
    expect(text).toContain("999,999 ns a step computes 9 tokens of 1 request");
    expect(text).toMatch(/different: the first different decision is after 1 step and \d+ events,\s+request 1\n/);
    for (const line of text.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });
});

describe("engine and simulator make the same decisions with every eviction policy and scheduler of the matrix", () => {
  const trace = conversationTrace({ seed: 6, requests: 20, outputs: true });

  test.each(presetRegistry.all.map(({ name }) => name))("%s", async (name) => {
    const its = combinations().filter((one) => one.preset.name === name && !sameAs(one));
    expect(its.length).toBeGreaterThanOrEqual(12);
    for (const { preset, eviction, scheduler } of its) {
      const own = {
        ...{ preset, blocks: 18, hostBlocks: 24, audit: false },
        ...(eviction !== "own" && { eviction: evictionRegistry.get(eviction) }),
        ...(scheduler !== "own" && { scheduler }),
      };
      const recording = await record(own, trace);
      expect([eviction, scheduler, firstDivergence(recording.engine, await simulate(recording))]).toEqual([
        ...[eviction, scheduler],
        undefined,
      ]);
    }
  });
});
