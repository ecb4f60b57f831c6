import { grown } from "../../core/grown.ts";
import type { Random } from "../../core/random.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import { type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import { stream } from "./jobs.ts";

/** What is kept of a request: numbers only, no content. */
interface Sample {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Time since the request before. */
  readonly gapNs: number;
  /** Whole leading blocks that earlier requests had, as a share of all whole blocks. */
  readonly depth: number;
  /** Requests since the deepest of these blocks was used last. */
  readonly age: number;
}

const mostSamples = 1 << 17;
/** Neighbouring samples that one is drawn from, so that changes of the load over the trace are kept. */
const windowSamples = 256;

/** An empirical model of a trace: lengths, arrivals, and how deep and how long ago prefixes were seen before. */
export class TraceModel {
  readonly unitTokens: number;
  samples: Sample[] = [];
  requests = 0;
  #stride = 1;
  #lastNs = 0;
  #lastRow: Int32Array = new Int32Array(1024).fill(-1);

  constructor(unitTokens: number) {
    this.unitTokens = unitTokens;
  }

  /** Adds a batch; without blocks, as in a trace of lengths, nothing is shared. */
  add(batch: Trace, blocks: BlockColumns | undefined): void {
    if (blocks && blocks.distinct > this.#lastRow.length) {
      const known = this.#lastRow.length;
      this.#lastRow = grown(this.#lastRow, Math.max(blocks.distinct, 2 * known)).fill(-1, known);
    }
    for (let r = 0; r < batch.requestCount; r++) {
      const row = this.requests++;
      const inputTokens = batch.inputTokens[r];
      const whole = Math.floor(inputTokens / this.unitTokens);
      let [seen, age] = [0, 0];
      if (blocks) {
        const first = blocks.start[r];
        while (seen < Math.min(whole, blocks.promptBlocks[r]) && this.#lastRow[blocks.keys[first + seen]] >= 0) seen++;
        if (seen > 0) age = row - this.#lastRow[blocks.keys[first + seen - 1]];
        for (let i = 0; i < blocks.promptBlocks[r]; i++) this.#lastRow[blocks.keys[first + i]] = row;
      }
      const gapNs = row === 0 ? 0 : batch.arrivalNs[r] - this.#lastNs;
      this.#lastNs = batch.arrivalNs[r];
      if (row % this.#stride !== 0) continue;
      const depth = whole === 0 ? 0 : seen / whole;
      this.samples.push({ inputTokens, outputTokens: batch.outputTokens[r], gapNs, depth, age });
      if (this.samples.length < mostSamples) continue;
      this.samples = this.samples.filter((_, i) => i % 2 === 0);
      this.#stride *= 2;
    }
  }

  /** A sample from the neighbourhood of request `n`; after its end the trace begins again. */
  sampleAt(n: number, random: Random): Sample {
    const at = Math.floor((n % this.requests) / this.#stride);
    const from = Math.floor(at / windowSamples) * windowSamples;
    return this.samples[from + random.below(Math.min(windowSamples, this.samples.length - from))];
  }
}

/** Most block ids of earlier requests that are kept to be shared again. */
const mostKeptKeys = 1 << 25;
/** Requests on each side of the wanted age in which one with enough blocks is searched. */
const searched = 256;
const batchRequests = 8192;

/**
 * Requests drawn from a model. A request shares the prefix of an earlier one of about the sampled age that has enough
 * blocks, preferably one that used the deepest shared block last; the rest is new content. `sharing` is the model of which
 * depth and age are drawn, by default the same.
 */
export async function* likeBatches(
  model: TraceModel,
  { requests, seed, sharing = model }: { requests: number; seed: number; sharing?: TraceModel },
): AsyncGenerator<Trace> {
  const { unitTokens } = model;
  const builder = new TraceBuilder(unitTokens);
  const [random, gaps] = [stream(seed, 1), stream(seed, 2)];
  const earlier = new EarlierRequests();
  let [arrivalNs, distinct] = [0, 0];
  for (let row = 0; row < requests; row++) {
    const sample = model.sampleAt(row, random);
    if (row > 0) arrivalNs += model.sampleAt(row, gaps).gapNs;
    const { depth, age } = sharing === model ? sample : sharing.sampleAt(row, random);
    const whole = Math.floor(sample.inputTokens / unitTokens);
    const keys = new Uint32Array(Math.ceil(sample.inputTokens / unitTokens));
    const shared = earlier.prefix(row, age, Math.round(depth * whole));
    keys.set(shared);
    for (let i = shared.length; i < keys.length; i++) keys[i] = distinct++;
    earlier.add(row, keys.subarray(0, whole));
    builder.add({ arrivalNs, inputTokens: sample.inputTokens, outputTokens: sample.outputTokens, keys });
    if (builder.requestCount === batchRequests) yield builder.take();
  }
  if (builder.requestCount > 0) yield builder.take();
}

/** The whole blocks of earlier requests, the last ones that fit. */
class EarlierRequests {
  readonly #keys = new Map<number, Uint32Array>();
  #kept = 0;
  #oldest = 0;
  #lastRow: Int32Array = new Int32Array(1024);

  add(row: number, keys: Uint32Array): void {
    const most = keys.reduce((largest, key) => Math.max(largest, key), 0);
    if (most >= this.#lastRow.length)
      this.#lastRow = grown(this.#lastRow, Math.max(most + 1, 2 * this.#lastRow.length));
    for (const key of keys) this.#lastRow[key] = row;
    this.#keys.set(row, keys);
    this.#kept += keys.length;
    for (; this.#kept > mostKeptKeys; this.#oldest++) {
      this.#kept -= this.#keys.get(this.#oldest)!.length;
      this.#keys.delete(this.#oldest);
    }
  }

  /** `blocks` leading blocks of a request of about this age; fewer if none near it has as many. */
  prefix(row: number, age: number, blocks: number): Uint32Array {
    if (blocks === 0 || row === 0) return new Uint32Array(0);
    let best: Uint32Array | undefined;
    for (let distance = 0; distance <= searched; distance++) {
      for (const at of [row - age - distance, row - age + distance]) {
        const keys = at < row ? this.#keys.get(at) : undefined;
        if (!keys || keys.length === 0) continue;
        if (keys.length >= blocks && this.#lastRow[keys[blocks - 1]] === at) return keys.subarray(0, blocks);
        if (!best || Math.min(keys.length, blocks) > Math.min(best.length, blocks)) best = keys;
      }
    }
    return best?.subarray(0, blocks) ?? new Uint32Array(0);
  }
}
