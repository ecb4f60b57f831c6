import type { BlockColumns } from "../core/content.ts";
import { PolicyError } from "../core/errors.ts";
import { CacheReplay, type ReplayConfig, type ReplayResult } from "../core/replay.ts";
import type { Trace } from "../core/trace.ts";
import type { RunConfig } from "./configuration.ts";
import { breathe } from "./interrupt.ts";
import { isFailure, isOwnIndex } from "./own-index.ts";
import { isOwnPolicy } from "./own-policy.ts";

/** A finished replay. */
export interface Run {
  readonly config: RunConfig;
  readonly result: ReplayResult;
  /** The replay alone; of several the median. */
  readonly wallMs: number;
}

export interface RunOptions {
  /** Measured replays after one to warm up; undefined: a single one. */
  readonly repeat?: number | undefined;
  /** Told of each slice of requests that is done, warm-up included. */
  readonly advance?: (requests: number) => void;
}

/** Requests that `runReplay` serves in all. */
export const servedRequests = (trace: Trace, repeat?: number) =>
  trace.requestCount * (repeat === undefined ? 1 : repeat + 1);

/** Replays a trace, each time from an empty cache. @throws Interrupted, and PolicyError naming a user's file. */
export async function runReplay(
  trace: Trace,
  blocks: BlockColumns,
  config: RunConfig,
  options: RunOptions = {},
): Promise<Run> {
  const { repeat, advance = () => {} } = options;
  const slices = new Slices(trace, blocks);
  if (repeat !== undefined) await replayOnce(slices, config, advance);
  const times: number[] = [];
  let last: ReplayResult | undefined;
  for (let i = 0; i < (repeat ?? 1); i++) {
    const { result, wallMs } = await replayOnce(slices, config, advance);
    times.push(wallMs);
    last = result;
  }
  return { config, result: last!, wallMs: median(times) };
}

async function replayOnce(slices: Slices, config: ReplayConfig, advance: (requests: number) => void) {
  const replay = new CacheReplay(config);
  const { trace, blocks } = slices;
  let wallMs = 0;
  try {
    for (const [from, to] of slices.all()) {
      const start = performance.now();
      replay.feed(trace, blocks, from, to);
      const took = performance.now() - start;
      wallMs += took;
      slices.adapt(took);
      advance(to - from);
      await breathe();
    }
  } catch (error) {
    throw withFile(error, config);
  }
  return { result: replay.result(), wallMs };
}

/** The same error, but a mistake of a user's policy or index says its file and request. */
export function withFile(error: unknown, { index, eviction }: Pick<ReplayConfig, "index" | "eviction">): unknown {
  if (!(error instanceof PolicyError)) return isOwnIndex(index) && isFailure(error) ? index.blamedFor(error) : error;
  const files = [index, eviction].flatMap((part) => ("file" in part ? `${part.file}: ` : []));
  if (files.some((file) => error.message.startsWith(file))) return error;
  if (!isOwnPolicy(eviction)) return isOwnIndex(index) ? index.blamedFor(error) : error;
  const request = eviction.currentRequest();
  const when = request === undefined ? "" : `at request ${request}: `;
  return new PolicyError(`${eviction.file}: ${when}${error.message}`);
}

/** How long signals may wait. */
export const sliceMs = 40;

/** A trace in ranges of rows: large enough to be fast, small enough to be interrupted between them. */
class Slices {
  readonly trace: Trace;
  readonly blocks: BlockColumns;
  #rows = 512;

  constructor(trace: Trace, blocks: BlockColumns) {
    this.trace = trace;
    this.blocks = blocks;
  }

  /** The last slice took so long: the next ones are of a fitting size. */
  adapt(ms: number): void {
    const fitting = (this.#rows * sliceMs) / Math.max(ms, 0.1);
    this.#rows = Math.ceil(Math.min(Math.max(fitting, this.#rows / 4), this.#rows * 4));
  }

  *all(): Generator<[from: number, to: number]> {
    const { requestCount } = this.trace;
    for (let from = 0; from < requestCount; ) {
      const to = Math.min(from + this.#rows, requestCount);
      yield [from, to];
      from = to;
    }
  }
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Different contents among the blocks of all prompts. */
export function distinctPromptBlocks({ keys, start, promptBlocks, distinct }: BlockColumns): number {
  const seen = new Uint8Array(distinct);
  let count = 0;
  for (let r = 0; r < promptBlocks.length; r++) {
    for (let at = start[r]; at < start[r] + promptBlocks[r]; at++) {
      if (seen[keys[at]] === 1) continue;
      seen[keys[at]] = 1;
      count++;
    }
  }
  return count;
}

/** Block references of all prompts, those of the warm-up included. */
export function blockReferences({ promptBlocks }: BlockColumns): number {
  let count = 0;
  for (const blocks of promptBlocks) count += blocks;
  return count;
}
