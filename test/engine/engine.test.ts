import { beforeAll, describe, expect, test } from "vitest";
import { seededRandom } from "../../core/random.ts";
import { blockKeysFor } from "../../core/replica/compose.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { TraceBuilder } from "../../core/trace/trace.ts";
import { BusyClock, type Clock, WallClock } from "../../engine/clock.ts";
import { Engine } from "../../engine/engine.ts";
import {
  type BatchResult,
  type BatchStep,
  type BlockData,
  type Executor,
  ExecutorError,
} from "../../engine/executor.ts";
import { servedResult } from "../../lab/run/served-result.ts";
import { linesOf } from "../../laws/log-lines.ts";
import { presetRegistry, schedulerRegistry } from "../../policies/registry.ts";
import { Recorded } from "../../sim/cost/recorded.ts";
import { simulate } from "../../sim/simulation.ts";
import { outcomeNames } from "../support/simulated.ts";
import {
  conversationTrace,
  ForwardingExecutor,
  isolatedOutputs,
  type Outputs,
  type OwnEngine,
  openModel,
  policiesOf,
  RandomClock,
  type Served,
  type ServedRun,
  serve,
  spoil,
} from "./serving.ts";

const presets = presetRegistry.all.map((preset) => [preset.name, preset] as const);

let model: Served;
/** Outputs chosen by the model, and outputs given by the trace (so that later turns can hit the cached ones). */
const traces = [conversationTrace({ seed: 3 }), conversationTrace({ seed: 4, outputs: true })];
let expected: Outputs[];
/** Outputs of the first trace at their longest lengths. */
let longest: Outputs;
beforeAll(async () => {
  model = await openModel("random:tiny", 48, 4);
  expected = [];
  for (const trace of traces) expected.push(await isolatedOutputs(model, trace));
  longest = await isolatedOutputs(model, { ...traces[0], outputTokens: traces[0].maxOutputTokens });
});

/** Small pools, with evictions and preemptions. */
const tight = { blocks: 18, hostBlocks: 24 } as const;

/** Schedulers; `undefined` is that of the preset. */
const servings: readonly (OwnEngine & { readonly name: string })[] = [
  { name: "the preset's scheduler", ...tight },
  { name: "chunked prefill", ...tight, scheduler: "fcfs-chunked", schedulerOptions: { "max-num-batched-tokens": 7 } },
  { name: "asynchronous scheduling", ...tight, scheduler: "fcfs-chunked", schedulerOptions: { "async-scheduling": 1 } },
  { name: "swaps", ...tight, scheduler: "fcfs", schedulerOptions: { swap: 1 } },
];

function expectServed(run: ServedRun): void {
  const { engine, trace, tokens, closed } = run;
  const { outcomes } = engine.arrivals.batches[0];
  expect(run.difference).toBeUndefined();
  expect(engine.done).toBe(trace.requestCount);
  expect(tokens.map(({ length }) => length)).toEqual([...trace.outputTokens]);
  expect([...closed].sort((a, b) => a - b)).toEqual(tokens.map((_, id) => id));
  for (let id = 0; id < trace.requestCount; id++) {
    expect(outcomes.replica[id]).toBe(0);
    expect(outcomes.admittedNs[id]).toBeGreaterThanOrEqual(outcomes.arrivalNs[id]);
    expect(outcomes.firstTokenNs[id]).toBeGreaterThan(outcomes.admittedNs[id]);
    expect(outcomes.finishedNs[id]).toBeGreaterThanOrEqual(outcomes.firstTokenNs[id]);
  }
  const { startNs, durationNs } = run.steps;
  startNs.forEach((start, i) => {
    expect(durationNs[i]).toBeGreaterThan(0);
    if (i > 0) expect(start).toBeGreaterThanOrEqual(startNs[i - 1] + durationNs[i - 1]);
  });
}

