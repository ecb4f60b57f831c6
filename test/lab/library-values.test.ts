import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  type AllocatorPlugin,
  type CostModel,
  compareServed,
  type EvictionPlugin,
  openTrace,
  PolicyError,
  type Preset,
  type ReaderPlugin,
  type RouterPlugin,
  replay,
  type SchedulerPlugin,
  simulate,
  TraceBuilder,
  TraceError,
  verify,
} from "../../index.ts";
import { presetRegistry } from "../../policies/registry.ts";
import { newFolder } from "../cli/program.ts";

// Plug-ins of every kind that a program passes as values.

const input = await openTrace("example", { limit: 60 });
const text = { about: "", source: "" };

const alternating: RouterPlugin = {
  ...{ name: "alternating", ...text },
  create: ({ replicaCount }) => ({ route: ({ id }) => id % replicaCount }),
};

/** 5 ms per step; a class, so that its method needs its own `this`. */
class Constant implements CostModel {
  readonly name = "constant";
  readonly #ns = 5_000_000;
  stepNs(): number {
    return this.#ns;
  }
}

const lines: ReaderPlugin = {
  name: "lines",
  open: (files, { unitTokens = 16 }) => ({
    async *batches() {
      const builder = new TraceBuilder(unitTokens);
      for (const _ of files) builder.add({ arrivalNs: 0, inputTokens: 40, outputTokens: 3, keys: [0, 1, 2] });
      yield builder.take();
    },
  }),
};

describe("a router", () => {
  test("chooses the replicas of a simulation", async () => {
    const own = await simulate(input, { replicas: 2, router: alternating });
    const named = await simulate(input, { replicas: 2, router: "round-robin" });
    expect(own.report.simulation?.router).toBe("alternating");
    expect([own.report.cache, own.report.latency]).toEqual([named.report.cache, named.report.latency]);
  });

  test("can be compared with built-in ones and with another one of the same name", async () => {
    const first: RouterPlugin = { ...alternating, create: () => ({ route: () => 0 }) };
    const router = ["round-robin", alternating, first];
    const { report } = await compareServed(input, { target: "sim", eviction: ["lru"], replicas: [2], router });
    expect(report.runs.map(({ simulation }) => simulation?.router)).toEqual([
      "round-robin",
      "alternating",
      "alternating",
    ]);
    expect(report.runs[0].cache.hitBlocks).toBe(report.runs[1].cache.hitBlocks);
    expect(report.runs[2].cache.hitBlocks).not.toBe(report.runs[1].cache.hitBlocks);
  });

  test("is refused with one replica", async () => {
    await expect(simulate(input, { router: alternating })).rejects.toThrow("--router alternating has no effect");
  });
});

describe("a cost model", () => {
  test("gives the durations of a simulation's steps, and its name is in the report", async () => {
    const save = { as: join(newFolder(), "run") };
    const { report, series } = await simulate(input, { cost: new Constant(), save });
    expect(report.simulation).toMatchObject({ cost: "constant", efficiency: null });
    expect(series).toBeDefined();
    // The last request is decoded alone, one step per output token.
    expect(report.latency!.tpotMs!.p50).toBeCloseTo(5, 6);
    const { command } = JSON.parse(readFileSync(join(save.as, "run.json"), "utf8"));
    expect(command).toContain("--cost constant");
  });

  test("gives the predicted times of verify", async () => {
    const short = await openTrace("example", { limit: 2 });
    const { report } = await verify(short, { blocks: { blocks: 400 }, threads: 1, cost: new Constant() });
    expect(report.identical).toBe(true);
  });
});

describe("a trace reader", () => {
  test("opens files, which are in the report with its name as the format", async () => {
    const opened = await openTrace(["a", "b"], { format: lines, unit: 20 });
    expect(opened).toMatchObject({ format: "lines", files: ["a", "b"], inputTokens: 80 });
    expect(opened.trace.unitTokens).toBe(20);
    const { report } = await replay(["a", "b"], { format: lines, blocks: { blocks: 9 } });
    expect([report.trace.format, report.cache.hitBlocks]).toEqual(["lines", 3]);
  });

  test("reports an error in a file by throwing a TraceError", async () => {
    const failing: ReaderPlugin = {
      name: "failing",
      open: () => ({
        async *batches() {
          const builder = new TraceBuilder(16);
          builder.add({ arrivalNs: 0, inputTokens: 16, outputTokens: 1, keys: [0] });
          yield builder.take();
          throw new TraceError("a:3: expected three numbers");
        },
      }),
    };
    await expect(openTrace("a", { format: failing })).rejects.toThrow(/^a:3: expected three numbers$/);
  });
});

test("a preset may contain plug-ins that are passed as values", async () => {
  const own: Preset = { ...presetRegistry.get("vllm"), name: "vllm-own", eviction: newestFirst() };
  const { report } = await replay(input, { preset: own, blocks: { share: 0.1 } });
  expect([report.policy.preset, report.policy.eviction]).toEqual(["vllm-own", "newest-first"]);
});

describe("an error in a plug-in passed as a value is a PolicyError of one line that begins with the plug-in's name", () => {
  const small = { blocks: { blocks: 60 } } as const;
  const boom = (): never => {
    throw new TypeError("boom\nsecond line");
  };
  const faulty: EvictionPlugin = { ...newestFirst(boom), name: "faulty" };
  const scheduler: SchedulerPlugin = { name: "faulty", ...text, create: () => ({ plan: boom }) };
  const allocator = { name: "faulty", ...text, create: boom } as AllocatorPlugin;
  const router: RouterPlugin = { name: "faulty", ...text, create: () => ({ route: boom }) };
  const format: ReaderPlugin = { name: "faulty", open: () => ({ batches: boom }) };

  test.each<[string, string, () => Promise<unknown>]>([
    ["an eviction policy", "victim() threw at request", () => replay(input, { eviction: faulty, ...small })],
    ["a scheduler", "plan() threw at request 0: boom", () => simulate(input, { scheduler })],
    ["an allocator", "create() threw", () => replay(input, { allocator, ...small })],
    ["a router", "route() threw at request 0: boom", () => simulate(input, { replicas: 2, router })],
    ["a cost model", "stepNs() threw: boom", () => simulate(input, { cost: { name: "faulty", stepNs: boom } })],
    [
      "a cost model's result",
      "stepNs() returned 0.5, expected a whole number",
      () => simulate(input, { cost: { name: "faulty", stepNs: () => 0.5 } }),
    ],
    ["a trace reader", "batches() threw: boom", () => openTrace("a", { format })],
  ])("%s", async (_, message, call) => {
    const error = await call().catch((error: unknown) => error as Error);
    expect(error).toBeInstanceOf(PolicyError);
    expect((error as Error).message).toContain(`faulty: ${message}`);
    expect((error as Error).message).not.toContain("\n");
  });

  test("a value of another shape, or with the name of a built-in plug-in, is refused", async () => {
    await expect(replay(input, { eviction: {} as EvictionPlugin })).rejects.toThrow("expected { name, create }");
    await expect(replay(input, { eviction: { ...newestFirst(), name: "lru" } })).rejects.toThrow(
      'an eviction policy\'s name is "lru", which is the name of a built-in plug-in',
    );
  });
});

/** Evicts the entry that became evictable last. */
function newestFirst(victim?: () => never): EvictionPlugin {
  return {
    ...{ name: "newest-first", ...text },
    create() {
      const entries: number[] = [];
      return {
        add: (entry) => void entries.push(entry),
        remove: (entry) => void entries.splice(entries.indexOf(entry), 1),
        victim: victim ?? (() => entries.at(-1)),
      };
    },
  };
}
