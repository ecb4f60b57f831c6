import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { seededRandom } from "../../../core/random.ts";
import { type Trace, TraceBuilder } from "../../../core/trace/trace.ts";
import type { ReaderPlugin } from "../../../index.ts";
import { compareReplays } from "../../../lab/compare/compare.ts";
import { compareServed } from "../../../lab/compare/compare-served.ts";
import { type Input, openTrace } from "../../../lab/input.ts";
import { runTrace, streamTrace } from "../../../lab/run/run-trace.ts";
import type { TargetOptions } from "../../../lab/run/trace-run.ts";
import { presetRegistry, routerRegistry } from "../../../policies/registry.ts";
import { kvlab, newFolder } from "../../cli/program.ts";

const folder = mkdtempSync(join(tmpdir(), "kvlab-streaming-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const requests = 300;

/** Turns of 40 sessions with prompts of blocks of 16 tokens that share prefixes; the content ids are numbered by first use. */
function* batches(size: number, { lateNamespaces = false } = {}): Generator<Trace> {
  const random = seededRandom(3);
  const builder = new TraceBuilder(16);
  const prompts: number[][] = [[]];
  let ids = 0;
  for (let row = 0; row < requests; row++) {
    const shared = prompts[random.below(prompts.length)];
    const keys = [...shared.slice(0, random.below(shared.length + 1))];
    for (let i = 1 + random.below(6); i > 0; i--) keys.push(ids++);
    prompts.push(keys);
    builder.add({
      arrivalNs: row * 40_000_000,
      inputTokens: keys.length * 16,
      outputTokens: 1 + random.below(30),
      keys,
      ...{ session: 1 + (row % 40), thinkNs: (row % 7) * 30_000_000, parent: row % 5 === 4 ? row - 3 : -1 },
      ...(lateNamespaces && row > requests / 2 && { namespace: row % 3 }),
    });
    if (builder.requestCount === size) yield builder.take();
  }
  if (builder.requestCount > 0) yield builder.take();
}

const reader = (size: number, options = {}): ReaderPlugin => ({
  name: "shared-prefixes",
  open: () => ({
    async *batches() {
      yield* batches(size, options);
    },
  }),
});

const file = join(folder, "any");
writeFileSync(file, "");

const comparable = (report: object) =>
  JSON.stringify(report, (name, value) => (/^(wallMs|blockRefsPerS)$/.test(name) ? undefined : value));

/** Options without the default target. */
type Options = Omit<TargetOptions, "target"> & { readonly target?: TargetOptions["target"] };

async function compareBoth(options: Options, readerOptions = {}): Promise<void> {
  const both = { target: "cache" as const, ...options };
  const whole = await runTrace(file, { ...both, format: reader(requests, readerOptions) });
  for (const size of [1, 7, 64]) {
    const streamed = await streamTrace(file, { ...both, format: reader(size, readerOptions) });
    expect(comparable(streamed.report)).toBe(comparable(whole.report));
    expect(streamed.distinctBlocks).toBe(whole.distinctBlocks);
  }
}

describe("a trace that is read batch by batch has the report of one in memory", () => {
  for (const { name } of presetRegistry.all) {
    test(`with ${name}`, () => compareBoth({ preset: name, blocks: { blocks: 60 } }));
    test(`with ${name}, simulated`, () => compareBoth({ preset: name, target: "sim", blocks: { blocks: 300 } }));
  }

  const others: Record<string, Options> = {
    "with the default size of the cache": {},
    "with an unlimited cache": { blocks: "unlimited" },
    "with a policy that reads the future": { eviction: "belady", blocks: { blocks: 40 } },
    "with outputs that are cached": { rules: { "cache-generated": "true" }, blocks: { blocks: 40 } },
    "with partial hits": { index: "block-trie", rules: { partial: "copy" }, blockSize: 32, blocks: { blocks: 40 } },
    "twice with partial hits": {
      ...{ index: "block-trie", rules: { partial: "copy" }, blockSize: 32, blocks: { blocks: 40 }, repeat: 1 },
    },
    "with a warm-up": { warmup: 20, target: "sim", slo: { ttftMs: 50 } },
    "run twice": { repeat: 1 },
    "at a rate": { target: "sim", rate: 30, blocks: { share: 0.2 } },
    "at a low speed": { target: "sim", speed: 0.5 },
    "in a network": { target: "sim", network: { clientNs: 2_000_000, routerNs: 1000 } },
    "on two replicas with small caches": { target: "sim", replicas: 2, blocks: { blocks: 60 } },
    "in a closed loop": { target: "sim", loop: "closed", speed: 3, warmup: 20 },
    "in a closed loop of two replicas in a network": {
      ...{ target: "sim", loop: "closed", replicas: 2, router: "session-affinity", speed: 50 },
      network: { clientNs: 2_000_000, routerNs: 1000 },
    },
    "with separate replicas for prefill and decode": {
      ...{ target: "sim", prefillReplicas: 2, decodeReplicas: 2, speed: 20, blocks: { blocks: 60 } },
      network: { clientNs: 2_000_000, routerNs: 1000 },
    },
    "with a raised limit of output tokens": { maxOutput: 100 },
    "with draft tokens": { target: "sim", speculate: { tokens: 3, acceptance: 0.6 } },
  };
  for (const [name, options] of Object.entries(others)) test(name, () => compareBoth(options));

  for (const { name } of routerRegistry.all)
    test(`on four replicas with router ${name}`, () =>
      compareBoth({ target: "sim", replicas: 4, router: name, speed: 20, blocks: { blocks: 200 } }));

  test("if only later requests have namespaces", () =>
    compareBoth({ blocks: { blocks: 60 } }, { lateNamespaces: true }));
});

describe("a comparison over a trace that is read batch by batch has the report of one in memory", () => {
  const reports = async (compare: (source: string | Input, format: object) => Promise<{ readonly report: object }>) => {
    const input = await openTrace(file, { format: reader(requests, { lateNamespaces: true }) });
    const { report } = await compare(input, {});
    for (const size of [1, 64]) {
      const streamed = await compare(file, { format: reader(size, { lateNamespaces: true }) });
      expect(comparable(streamed.report)).toBe(comparable(report));
    }
  };

  test("with bounds", () =>
    reports((source, format) => compareReplays(source, { ...format, eviction: ["lru", "fifo"], metric: "block" })));
  test("of presets with block sizes of their own", () =>
    reports((source, format) => compareReplays(source, { ...format, preset: ["vllm", "sglang", "lmdeploy"] })));
  test("of simulations of several replicas", () =>
    reports((source, format) =>
      compareServed(source, { ...format, eviction: ["lru"], replicas: [1, 2], rate: [5, 50] }),
    ));
  test("of simulations in a closed loop", () =>
    reports((source, format) => compareServed(source, { ...format, eviction: ["lru", "fifo"], loop: "closed" })));
});

describe("a run that is saved while it proceeds has the files of one that is saved at its end", () => {
  const files = (run: string) => readdirSync(join(folder, run)).filter((name) => name !== "run.json");
  const options: Record<string, TargetOptions> = {
    cache: { target: "cache", events: true },
    simulation: { target: "sim", events: true },
    replicas: { target: "sim", replicas: 2, events: true },
  };
  for (const [target, own] of Object.entries(options))
    test(target, async () => {
      const save = (name: string) => ({ as: join(folder, `${target}-${name}`) });
      await runTrace(file, { ...own, format: reader(requests), save: save("whole") });
      await streamTrace(file, { ...own, format: reader(7), save: save("streamed") });
      expect(files(`${target}-streamed`)).toEqual(files(`${target}-whole`));
      for (const name of files(`${target}-whole`)) {
        const [streamed, whole] = ["streamed", "whole"].map((run) =>
          readFileSync(join(folder, `${target}-${run}`, name)),
        );
        expect(streamed.equals(whole), name).toBe(true);
      }
    });
});

describe("a reader of lengths", () => {
  const lengths = (source: object, { lengthsOnly = false, keys = [] as number[] } = {}): ReaderPlugin => ({
    name: "lengths",
    open: () => ({
      ...source,
      async *batches() {
        const builder = new TraceBuilder(16, 0, { lengthsOnly });
        for (const arrivalNs of [0, 5]) builder.add({ arrivalNs, inputTokens: 40, outputTokens: 2, keys });
        yield builder.take();
      },
    }),
  });
  const simulated = { target: "sim", index: "none" } as const;

  test("without content: lengths is refused, in memory and batch by batch", async () => {
    const message =
      'lengths: batches() yielded a request of 40 input tokens with 0 keys, expected keys, or content: "lengths" beside batches()';
    for (const format of [lengths({}), lengths({}, { lengthsOnly: true })])
      for (const options of [{ target: "cache" }, simulated] as const) {
        await expect(streamTrace(file, { ...options, format })).rejects.toThrow(message);
        await expect(runTrace(file, { ...options, format })).rejects.toThrow(message);
      }
  });

  test("with content: lengths has no keys, and is served without a cache", async () => {
    const format = lengths({ content: "lengths" });
    expect((await streamTrace(file, { ...simulated, format })).report.trace.requests).toBe(2);
    await expect(streamTrace(file, { target: "cache", format })).rejects.toThrow("lengths traces have lengths only");
    await expect(
      streamTrace(file, { ...simulated, format: lengths({ content: "lengths" }, { keys: [0, 1, 2] }) }),
    ).rejects.toThrow("a request of 40 input tokens with 3 keys, expected none");
  });
});

/**
 * Reads batches whose columns are views of arrays of 32 MB. The program prints its largest resident memory, in kB, at its end.
 */
const largeBatches = (count: number) => `
process.on("exit", () => console.error(process.resourceUsage().maxRSS));
export const reader = {
  name: "large-batches",
  open: () => ({
    async *batches() {
      for (let batch = 0; batch < ${count}; batch++) {
        const keys = new Uint32Array(8 << 20).fill(1).subarray(0, 1);
        keys[0] = 0;
        const one = () => Uint32Array.of(16);
        const columns = { inputTokens: one(), outputTokens: one(), maxOutputTokens: one(), keys };
        const rows = { arrivalNs: Float64Array.of(batch * 1e8), keyStart: Float64Array.of(0, 1) };
        const trace = { unitTokens: 16, requestCount: 1, ...columns, ...rows, distinctKeys: 1 };
        yield { ...trace, optional: { parent: Int32Array.of(batch - 1) } };
      }
    },
  }),
};
`;

describe("memory does not grow with the number of batches", () => {
  const residentKb = async (count: number, args: readonly string[]) => {
    const run = newFolder();
    writeFileSync(join(run, "large.ts"), largeBatches(count));
    const [command, ...others] = args;
    const { code, stderr } = await kvlab(run, [command, "any", "--format", "./large.ts", "--json", ...others]);
    expect(code, stderr).toBe(0);
    return Number(stderr.trim().split("\n").at(-1));
  };

  const commands = [
    "replay --no-save --blocks 100",
    "replay --no-save --blocks 10% --eviction belady",
    "replay --no-save --target sim",
    "replay --no-save --target sim --replicas 2 --loop closed",
    "compare --eviction lru --blocks 100",
    "compare --eviction lru --target sim",
  ];
  for (const command of commands)
    test(`kvlab ${command}`, async () => {
      const args = command.split(" ");
      // 60 more batches have 1.9 GB.
      const [few, many] = [await residentKb(4, args), await residentKb(64, args)];
      expect(many - few).toBeLessThan(800_000);
    });
});