describe("logits are bit-identical with and without hits", () => {
  test("without an index", async () => {
    for (const [i, trace] of traces.entries()) {
      const run = await serve(model, trace, { index: "none", scheduler: "naive", ...tight }, expected[i]);
      expectServed(run);
      expect(run.engine.replica.cache.counters.hitTokens).toBe(0);
    }
  });

  test.each(presets)("%s", async (name, preset) => {
    const total = { hits: 0, evictions: 0, preemptions: 0, copies: 0, swapped: 0 };
    for (const [i, trace] of traces.entries())
      for (const { name: _, ...own } of servings) {
        // The content that earlier runs left in the pool must not be usable.
        await spoil(model);
        const run = await serve(model, trace, { ...own, preset }, expected[i]);
        expectServed(run);
        const { counters } = run.engine.replica.cache;
        total.hits += counters.hitTokens;
        total.evictions += counters.evictedBlocks;
        total.preemptions += counters.preemptions;
        total.copies += run.copies;
        total.swapped += run.swapped;
      }
    // Every kind of decision that the preset can make has occurred.
    const stores = name !== "tgi-simple";
    expect(total.hits > 0).toBe(stores);
    expect(total.evictions > 0).toBe(stores);
    expect(total.preemptions > 0).toBe(preset.rules.reserve !== "worst-case");
    expect(total.copies > 0).toBe(["roseinfer", "trt-llm", "turbomind"].includes(name));
  });

  test.each([
    ["random:tiny-qwen3", 4, "trt-llm"],
    ["random:tiny-mistral", 1, "sglang"],
    ["random:tiny-gpt2", 1, "lightllm"],
    ["random:tiny-bloom", 4, "turbomind"],
  ] as const)(
    "%s with blocks of %i tokens and the cache of preset %s, under every scheduler",
    async (name, blockTokens, presetName) => {
      const other = await openModel(name, 192 / blockTokens, blockTokens);
      const trace = conversationTrace({ seed: 5, requests: 16, outputs: true });
      const outputs = await isolatedOutputs(other, trace);
      const preset = presetRegistry.get(presetName);
      await spoil(other);
      for (const { name: scheduler } of schedulerRegistry.all) {
        const size = { blocks: 80 / blockTokens, hostBlocks: 96 / blockTokens };
        expectServed(await serve(other, trace, { preset, scheduler, ...size }, outputs));
      }
    },
  );

  test("for content ids of units that are smaller than blocks", async () => {
    const trace = contents();
    const outputs = await isolatedOutputs(model, trace);
    for (const name of ["vllm", "sglang", "trt-llm"]) {
      await spoil(model);
      const run = await serve(model, trace, { preset: presetRegistry.get(name), blocks: 30 }, outputs);
      expectServed(run);
      expect(run.engine.replica.cache.counters.hitTokens).toBeGreaterThan(0);
    }
  });
});

/** Prompts in content ids of 2 tokens each, with a common prefix; some end within a unit. */
function contents(): Trace {
  const builder = new TraceBuilder(2);
  let fresh = 8;
  for (let i = 0; i < 12; i++) {
    const keys = Array.from({ length: 2 + (i % 7) }, (_, at) => at);
    for (let more = i % 3; more > 0; more--) keys.push(fresh++);
    builder.add({ arrivalNs: i * 500_000, inputTokens: 2 * keys.length - (i % 2), outputTokens: 3, keys });
  }
  return builder.take();
}

abstract class Broken extends ForwardingExecutor {
  /** Number of faults. */
  faults = 0;
}

/** One block of a block table is replaced by another one. */
class WrongTable extends Broken {
  override executeStep(step: BatchStep): Promise<BatchResult> {
    if (this.faults > 0 || step.contextLens[0] <= 4 || step.cuSeqlensQ[1] > 2) return super.executeStep(step);
    this.faults++;
    const blockTables = step.blockTables.slice();
    blockTables[0] = (blockTables[0] + 1) % this.blockCount;
    return super.executeStep({ ...step, blockTables });
  }
}

class NoCopy extends Broken {
  override async copyBlocks(pairs: readonly { readonly source: number; readonly target: number }[]): Promise<void> {
    // Omitting a copy of a block to itself has no effect.
    if (this.faults > 0 || pairs.every(({ source, target }) => source === target)) return super.copyBlocks(pairs);
    this.faults++;
  }
}

class NoSwapIn extends Broken {
  override async writeBlocks(blocks: readonly number[], data: readonly BlockData[]): Promise<void> {
    if (this.faults > 0) return super.writeBlocks(blocks, data);
    this.faults++;
  }
}

/** Another block is swapped out. */
class WrongSwapOut extends Broken {
  override readBlocks(blocks: readonly number[]): Promise<BlockData[]> {
    this.faults++;
    return super.readBlocks(blocks.map((block) => (block + 1) % this.blockCount));
  }
}

/** A block of a prompt is not written. */
class StaleBlock extends Broken {
  override executeStep(step: BatchStep): Promise<BatchResult> {
    const slotMapping = step.slotMapping.slice();
    if (this.faults === 0 && slotMapping.length > 4) {
      this.faults++;
      slotMapping.fill(-1, 0, 4);
    }
    return super.executeStep({ ...step, slotMapping });
  }
}

