import { grown } from "../../core/grown.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import type { BlockBatch, BlockBatches } from "../run/block-stream.ts";

/** Columns of a trace that its event log does not have, by request. */
export class RequestFacts {
  count = 0;
  inputTokens = new Uint32Array(1024);
  promptBlocks = new Uint32Array(1024);
  /** Arrival in the trace. */
  arrivalNs = new Float64Array(1024);

  add({ trace, blocks }: BlockBatch): void {
    const to = this.count + trace.requestCount;
    if (to > this.arrivalNs.length) {
      const length = Math.max(to, 2 * this.count);
      this.inputTokens = grown(this.inputTokens, length);
      this.promptBlocks = grown(this.promptBlocks, length);
      this.arrivalNs = grown(this.arrivalNs, length);
    }
    this.inputTokens.set(trace.inputTokens.subarray(0, trace.requestCount), this.count);
    this.promptBlocks.set(blocks.promptBlocks, this.count);
    this.arrivalNs.set(trace.arrivalNs.subarray(0, trace.requestCount), this.count);
    this.count = to;
  }

  /** Time between the arrivals of two requests; outside the trace, those of its first and last request. */
  between(from: number, to: number): Nanos {
    const within = (request: number) => this.arrivalNs[Math.max(0, Math.min(this.count - 1, request))];
    return within(to) - within(from);
  }

  /** The batches of a run, of which the first pass is added here; `onEnd` is called with the number of requests at its end. */
  reading(batches: BlockBatches, onEnd: (requestCount: number) => void): BlockBatches {
    let isFirst = true;
    const add = (batch: BlockBatch) => this.add(batch);
    const end = () => onEnd(this.count);
    return {
      async *batches(keeps) {
        const adds = isFirst;
        isFirst = false;
        for await (const batch of batches.batches(keeps)) {
          if (adds) add(batch);
          yield batch;
        }
        if (adds) end();
      },
    };
  }
}
