import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import type { Request } from "../../core/cache/request.ts";
import { seededRandom } from "../../core/random.ts";
import { blockKeysFor, type CacheConfig } from "../../core/replica/compose.ts";
import { StepTable } from "../../core/serving/step-table.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import { type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import type { Clock } from "../../engine/clock.ts";
import { promptTokens } from "../../engine/content-tokens.ts";
import { openCpuExecutor } from "../../engine/cpu/executor.ts";
import { Engine } from "../../engine/engine.ts";
import type { EngineConfig } from "../../engine/engine-loop.ts";
import type { BatchResult, BatchStep, BlockData, Executor, PoolType } from "../../engine/executor.ts";
import { loadModel } from "../../engine/model/load.ts";
import type { Preset } from "../../policies/preset.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry, schedulerRegistry } from "../../policies/registry.ts";

/** The folder of model files; removed after the tests of the file. */
const folder = mkdtempSync(join(tmpdir(), "kvlab-engine-"));
const open: Executor[] = [];
afterAll(async () => {
  for (const executor of open) await executor.close();
  rmSync(folder, { recursive: true });
});

export interface Served {
  readonly executor: Executor;
  readonly vocabulary: number;
}

/** A model in an executor, which is closed after the tests of the file. */
export async function openModel(name: string, blockCount: number, blockTokens: number): Promise<Served> {
  const model = loadModel(name);
  const executor = await openCpuExecutor({ model, blockCount, blockTokens, threads: 1, folder });
  open.push(executor);
  return { executor, vocabulary: model.config.vocabulary };
}

/** Forwards every call; tests override methods to record or to break them. */
export class ForwardingExecutor implements Executor {
  readonly backend: string;
  readonly blockCount: number;
  readonly blockTokens: number;
  readonly poolType: PoolType;
  protected readonly to: Executor;

  constructor(to: Executor) {
    this.to = to;
    this.backend = to.backend;
    this.poolType = to.poolType;
    this.blockCount = to.blockCount;
    this.blockTokens = to.blockTokens;
  }
  executeStep(step: BatchStep): Promise<BatchResult> {
    return this.to.executeStep(step);
  }
  copyBlocks(pairs: Parameters<Executor["copyBlocks"]>[0]): Promise<void> {
    return this.to.copyBlocks(pairs);
  }
  readBlocks(blocks: readonly number[]): Promise<BlockData[]> {
    return this.to.readBlocks(blocks);
  }
  writeBlocks(blocks: readonly number[], data: readonly BlockData[]): Promise<void> {
    return this.to.writeBlocks(blocks, data);
  }
  async close(): Promise<void> {}
}

/** Counts calls, and keeps the logits of the last step. */
class Recording extends ForwardingExecutor {
  steps = 0;
  copies = 0;
  writes = 0;
  rows: Float32Array[] = [];

  override async executeStep(step: BatchStep): Promise<BatchResult> {
    this.steps++;
    const result = await super.executeStep(step);
    const width = result.logits.length / step.logitsIndices.length;
    this.rows = Array.from(step.logitsIndices, (_, i) => result.logits.slice(i * width, (i + 1) * width));
    return result;
  }
  override copyBlocks(pairs: Parameters<Executor["copyBlocks"]>[0]): Promise<void> {
    this.copies += pairs.length;
    return super.copyBlocks(pairs);
  }
  override writeBlocks(blocks: readonly number[], data: readonly BlockData[]): Promise<void> {
    this.writes += blocks.length;
    return super.writeBlocks(blocks, data);
  }
}

/** Step durations are random with a seed; waiting takes no time. */
export class RandomClock implements Clock {
  readonly #random: ReturnType<typeof seededRandom>;
  #nowNs = 0;

  constructor(seed = 1) {
    this.#random = seededRandom(seed);
  }
  now(): number {
    this.#nowNs += 1 + this.#random.below(1_000_000);
    return this.#nowNs;
  }
  async waitUntil(timeNs: number): Promise<void> {
    this.#nowNs = Math.max(this.#nowNs, timeNs);
  }
}

export interface ConversationOptions {
  readonly seed?: number;
  readonly requests?: number;
  /** Whether the trace has output tokens; if not, the model chooses them. */
  readonly outputs?: boolean;
  readonly vocabulary?: number;
}