/** The logits of two sequences are exchanged. */
class SwappedLogits extends Broken {
  override executeStep(step: BatchStep): Promise<BatchResult> {
    const { logitsIndices } = step;
    if (this.faults > 0 || logitsIndices.length < 2) return super.executeStep(step);
    this.faults++;
    return super.executeStep({ ...step, logitsIndices: logitsIndices.slice().reverse() });
  }
}

describe("the comparison detects", () => {
  test.each([
    ["a wrong block in a block table", "vllm", 0, WrongTable],
    ["a copy that is not made", "trt-llm", 0, NoCopy],
    ["a copy that is not made", "turbomind", 0, NoCopy],
    ["a block that is not swapped in", "vllm-v0", 3, NoSwapIn],
    ["a swap-out of other blocks", "vllm-v0", 3, WrongSwapOut],
    ["a block that is not written", "sglang", 0, StaleBlock],
    ["logits of another sequence", "vllm", 0, SwappedLogits],
  ] as const)("%s (%s)", async (_, name, serving, Fault) => {
    for (const [i, trace] of traces.entries()) {
      await spoil(model);
      let broken: Broken | undefined;
      const executor = (to: Executor) => (broken = new Fault(to));
      const own = { ...servings[serving], preset: presetRegistry.get(name), executor };
      const run = await serve(model, trace, own, expected[i]);
      expect(broken!.faults).toBeGreaterThan(0);
      expect(run.difference).toBeDefined();
    }
  });
});

/** The simulation of a run, with the durations of the engine's steps. */
function simulatedLike({ trace, columns, config, steps }: ServedRun, own: OwnEngine) {
  const { hostBlocks = 0, arrivals, warmup = 0 } = own;
  const cost = new Recorded(steps, "the engine's steps");
  return simulate(
    trace,
    { ...config, hostBlocks, warmup, ...(arrivals && { arrivals }), cost: () => cost, events: true },
    columns,
  );
}

function expectSimulatedLike(run: ServedRun, own: OwnEngine): void {
  const simulation = simulatedLike(run, own);
  const { engine } = run;
  const [replica] = simulation.replicas;
  expect([...linesOf(replica.log!)]).toEqual([...linesOf(engine.replica.log!)]);
  const [here, there] = [engine, simulation].map(({ arrivals }) => arrivals.batches[0].outcomes);
  for (const name of outcomeNames) expect([name, ...there[name]]).toEqual([name, ...here[name]]);
  expect(replica.cache.counters).toEqual(engine.replica.cache.counters);
  expect(replica.stepCount).toBe(engine.replica.stepCount);
  expect(replica.busyNs).toBe(engine.replica.busyNs);
  expect([...replica.refusals]).toEqual([...engine.replica.refusals]);
  expect(simulation.series.count).toBe(engine.series.count);
  expect(simulation.series.levels).toEqual(engine.series.levels);
  expect(simulation.series.counts).toEqual(engine.series.counts);
}

