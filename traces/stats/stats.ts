import { grown } from "../../core/grown.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Nanos, Trace } from "../../core/trace/trace.ts";
import { ContentStatistics, type ContentStats } from "./content-statistics.ts";
import { Timeline } from "./timeline.ts";
import { type Spread, ValueCounts } from "./value-counts.ts";

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

/** Statistics of a trace, batch by batch. Memory depends on the number of distinct blocks and of sessions. */
export class TraceStatistics {
  readonly inputLengths = new ValueCounts();
  readonly outputLengths = new ValueCounts();
  readonly timeline = new Timeline();
  /** Undefined without blocks. */
  content: ContentStatistics | undefined;
  readonly #arrivals = new Arrivals();
  readonly #turns = new Turns();
  #unitTokens = 0;

  /** `blocks` are the content ids of the batch's blocks. */
  add(batch: Trace, blocks: BlockColumns | undefined): void {
    const { requestCount, arrivalNs, inputTokens, outputTokens, unitTokens, optional } = batch;
    this.#unitTokens = unitTokens;
    if (blocks) this.content ??= new ContentStatistics(blocks.blockTokens, this.timeline);
    for (let r = 0; r < requestCount; r++) {
      this.inputLengths.add(inputTokens[r]);
      this.outputLengths.add(outputTokens[r]);
      this.#arrivals.add(arrivalNs[r]);
      this.timeline.addRequest(arrivalNs[r], inputTokens[r]);
      if (optional.session) this.#turns.add(optional.session[r]);
      if (blocks) this.content!.add(blocks, r, inputTokens[r]);
    }
  }

  /** The statistics of at least one request. */
  stats(): TraceStats {
    const requests = this.inputLengths.total;
    const { durationS, peak } = this.#arrivals;
    return {
      requests,
      unitTokens: this.#unitTokens,
      inputTokens: this.inputLengths.sum,
      outputTokens: this.outputLengths.sum,
      inputLength: this.inputLengths.spread()!,
      outputLength: this.outputLengths.spread()!,
      durationS,
      requestsPerSMean: durationS > 0 ? requests / durationS : undefined,
      requestsPerSPeak: peak,
      sessions: this.#turns.stats(),
      content: this.content?.stats(),
    };
  }
}

/**
 * Describes a whole trace. `blocks` are the content ids of its blocks; they may be left out if the keys are content ids
 * and there are no namespaces, as then they are the keys.
 */
export function traceStats(trace: Trace, blocks: BlockColumns | undefined = ownBlocks(trace)): TraceStats {
  const statistics = new TraceStatistics();
  statistics.add(trace, blocks);
  return statistics.stats();
}

/** A trace's keys as blocks, if they are content ids and there are no namespaces. */
function ownBlocks(trace: Trace): BlockColumns | undefined {
  if (trace.lengthsOnly || trace.unitTokens === 1 || trace.optional.namespace) return undefined;
  const promptBlocks = new Uint32Array(trace.requestCount);
  for (let r = 0; r < trace.requestCount; r++) promptBlocks[r] = trace.keyStart[r + 1] - trace.keyStart[r];
  const { unitTokens: blockTokens, keys, keyStart: start, distinctKeys: distinct } = trace;
  return { blockTokens, keys, start, promptBlocks, distinct };
}

/** Duration, and the most arrivals in any window [t, t + 1 s). Memory depends on this number. */
class Arrivals {
  peak = 0;
  #firstNs: Nanos | undefined;
  #lastNs: Nanos = 0;
  /** Arrivals of the last second, as a ring. */
  #recent: Float64Array = new Float64Array(64);
  #start = 0;
  #count = 0;

  add(atNs: Nanos): void {
    this.#firstNs ??= atNs;
    this.#lastNs = atNs;
    while (this.#count > 0 && atNs - this.#recent[this.#start] >= 1e9) {
      this.#start = (this.#start + 1) % this.#recent.length;
      this.#count--;
    }
    if (this.#count === this.#recent.length) this.#grow();
    this.#recent[(this.#start + this.#count++) % this.#recent.length] = atNs;
    this.peak = Math.max(this.peak, this.#count);
  }

  get durationS(): number {
    return (this.#lastNs - (this.#firstNs ?? 0)) / 1e9;
  }

  #grow(): void {
    const larger = new Float64Array(2 * this.#recent.length);
    for (let i = 0; i < this.#count; i++) larger[i] = this.#recent[(this.#start + i) % this.#recent.length];
    this.#recent = larger;
    this.#start = 0;
  }
}

/** Requests of each session. */
class Turns {
  #turns: Uint32Array = new Uint32Array(1024);

  add(session: number): void {
    if (session >= this.#turns.length) this.#turns = grown(this.#turns, Math.max(session + 1, 2 * this.#turns.length));
    this.#turns[session]++;
  }

  stats(): TraceStats["sessions"] {
    const counts = new ValueCounts();
    for (let session = 1; session < this.#turns.length; session++)
      if (this.#turns[session] > 0) counts.add(this.#turns[session]);
    const turns = counts.spread();
    return turns && { count: counts.total, turns };
  }
}