/**
 * Conversations with common prefixes, whose later turns contain the earlier ones; some prompts are repeated, some end within a
 * block. Many arrive at one time.
 */
export function conversationTrace({
  seed = 1,
  requests = 24,
  outputs = false,
  vocabulary = 512,
}: ConversationOptions = {}): Trace {
  const random = seededRandom(seed);
  const own = (count: number) => Array.from({ length: count }, () => random.below(vocabulary));
  const builder = new TraceBuilder(1);
  const system = [own(13), own(8)];
  const prompts: number[][] = [];
  const histories: number[][] = [];
  let arrivalNs = 0;
  for (let i = 0; i < requests; i++) {
    const kind = i < 3 ? 0 : random.below(7);
    const before = histories[random.below(Math.max(1, histories.length))];
    const session = 1 + random.below(5);
    let prompt: number[];
    if (kind < 3) prompt = [...system[random.below(2)], ...own(random.below(9))];
    else if (kind === 3) prompt = [...before, ...own(1 + random.below(4))].slice(0, 42);
    else if (kind === 4) prompt = before.slice(0, 1 + random.below(before.length));
    else if (kind === 5) prompt = prompts[random.below(prompts.length)];
    else prompt = prompts[prompts.length - 1];
    const output = own(1 + random.below(9));
    prompts.push(prompt);
    histories.push([...prompt, ...output]);
    builder.add({
      arrivalNs,
      inputTokens: prompt.length,
      outputTokens: output.length,
      maxOutputTokens: output.length + random.below(3),
      keys: prompt,
      session,
      priority: random.below(3),
      markedTokens: Math.min(8, prompt.length),
      ...(outputs && { generatedKeys: output }),
    });
    if (random.below(3) === 0) arrivalNs += random.below(4_000_000);
  }
  return builder.take();
}

/** The output tokens of every request, and the logits that each token was chosen from. */
export interface Outputs {
  readonly tokens: readonly (readonly number[])[];
  readonly logits: readonly (readonly Float32Array[])[];
}

/** The outputs of requests that run alone, each prompt in one step, in the first blocks: no cache, scheduler or engine. */
export async function isolatedOutputs({ executor, vocabulary }: Served, trace: Trace): Promise<Outputs> {
  const tokens: number[][] = [];
  const logits: Float32Array[][] = [];
  const { generatedKeys, generatedStart } = trace.optional;
  for (let row = 0; row < trace.requestCount; row++) {
    const known = [...promptTokens(trace, row, vocabulary)];
    const output: number[] = [];
    const logitsOf: Float32Array[] = [];
    for (let from = 0; output.length < trace.outputTokens[row]; ) {
      const result = await executor.executeStep(aloneStep(known, from, executor.blockTokens));
      from = known.length;
      logitsOf.push(result.logits.slice());
      const best = result.logits.indexOf(Math.max(...result.logits));
      const token = generatedKeys ? generatedKeys[generatedStart![row] + output.length] : best;
      output.push(token);
      known.push(token);
    }
    tokens.push(output);
    logits.push(logitsOf);
  }
  return { tokens, logits };
}

function aloneStep(known: readonly number[], from: number, blockTokens: number): BatchStep {
  const count = known.length - from;
  const blocks = Math.ceil(known.length / blockTokens);
  const places = Int32Array.from({ length: count }, (_, i) => from + i);
  return {
    inputIds: Int32Array.from(known.slice(from)),
    positions: places,
    slotMapping: places,
    cuSeqlensQ: Int32Array.of(0, count),
    contextLens: Int32Array.of(known.length),
    blockTables: Int32Array.from({ length: blocks }, (_, i) => i),
    maxBlocksPerSequence: blocks,
    logitsIndices: Int32Array.of(count - 1),
  };
}

export interface OwnEngine extends Partial<Omit<EngineConfig, "scheduler" | "index" | "executor">> {
  readonly preset?: Preset;
  readonly index?: string;
  readonly scheduler?: string;
  readonly executor?: (to: Executor) => Executor;
  /** Called before the run. */
  readonly started?: (engine: Engine) => void;
}