describe("a simulator with the durations of the engine's steps makes the same decisions, event by event", () => {
  const schedulers = ["fcfs-chunked", "lpm", "efficient-router", "prefix-groups", "fcfs"];
  const cases = ["vllm", "sglang", "trt-llm", "roseinfer"].flatMap((name) =>
    schedulers.map((scheduler) => [name, scheduler] as const),
  );
  test.each(cases)("%s under %s", async (name, scheduler) => {
    const own = { preset: presetRegistry.get(name), scheduler, ...tight, clock: new RandomClock(9) };
    expectSimulatedLike(await serve(model, traces[1], own), own);
  });

  test("in wall-clock time, idle periods skipped", async () => {
    const own = { preset: presetRegistry.get("vllm"), ...tight, clock: new BusyClock() };
    const run = await serve(model, traces[0], own, expected[0]);
    expectServed(run);
    expectSimulatedLike(run, own);
  });

  test("in a closed loop with a warm-up", async () => {
    const own = {
      preset: presetRegistry.get("sglang"),
      ...tight,
      arrivals: { loop: "closed", speed: 2 },
      warmup: 5,
    } as const;
    const run = await serve(model, traces[1], own, expected[1]);
    expectServed(run);
    expectSimulatedLike(run, own);
  });

  test.each(["open", "closed"] as const)("when arrivals, turns and ends of steps coincide (%s loop)", async (loop) => {
    const builder = new TraceBuilder(1);
    for (let i = 0; i < 40; i++) {
      const keys = Array.from({ length: 4 + (i % 9) }, (_, at) => at);
      const rest = { session: 1 + (i % 13), thinkNs: (i % 3) * 1e6, outputTokens: 1 + (i % 4) };
      builder.add({ arrivalNs: Math.floor(i / 2) * 1e6, inputTokens: keys.length, keys, ...rest });
    }
    let nowNs = 0;
    const clock: Clock = {
      now: () => (nowNs += 1e6),
      waitUntil: async (timeNs) => {
        nowNs = Math.max(nowNs, timeNs);
      },
    };
    const own = { preset: presetRegistry.get("vllm"), blocks: 12, clock, arrivals: { loop } };
    const run = await serve(model, builder.take(), own);
    expectServed(run);
    expectSimulatedLike(run, own);
  });

  test("when requests are too long for the cache, also in a closed loop", async () => {
    for (const loop of ["open", "closed"] as const) {
      const own = { preset: presetRegistry.get("vllm"), blocks: 8, arrivals: { loop } };
      const run = await serve(model, traces[1], own);
      expect(run.engine.replica.refusals.size).toBeGreaterThan(0);
      expectSimulatedLike(run, own);
    }
  });

  test.each(presets)("outputs without end tokens have their maximum lengths (%s)", async (_, preset) => {
    const own = { preset, ...tight, choice: { endTokens: [] } };
    const run = await serve(model, traces[0], own, longest);
    expect(run.difference).toBeUndefined();
    expect(run.tokens).toEqual(longest.tokens);
    expect(run.closed).toHaveLength(traces[0].requestCount);
  });

  test.each(presets)("end tokens decide output lengths (%s)", async (_, preset) => {
    // A quarter of all tokens are end tokens.
    const endTokens = Array.from({ length: 128 }, (_, i) => 4 * i);
    const run = await serve(model, traces[0], { preset, ...tight, choice: { endTokens } });
    run.tokens.forEach((output, id) => {
      const end = output.findIndex((token) => endTokens.includes(token)) + 1;
      const most = traces[0].maxOutputTokens[id];
      expect(output).toHaveLength(end > 0 ? end : most);
      // Up to their ends the outputs are those of the model.
      const same = Math.min(output.length, expected[0].tokens[id].length);
      expect(output.slice(0, same)).toEqual(expected[0].tokens[id].slice(0, same));
    });
    expect([...run.closed].sort((a, b) => a - b)).toEqual(run.tokens.map((_, id) => id));
    expect(new Set(run.tokens.map(({ length }, id) => length < traces[0].maxOutputTokens[id])).size).toBe(2);
    // Metrics count the generated tokens.
    const { outcomes } = run.engine.arrivals.batches[0];
    expect([...outcomes.outputTokens]).toEqual(run.tokens.map(({ length }) => length));
    const { throughput, latency } = servedResult(run.engine, { steps: undefined, slo: undefined, warmup: 0 });
    const count = run.tokens.flat().length;
    expect(throughput.outputTokensPerS * throughput.makespanS).toBeCloseTo(count, 6);
    expect(run.engine.series.counts.generatedTokens.reduce((a, b) => a + b)).toBe(count);
    const perToken = run.tokens.flatMap(({ length }, id) =>
      length > 1 ? (outcomes.finishedNs[id] - outcomes.firstTokenNs[id]) / 1e6 / (length - 1) : [],
    );
    expect(latency.tpotMs?.mean).toBeCloseTo(perToken.reduce((a, b) => a + b) / perToken.length, 6);
    expect(traces[0].outputTokens).not.toEqual(outcomes.outputTokens);
  });
});

