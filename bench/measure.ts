import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import type { HeapProfiler } from "node:inspector";
import { Session } from "node:inspector/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setImmediate } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { createCache, rulesFor } from "../core/replica/compose.ts";
import { CacheReplay, type ReplayConfig, replayTrace } from "../core/replica/replay.ts";
import { median } from "../core/serving/distribution.ts";
import { BlockKeys, fourLanes } from "../core/trace/content.ts";
import { readTrace, type Trace } from "../core/trace/trace.ts";
import { StackCurve } from "../lab/curve/stack-curve.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry, schedulerRegistry } from "../policies/registry.ts";
import { chatSource } from "../traces/generators/chat.ts";
import { openTrace } from "../traces/open.ts";
import { hardCodedLru } from "./hard-coded-lru.ts";

/** One measurement of a benchmark, as printed by a child process. */
export interface Measurement {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
}

/** Uses the results, so that the compiler cannot remove the measured code. */
export let sink = 0;

function timed(work: () => void): number {
  const from = performance.now();
  work();
  return performance.now() - from;
}

/** Processor time of the work in ms, which depends less than wall-clock time on the load of the machine. */
function processorMs(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

const folder = resolve(process.env["KVLAB_TRACES"] ?? "../shared/traces");
const recorded = join(folder, "mooncake/conversation_trace.jsonl.gz");

/** The trace of the benchmark: the recorded one if it is present, else a generated one. */
export const traceName = existsSync(recorded) ? "conversation_trace.jsonl.gz" : "generated chat";

export async function benchTrace(): Promise<Trace> {
  if (existsSync(recorded)) return readTrace(await openTrace([recorded]));
  return readTrace(chatSource({ requests: 12_000 }));
}

function configOf(index: string, eviction: string, blocks: number, trace: Trace): ReplayConfig {
  return {
    index: indexRegistry.get(index),
    eviction: evictionRegistry.get(eviction),
    allocator: allocatorRegistry.get("block"),
    scheduler: schedulerRegistry.get("naive"),
    blockTokens: trace.unitTokens,
    blocks,
    rules: {},
    seed: 1,
  };
}

const passes = 45;

/** Replays alternate with the baseline, so that both run under equal machine load; the ratio is the median of the pairs, by processor time. */
async function replay(index: string, eviction: string, blocks: number): Promise<Measurement[]> {
  const trace = await benchTrace();
  const config = configOf(index, eviction, blocks, trace);
  const columns = new BlockKeys({ unitTokens: trace.unitTokens, blockTokens: trace.unitTokens }).of(trace);
  const ours: number[] = [];
  const baseline: number[] = [];
  for (let pass = 0; pass < passes; pass++) {
    baseline.push(processorMs(() => (sink += hardCodedLru(trace, blocks))));
    ours.push(processorMs(() => (sink += replayTrace(trace, config, columns).cache.counters.hitBlocks)));
  }
  const ms = median(ours.slice(5));
  const base = median(baseline.slice(5));
  const ratios = ours.map((value, pass) => value / baseline[pass]).slice(5);
  return [
    { name: "ratio", value: median(ratios), unit: "×" },
    { name: "replay", value: ms, unit: "ms" },
    { name: "yardstick", value: base, unit: "ms" },
    { name: "speed", value: trace.keys.length / ms / 1000, unit: "M block references/s" },
  ];
}

/** One pass for six sizes and a replay at one size, alternately; the fastest of each. */
async function curve(): Promise<Measurement[]> {
  const trace = await benchTrace();
  const config = configOf("hash-table", "lru", 10_000, trace);
  const blocks = CacheReplay.blockKeys(config, trace);
  const rules = rulesFor(config.index, config.rules);
  const sizes = [1000, 5859, 10_000, 30_000, 50_000, 100_000];
  const cpuMs = (work: () => number) => {
    const before = process.cpuUsage();
    sink += work();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  };
  const fastest = { onePass: Number.POSITIVE_INFINITY, replay: Number.POSITIVE_INFINITY };
  for (let pass = 0; pass < passes; pass++) {
    const onePass = cpuMs(() => {
      const all = new StackCurve({ order: "reverse", blockTokens: config.blockTokens, rules, sizes });
      all.add(trace, blocks);
      return all.counters()[0].hitBlocks;
    });
    const replay = cpuMs(() => replayTrace(trace, config, blocks).cache.counters.hitBlocks);
    fastest.onePass = Math.min(fastest.onePass, onePass);
    fastest.replay = Math.min(fastest.replay, replay);
  }
  return [
    { name: "one pass, six sizes", value: fastest.onePass, unit: "ms" },
    { name: "replay, 10,000 blocks", value: fastest.replay, unit: "ms" },
    { name: "ratio", value: fastest.onePass / fastest.replay, unit: "×" },
  ];
}

/** Bytes of heap that a replay allocates, counted by V8's allocation sampler, garbage included. */
async function allocation(): Promise<Measurement[]> {
  const trace = await benchTrace();
  const config = configOf("hash-table", "lru", 10_000, trace);
  const columns = new BlockKeys({ unitTokens: trace.unitTokens, blockTokens: trace.unitTokens }).of(trace);
  const replayAgain = () => {
    sink += replayTrace(trace, config, columns).cache.counters.hitBlocks;
  };
  for (let pass = 0; pass < passes; pass++) replayAgain();
  const session = new Session();
  session.connect();
  await session.post("HeapProfiler.startSampling", {
    samplingInterval: 256,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  });
  for (let pass = 0; pass < 10; pass++) replayAgain();
  const { profile } = await session.post("HeapProfiler.stopSampling");
  const bytesOf = (node: HeapProfiler.SamplingHeapProfileNode): number =>
    node.children.reduce((bytes, child) => bytes + bytesOf(child), node.selfSize);
  const perPass = bytesOf(profile.head) / 10;
  return [
    { name: "per block reference", value: perPass / trace.keys.length, unit: "B" },
    { name: "per request", value: perPass / trace.requestCount, unit: "B" },
  ];
}

/** Bytes of all typed arrays that are in use. */
async function arrayBytes(): Promise<number> {
  for (let pass = 0; pass < 3; pass++) {
    (globalThis as { gc?: () => void }).gc?.();
    await setImmediate();
  }
  return process.memoryUsage().arrayBuffers;
}

/** Array bytes per cached block, and per distinct content that was ever cached. */
async function memory(index: string): Promise<Measurement[]> {
  const blocks = 1_000_000;
  const contents = 4_000_000;
  const trace = await benchTrace();
  const empty = await arrayBytes();
  const cache = createCache(configOf(index, "lru", blocks, trace));
  const made = await arrayBytes();
  cache.expectKeys(contents);
  const seen = await arrayBytes();
  sink += cache.freeBlocks;
  return [
    { name: `${index}, per cached block`, value: (made - empty) / blocks, unit: "B" },
    { name: `${index}, per content ever seen`, value: (seen - made) / contents, unit: "B" },
  ];
}

/** A trace of prompts given as content ids, one per block; `rows`: number of blocks of each prompt. */
function contentTrace(keys: Uint32Array, rows: readonly number[], distinctKeys: number): Trace {
  const n = rows.length;
  const one = new Uint32Array(n).fill(1);
  const keyStart = new Float64Array(n + 1);
  for (let r = 0; r < n; r++) keyStart[r + 1] = keyStart[r] + rows[r];
  const inputTokens = Uint32Array.from(rows, (blocks) => blocks * 16);
  const arrivalNs = new Float64Array(n);
  const common = { unitTokens: 16, requestCount: n, arrivalNs, inputTokens, outputTokens: one, maxOutputTokens: one };
  return { ...common, keys, keyStart, distinctKeys, optional: {} };
}

/** Prompts of 24 blocks; every second one shares 12 blocks with one of the 50 before it. */
function pairedPrompts(requests: number): Trace {
  const keys = new Uint32Array(24 * requests);
  let fresh = 0;
  for (let r = 0; r < requests; r++) {
    const shared = r % 2 === 1 ? r - 1 - 2 * ((r * 7) % 25) : -1;
    for (let i = 0; i < 24; i++) keys[24 * r + i] = shared >= 0 && i < 12 ? keys[24 * shared + i] : fresh++;
  }
  return contentTrace(keys, new Array(requests).fill(24), fresh);
}

/** Cost of a block reference in a full cache of `blocks` blocks. */
function scaling(index: string, blocks: number): Measurement[] {
  const filling = Math.ceil(blocks / 18) + 100;
  const measured = 40_000;
  const trace = pairedPrompts(filling + measured);
  const config = configOf(index, "lru", blocks, trace);
  const ns: number[] = [];
  const yardstick: number[] = [];
  for (let pass = 0; pass < 5; pass++) {
    const full = new CacheReplay(config);
    full.feed(trace, undefined, 0, filling);
    ns.push((timed(() => full.feed(trace, undefined, filling, trace.requestCount)) * 1e6) / (24 * measured));
    sink += full.result().cache.counters.hitBlocks;
    const all = timed(() => (sink += hardCodedLru(trace, blocks)));
    yardstick.push((all * 1e6) / (24 * trace.requestCount));
  }
  return [
    { name: "cost", value: median(ns), unit: "ns/block" },
    { name: "yardstick", value: median(yardstick), unit: "ns/block" },
  ];
}

/** A prompt of 100,000 blocks and others that diverge from it at every 1,000th; and 100,000 prompts that diverge after one block. */
function shapes(index: string): Measurement[] {
  const n = 100_000;
  const cuts = Array.from({ length: 100 }, (_, k) => (k + 1) * 1000 - 1);
  const deep: number[] = Array.from({ length: n }, (_, i) => i);
  cuts.forEach((cut, k) => {
    for (let i = 0; i < cut; i++) deep.push(i);
    deep.push(n + k);
  });
  const deepTrace = contentTrace(Uint32Array.from(deep), [n, ...cuts.map((cut) => cut + 1)], n + cuts.length);
  const wideKeys = Uint32Array.from({ length: 4 * n }, (_, i) => (i % 2 === 0 ? 0 : 1 + ((i >> 1) % n)));
  const wideTrace = contentTrace(wideKeys, new Array(2 * n).fill(2), n + 1);
  return [deepTrace, wideTrace].map((trace, which) => {
    const ns: number[] = [];
    for (let pass = 0; pass < 5; pass++) {
      const config = configOf(index, "lru", n + 1, trace);
      const ms = timed(() => (sink += replayTrace(trace, config).cache.counters.hitBlocks));
      ns.push((ms * 1e6) / trace.keys.length);
    }
    return { name: which === 0 ? "deep" : "wide", value: median(ns), unit: "ns/block" };
  });
}

function hashing(): Measurement[] {
  const blocks = 200_000;
  const tokens = Uint32Array.from({ length: blocks * 16 }, (_, i) => (i * 2654435761) >>> 15);
  const lanes = new Int32Array(4);
  const ns: number[] = [];
  for (let pass = 0; pass < passes; pass++) {
    const ms = timed(() => {
      for (let block = 0; block < blocks; block++) fourLanes(lanes, tokens, block * 16, 16);
    });
    ns.push((ms * 1e6) / blocks);
    sink += lanes[0];
  }
  const whole: number[] = [];
  const trace: Trace = tokenTrace(tokens);
  for (let pass = 0; pass < 7; pass++) {
    const ms = timed(() => (sink += new BlockKeys({ unitTokens: 1, blockTokens: 16 }).of(trace).distinct));
    whole.push((ms * 1e6) / blocks);
  }
  return [
    { name: "chain hash, 16-token block", value: median(ns), unit: "ns" },
    { name: "with lookup and comparison, all contents new", value: median(whole), unit: "ns" },
  ];
}

/** A trace of one request whose prompt is these tokens. */
function tokenTrace(tokens: Uint32Array): Trace {
  const one = Uint32Array.of(1);
  return {
    unitTokens: 1,
    requestCount: 1,
    arrivalNs: Float64Array.of(0),
    inputTokens: Uint32Array.of(tokens.length),
    outputTokens: one,
    maxOutputTokens: one,
    keys: tokens,
    keyStart: Float64Array.of(0, tokens.length),
    distinctKeys: 1 << 17,
    optional: {},
  };
}

const azureTrace = join(folder, "azure/AzureLLMInferenceTrace_conv.csv.gz");

/** Speed of reading plain files of about 90 MB, to the end in batches: recorded traces many times in sequence. */
async function reading(): Promise<Measurement[]> {
  const figures: Measurement[] = [];
  if (existsSync(recorded)) figures.push(...(await readingSpeeds("Mooncake JSONL", 30, mooncakeCopies())));
  if (existsSync(azureTrace)) figures.push(...(await readingSpeeds("Azure CSV", 121, azureCopies())));
  return figures;
}

/** Copy k of the recorded hour arrives k hours later and has content of its own, as in a longer trace. */
function mooncakeCopies(): (copy: number) => string {
  const lines = gunzipSync(readFileSync(recorded)).toString("latin1").trimEnd().split("\n");
  const requests = lines.map((line) => JSON.parse(line));
  const ids = requests.reduce((most, { hash_ids }) => Math.max(most, ...hash_ids), 0) + 1;
  return (copy) =>
    requests
      .map(({ timestamp, input_length, output_length, hash_ids }) => {
        const content = hash_ids.map((id: number) => id + copy * ids).join(", ");
        const lengths = `"input_length": ${input_length}, "output_length": ${output_length}`;
        return `{"timestamp": ${timestamp + copy * 3_600_000}, ${lengths}, "hash_ids": [${content}]}\n`;
      })
      .join("");
}

function azureCopies(): (copy: number) => string {
  const text = gunzipSync(readFileSync(azureTrace)).toString("latin1").trimEnd();
  const rows = text.slice(text.indexOf("\n"));
  return (copy) => {
    const later = (_: string, date: string, hour: string) =>
      new Date(Date.parse(`${date}T${hour}:00:00Z`) + copy * 3_600_000).toISOString().slice(0, 13).replace("T", " ");
    const header = copy === 0 ? text.slice(0, text.indexOf("\n")) : "";
    return header + rows.replace(/^(\d+-\d+-\d+) (\d+)/gm, later);
  };
}

/**
 * The first pass includes the compilation of the reader. The others are the rate at which a long trace is read. Processor time
 * depends less on what else the machine does.
 */
async function readingSpeeds(name: string, copies: number, copyOf: (copy: number) => string): Promise<Measurement[]> {
  const place = mkdtempSync(join(tmpdir(), "kvlab-bench-"));
  try {
    const path = join(place, "trace");
    for (let copy = 0; copy < copies; copy++) appendFileSync(path, copyOf(copy));
    const { size } = statSync(path);
    const speeds: number[] = [];
    const ofProcessor: number[] = [];
    for (let pass = 0; pass < 6; pass++) {
      const source = await openTrace([path]);
      const [from, used] = [performance.now(), process.cpuUsage()];
      for await (const batch of source.batches()) sink += batch.requestCount;
      const { user, system } = process.cpuUsage(used);
      speeds.push(size / 1000 / (performance.now() - from));
      ofProcessor.push(size / (user + system));
    }
    const [first, ...later] = speeds;
    return [
      { name: `${name}, first pass`, value: first, unit: "MB/s" },
      { name: `${name}, later (median of 5)`, value: median(later), unit: "MB/s" },
      { name: "  per second of processor time", value: median(ofProcessor.slice(1)), unit: "MB/s" },
    ];
  } finally {
    rmSync(place, { recursive: true });
  }
}

const benchmarks: Record<string, (...args: string[]) => Measurement[] | Promise<Measurement[]>> = {
  curve,
  replay: (index, eviction, blocks) => replay(index, eviction, Number(blocks)),
  scaling: (index, blocks) => scaling(index, Number(blocks)),
  shapes: (index) => shapes(index),
  allocation,
  memory: (index) => memory(index),
  hashing,
  reading,
};

// bench/main.ts runs this in a separate process: `measure.ts replay hash-table lru 10000`.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [name, ...args] = process.argv.slice(2);
  console.log(JSON.stringify(await benchmarks[name](...args)));
}