/** The configuration of engine and simulation. */
export function policiesOf(own: OwnEngine, blockTokens: number) {
  const { preset, scheduler, schedulerOptions, seed = 1 } = own;
  const options = schedulerOptions ?? (scheduler === undefined ? preset?.schedulerOptions : undefined);
  return {
    index: own.index === undefined && preset ? preset.index : indexRegistry.get(own.index ?? "hash-table"),
    eviction: own.eviction ?? preset?.eviction ?? evictionRegistry.get("lru"),
    allocator: own.allocator ?? preset?.allocator ?? allocatorRegistry.get("block"),
    blockTokens,
    blocks: own.blocks,
    rules: { ...preset?.rules, ...own.rules },
    seed,
    scheduler: schedulerRegistry.get(scheduler ?? preset?.scheduler ?? "naive"),
    ...(options && { schedulerOptions: options }),
  };
}

export interface ServedRun {
  readonly engine: Engine;
  readonly trace: Trace;
  readonly columns: BlockColumns;
  readonly config: ReturnType<typeof policiesOf>;
  readonly steps: StepTable;
  readonly tokens: readonly (readonly number[])[];
  /** Requests whose last output token was reported as such. */
  readonly closed: readonly number[];
  /** The first difference from the expected outputs; undefined if there is none. */
  readonly difference: string | undefined;
  readonly copies: number;
  /** Blocks that were swapped in. */
  readonly swapped: number;
}

/** Serves a trace, and compares every token and its logits with the outputs of requests that run alone. */
export async function serve(model: Served, trace: Trace, own: OwnEngine, expected?: Outputs): Promise<ServedRun> {
  const { executor: wrap = (to: Executor) => to, started, ...rest } = own;
  const recording = new Recording(wrap(model.executor));
  const config = policiesOf(own, model.executor.blockTokens);
  const columns = blockKeysFor(config satisfies CacheConfig, trace.unitTokens).of(trace);
  const steps = new StepTable();
  const tokens: number[][] = Array.from({ length: trace.requestCount }, () => []);
  const closed: number[] = [];
  const written: { request: number; at: number }[] = [];
  let difference: string | undefined;
  const engine = new Engine(trace, columns, {
    clock: new RandomClock(),
    observers: [steps],
    audit: true,
    events: true,
    ...rest,
    ...config,
    executor: recording,
    vocabulary: model.vocabulary,
    onToken(request: Request, token: number, isLast: boolean, logits: Float32Array | undefined) {
      const { id } = request;
      written.push({ request: id, at: tokens[id].length });
      tokens[id].push(token);
      if (isLast) closed.push(id);
      rest.onToken?.(request, token, isLast, logits);
    },
  });
  started?.(engine);
  await engine.run(async () => {
    if (expected) difference ??= differenceOf(written, recording.rows, tokens, expected);
    written.length = 0;
    recording.rows = [];
  });
  return {
    engine,
    trace,
    columns,
    config,
    steps,
    tokens,
    closed,
    difference,
    copies: recording.copies,
    swapped: recording.writes,
  };
}

/** The first token may be chosen from stored logits, which are not in the rows of the step. */
function differenceOf(
  written: readonly { readonly request: number; readonly at: number }[],
  rows: readonly Float32Array[],
  tokens: readonly (readonly number[])[],
  expected: Outputs,
): string | undefined {
  let row = 0;
  let stored = written.length - rows.length;
  for (const { request, at } of written) {
    const where = `token ${at} of request ${request}`;
    if (tokens[request][at] !== expected.tokens[request][at])
      return `${where} is ${tokens[request][at]}, expected ${expected.tokens[request][at]}`;
    const logits = expected.logits[request][at];
    if (row < rows.length && isSame(rows[row], logits)) row++;
    else if (stored > 0 && at === 0) stored--;
    else return `the logits of ${where} differ`;
  }
  return row === rows.length ? undefined : `${rows.length - row} logits belong to no token`;
}

const isSame = (a: Float32Array, b: Float32Array) =>
  Buffer.from(a.buffer, a.byteOffset, a.byteLength).equals(Buffer.from(b.buffer, b.byteOffset, b.byteLength));

/** Fills the pool with KV that no prompt has: reading a block that was not written changes the logits. */
export async function spoil({ executor }: Served): Promise<void> {
  const [{ keys, values }] = await executor.readBlocks([0]);
  const random = seededRandom(7);
  const noise = (length: number) => Float32Array.from({ length }, () => 4 * random.unit() - 2);
  const data = { keys: noise(keys.length), values: noise(values.length) };
  for (let block = 0; block < executor.blockCount; block++) await executor.writeBlocks([block], [data]);
}