describe("stored logits", () => {
  const roseinfer = presetRegistry.get("roseinfer");

  test("a repeated prompt computes nothing and has the same output", async () => {
    const trace = repeated([11, 11, 11]);
    // The executor's logits are valid until its next step.
    let last: Float32Array | undefined;
    class Reusing extends ForwardingExecutor {
      override async executeStep(step: BatchStep): Promise<BatchResult> {
        last?.fill(0);
        const result = await super.executeStep(step);
        last = result.logits;
        return result;
      }
    }
    const own = { preset: roseinfer, blocks: 40, executor: (to: Executor) => new Reusing(to) };
    const run = await serve(model, trace, own, await isolatedOutputs(model, trace));
    expectServed(run);
    expect(run.steps.prefillTokens.reduce((a, b) => a + b)).toBe(11);
    expect(run.tokens[1]).toEqual(run.tokens[0]);
  });

  test("of many prompts, the logits of cached prompts are kept", async () => {
    const executor = await openModel("random:tiny", 700, 4);
    // More prompts than a cleanup threshold, several per step, each with one output token; then all of them again.
    const random = seededRandom(2);
    const prompts = Array.from({ length: 150 }, (_, i) => [i, random.below(512), random.below(512)]);
    const builder = new TraceBuilder(1);
    for (const keys of [...prompts, ...prompts]) builder.add({ arrivalNs: 0, inputTokens: 3, outputTokens: 1, keys });
    const trace = builder.take();
    const own = { preset: roseinfer, blocks: 700, schedulerOptions: { "prompts-per-step": 3 } };
    const run = await serve(executor, trace, { ...own, audit: false }, await isolatedOutputs(executor, trace));
    expectServed(run);
    expect(run.steps.prefillTokens.reduce((a, b) => a + b)).toBe(3 * 150);
  });

  test("without an index there are no hits, and no logits are needed", async () => {
    // The rule is of the index.
    const { "max-entries": _, ...rules } = roseinfer.rules;
    const prompts = { ...roseinfer, rules };
    const run = await serve(model, traces[0], { preset: prompts, index: "none", ...tight }, expected[0]);
    expectServed(run);
    expect(run.engine.replica.cache.counters.hitTokens).toBe(0);
  });

  test("an index that matches parts of prompts is refused", async () => {
    const own = { preset: presetRegistry.get("vllm"), rules: { "full-hit": "stored-logits" }, ...tight } as const;
    await expect(serve(model, traces[0], own)).rejects.toThrow(
      "index hash-table also matches prompts that were never prefilled as a whole, which have no logits for full-hit=stored-logits",
    );
  });
});

/** Prefixes of one prompt, far apart in time. */
function repeated(lengths: readonly number[]): Trace {
  const builder = new TraceBuilder(1);
  lengths.forEach((inputTokens, i) => {
    const keys = Array.from({ length: inputTokens }, (_, at) => at + 1);
    builder.add({ arrivalNs: i * 1e9, inputTokens, outputTokens: 5, keys });
  });
  return builder.take();
}

describe("output tokens", () => {
  const choice = { sampling: { temperature: 1, topK: 20, seed: 5 } };

  test("are the same with the same seed, whatever is cached and whichever sequences are in the batch", async () => {
    const own = { preset: presetRegistry.get("vllm"), ...tight, choice };
    const [one, two, alone] = [
      await serve(model, traces[0], own),
      await serve(model, traces[0], { ...own, clock: new RandomClock(77), scheduler: "lpm" }),
      await serve(model, traces[0], { index: "none", scheduler: "naive", blocks: 40, choice }),
    ];
    expect(two.tokens).toEqual(one.tokens);
    expect(alone.tokens).toEqual(one.tokens);
  });

  test("differ between requests and seeds", async () => {
    const trace = repeated(Array.from({ length: 20 }, () => 8));
    const first = async (seed: number) => {
      const own = { preset: presetRegistry.get("vllm"), blocks: 40, choice: { sampling: { temperature: 1, seed } } };
      return (await serve(model, trace, own)).tokens.map(([token]) => token);
    };
    const [one, other] = [await first(1), await first(1000)];
    expect(new Set(one).size).toBeGreaterThan(10);
    expect(other).not.toEqual(one);
  });

  test("are those of the trace, if it has any", async () => {
    const trace = traces[1];
    const { generatedKeys, generatedStart } = trace.optional;
    const run = await serve(model, trace, { preset: presetRegistry.get("sglang"), ...tight, choice });
    expect(run.tokens.flat()).toEqual([...generatedKeys!]);
    expect(generatedStart).toHaveLength(trace.requestCount + 1);
  });

  test("of the trace count for penalties when the model continues them", async () => {
    const builder = new TraceBuilder(1);
    builder.add({ arrivalNs: 0, inputTokens: 3, outputTokens: 4, keys: [1, 2, 3], generatedKeys: [9, 8] });
    const sampling = { presencePenalty: 100, logitBias: new Map([9, 8, 7, 6].map((token) => [token, 40 + token])) };
    const own = { preset: presetRegistry.get("prefix-pool"), blocks: 40, choice: { sampling } };
    const run = await serve(model, builder.take(), own);
    expect(run.tokens).toEqual([[9, 8, 7, 6]]);
  });

  test("of the trace that are cached are refused with end tokens", async () => {
    const own = { preset: presetRegistry.get("vllm"), ...tight, choice: { endTokens: [0] } };
    await expect(serve(model, traces[1], own)).rejects.toThrow("end tokens cannot decide");
  });

  test("sampling options out of range are refused before a request is served", async () => {
    const columns = blockKeysFor(policiesOf({}, 4), 1).of(traces[0]);
    const create = () =>
      new Engine(traces[0], columns, {
        ...policiesOf({ blocks: 40 }, 4),
        ...{ executor: model.executor, clock: new RandomClock(), vocabulary: model.vocabulary },
        choice: { sampling: { topP: 2 } },
      });
    expect(create).toThrow("topP is 2, expected a number above 0, at most 1");
  });

  test("a token outside the vocabulary is refused, or folded", async () => {
    const trace = conversationTrace({ seed: 3, requests: 8, vocabulary: 2000 });
    const own = { preset: presetRegistry.get("vllm"), blocks: 40 };
    await expect(serve(model, trace, own)).rejects.toThrow(/^request \d+ has token \d+, expected one below 512/);
    const folded = conversationTrace({ seed: 3, requests: 8, vocabulary: 2000 });
    folded.keys.forEach((key, i) => {
      folded.keys[i] = key % 512;
    });
    const run = await serve(model, trace, { ...own, choice: { fold: true } }, await isolatedOutputs(model, folded));
    expectServed(run);
  });
});

