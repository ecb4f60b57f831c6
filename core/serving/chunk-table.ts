import type { StepPlan } from "../replica/step.ts";
import type { Nanos } from "../trace/trace.ts";
import type { ObservedReplica, StepObserver } from "./observers.ts";

/** What every step of one replica was made of, as columns: a chunk is the part that one request has in a step. */
export class ChunkTable implements StepObserver {
  /** Of each step: when it was planned, and how many events had been logged by then. */
  readonly startNs: number[] = [];
  readonly loggedEvents: number[] = [];
  /** Of each chunk: tokens `[from, from + tokens)` of a request are computed, and so many are generated. */
  readonly step: number[] = [];
  readonly request: number[] = [];
  readonly from: number[] = [];
  readonly tokens: number[] = [];
  readonly generated: number[] = [];
  /** 1 if its tokens are a prompt's. */
  readonly prefill: number[] = [];
  /** A checksum of the blocks that hold all tokens up to the chunk's end, in their order. */
  readonly blocks: number[] = [];

  planned({ log, cache }: ObservedReplica, plan: StepPlan, startNs: Nanos): void {
    const step = this.startNs.length;
    this.startNs.push(startNs);
    this.loggedEvents.push(log?.count ?? 0);
    for (let i = 0; i < plan.count; i++) {
      const { sequence, from, tokens, prefill, generate } = plan.items[i];
      this.step.push(step);
      this.request.push(sequence.request.id);
      this.from.push(from);
      this.tokens.push(tokens);
      this.generated.push(generate);
      this.prefill.push(prefill ? 1 : 0);
      this.blocks.push(checksum(sequence.table, Math.ceil((from + tokens) / cache.blockTokens)));
    }
  }
}

/** FNV-1a over the first `count` numbers. */
function checksum(table: Int32Array, count: number): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < count; i++) hash = Math.imul(hash ^ table[i], 0x01000193);
  return hash;
}
