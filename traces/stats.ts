import type { BlockColumns } from "../core/trace/content.ts";
import type { Trace } from "../core/trace/trace.ts";
import { reuseDistances } from "./reuse-distance.ts";

/** Percentiles are by nearest rank: the smallest value that at least that share of all values do not exceed. */
export interface Spread {
  readonly mean: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

/** A prefix with which several requests begin. */
export interface SharedPrefix {
  /** Content id of the prefix's last block. */
  readonly key: number;
  /** Requests that begin with it. */
  readonly requests: number;
  readonly tokens: number;
}

/** Statistics of shared blocks. */
export interface ContentStats {
  readonly blockTokens: number;
  readonly distinctBlocks: number;
  readonly blockReferences: number;
  /** Share of references to blocks seen before: the block hit ratio of an unlimited cache. */
  readonly repeatedShare: number;
  /** Different blocks between two uses of a block, over all repeated references. */
  readonly reuseDistanceBlocks: Spread | undefined;
  /**
   * The most frequent prefixes, each extended as far as all its requests agree; at most ten, each with at least two requests.
   */
  readonly sharedPrefixes: readonly SharedPrefix[];
}

/** Statistics of a trace. */
export interface TraceStats {
  readonly requests: number;
  readonly unitTokens: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly inputLength: Spread;
  readonly outputLength: Spread;
  /** From the first arrival to the last. */
  readonly durationS: number;
  /** Requests ÷ duration; undefined if all arrive at once. */
  readonly requestsPerSMean: number | undefined;
  /** Most arrivals in any window [t, t + 1 s). */
  readonly requestsPerSPeak: number;
  /** Undefined if the trace has no sessions. */
  readonly sessions: { readonly count: number; readonly turns: Spread } | undefined;
  /** Undefined for a trace of lengths, and for one of token ids without `blocks`. */
  readonly content: ContentStats | undefined;
}

const prefixesShown = 10;

/**
 * Describes a whole trace. `blocks` are the content ids of its blocks; they may be left out if the keys are content ids
 * and there are no namespaces, as then they are the keys.
 */
export function traceStats(trace: Trace, blocks: BlockColumns | undefined = ownBlocks(trace)): TraceStats {
  const n = trace.requestCount;
  const inputLength = spreadOf(trace.inputTokens);
  const outputLength = spreadOf(trace.outputTokens);
  const durationS = (trace.arrivalNs[n - 1] - trace.arrivalNs[0]) / 1e9;
  return {
    requests: n,
    unitTokens: trace.unitTokens,
    inputTokens: sum(trace.inputTokens),
    outputTokens: sum(trace.outputTokens),
    inputLength,
    outputLength,
    durationS,
    requestsPerSMean: durationS > 0 ? n / durationS : undefined,
    requestsPerSPeak: mostArrivalsInASecond(trace.arrivalNs),
    sessions: sessionStats(trace.optional.session),
    content: blocks && contentStats(trace, blocks),
  };
}

/** A trace's keys as blocks, if they are content ids and there are no namespaces. */
function ownBlocks(trace: Trace): BlockColumns | undefined {
  if (trace.lengthsOnly || trace.unitTokens === 1 || trace.optional.namespace) return undefined;
  const promptBlocks = new Uint32Array(trace.requestCount);
  for (let r = 0; r < trace.requestCount; r++) promptBlocks[r] = trace.keyStart[r + 1] - trace.keyStart[r];
  const { unitTokens: blockTokens, keys, keyStart: start, distinctKeys: distinct } = trace;
  return { blockTokens, keys, start, promptBlocks, distinct };
}

function contentStats(trace: Trace, blocks: BlockColumns): ContentStats {
  const references = promptReferences(blocks);
  const distances = reuseDistances(references, blocks.distinct);
  let distinctBlocks = 0;
  let repeated = 0;
  for (const count of distances.counts) repeated += count;
  distinctBlocks = references.length - repeated;
  return {
    blockTokens: blocks.blockTokens,
    distinctBlocks,
    blockReferences: references.length,
    repeatedShare: references.length === 0 ? 0 : repeated / references.length,
    reuseDistanceBlocks: repeated === 0 ? undefined : spreadOfCounts(distances.counts, repeated),
    sharedPrefixes: sharedPrefixes(trace, blocks),
  };
}

/** All prompt blocks in order, without blocks of output tokens. */
function promptReferences({ keys, start, promptBlocks }: BlockColumns): Uint32Array {
  const references = new Uint32Array(sum(promptBlocks));
  let at = 0;
  for (let r = 0; r < promptBlocks.length; r++) {
    references.set(keys.subarray(start[r], start[r] + promptBlocks[r]), at);
    at += promptBlocks[r];
  }
  return references;
}

/** A prefix that is always followed by the same block is left out in favour of the longer one. */
function sharedPrefixes(trace: Trace, blocks: BlockColumns): SharedPrefix[] {
  const { keys, start, promptBlocks, blockTokens, distinct } = blocks;
  const requests = new Uint32Array(distinct);
  const tokens = new Float64Array(distinct);
  for (let r = 0; r < promptBlocks.length; r++) {
    for (let i = 0; i < promptBlocks[r]; i++) {
      const key = keys[start[r] + i];
      requests[key]++;
      tokens[key] = Math.min((i + 1) * blockTokens, trace.inputTokens[r]);
    }
  }
  const isContinued = new Uint8Array(distinct);
  for (let r = 0; r < promptBlocks.length; r++) {
    for (let at = start[r] + 1; at < start[r] + promptBlocks[r]; at++)
      if (requests[keys[at]] === requests[keys[at - 1]]) isContinued[keys[at - 1]] = 1;
  }
  const top: SharedPrefix[] = [];
  for (let key = 0; key < distinct; key++) {
    if (isContinued[key] === 1 || requests[key] < 2) continue;
    if (top.length === prefixesShown && requests[key] <= top[prefixesShown - 1].requests) continue;
    const at = top.findIndex((shown) => shown.requests < requests[key]);
    top.splice(at < 0 ? top.length : at, 0, { key, requests: requests[key], tokens: tokens[key] });
    top.length = Math.min(top.length, prefixesShown);
  }
  return top;
}

function sessionStats(session: Uint32Array | undefined): TraceStats["sessions"] {
  if (!session) return undefined;
  const turns = new Map<number, number>();
  for (const id of session) if (id !== 0) turns.set(id, (turns.get(id) ?? 0) + 1);
  if (turns.size === 0) return undefined;
  return { count: turns.size, turns: spreadOf(Uint32Array.from(turns.values())) };
}

function mostArrivalsInASecond(arrivalNs: Float64Array): number {
  let most = 0;
  let first = 0;
  for (let r = 0; r < arrivalNs.length; r++) {
    while (arrivalNs[r] - arrivalNs[first] >= 1e9) first++;
    most = Math.max(most, r - first + 1);
  }
  return most;
}

function sum(values: Uint32Array): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

function spreadOf(values: Uint32Array): Spread {
  const sorted = values.slice().sort();
  const rank = (share: number) => sorted[Math.ceil(share * sorted.length) - 1];
  const mean = sum(values) / values.length;
  return { mean, p50: rank(0.5), p90: rank(0.9), p99: rank(0.99), max: sorted[sorted.length - 1] };
}

/** Percentiles of `total` values, of which `counts[v]` are v. */
function spreadOfCounts(counts: Float64Array, total: number): Spread {
  let weighted = 0;
  let max = 0;
  for (let value = 0; value < counts.length; value++) {
    weighted += value * counts[value];
    if (counts[value] > 0) max = value;
  }
  const rank = (share: number) => {
    let seen = 0;
    let value = -1;
    while (seen < Math.ceil(share * total)) seen += counts[++value];
    return value;
  };
  return { mean: weighted / total, p50: rank(0.5), p90: rank(0.9), p99: rank(0.99), max };
}