describe("an interrupted run", () => {
  const own = { preset: presetRegistry.get("vllm"), ...tight };

  test("stop() returns at the end of the step, and everything until then is complete", async () => {
    let stop = () => {};
    let steps = 0;
    class Stopping extends ForwardingExecutor {
      override executeStep(step: BatchStep): Promise<BatchResult> {
        if (++steps === 5) stop();
        return super.executeStep(step);
      }
    }
    const run = await serve(
      model,
      traces[0],
      {
        ...own,
        executor: (to) => new Stopping(to),
        started: (engine) => {
          stop = () => engine.stop();
        },
      },
      expected[0],
    );
    const { engine } = run;
    expect(run.difference).toBeUndefined();
    expect([steps, engine.replica.stepCount, run.steps.durationNs.length]).toEqual([5, 5, 5]);
    expect(engine.replica.isBusy).toBe(false);
    expect(engine.done).toBeLessThan(traces[0].requestCount);
    expect(engine.done).toBe(run.closed.length);
    const lines = linesOf(engine.replica.log!);
    const whole = linesOf((await serve(model, traces[0], own)).engine.replica.log!);
    expect(lines).toEqual(whole.slice(0, lines.length));
  });

  test("stop() does not wait for an arrival", async () => {
    const builder = new TraceBuilder(1);
    for (const arrivalNs of [0, 3600e9]) builder.add({ arrivalNs, inputTokens: 2, outputTokens: 1, keys: [1, 2] });
    let served = () => {};
    const first = new Promise<void>((resolve) => {
      served = resolve;
    });
    const run = await serve(model, builder.take(), {
      ...own,
      clock: new WallClock(),
      onToken: () => served(),
      started: (engine) => void first.then(() => setImmediate(() => engine.stop())),
    });
    expect(run.tokens.map(({ length }) => length)).toEqual([1, 0]);
  });

  test.each(["executeStep", "copyBlocks", "writeBlocks", "readBlocks"] as const)(
    "an error of an executor's %s is thrown",
    async (method) => {
      const executor = (to: Executor) => {
        const failing = { [method]: () => Promise.reject(new ExecutorError(`${method} failed`)) };
        return Object.assign(new ForwardingExecutor(to), failing);
      };
      const preset = presetRegistry.get("turbomind");
      const run = serve(model, traces[1], { ...servings[3], preset, executor });
      await expect(run).rejects.toThrow(new ExecutorError(`${method} failed`));
    },
  );

  test("cache and executor must have the same blocks", async () => {
    const refused = (config: OwnEngine) => expect(serve(model, traces[0], { ...own, ...config })).rejects;
    await refused({ blocks: 49 }).toThrow("the cache has 49 blocks of 4 tokens, the executor 48 of 4");
    await refused({ blocks: undefined }).toThrow("the cache has unlimited blocks of 4 tokens, the executor 48 of 4");
  });
});
