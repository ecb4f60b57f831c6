import type { StepPlan } from "../replica/step.ts";
import type { Nanos } from "../trace/trace.ts";
import type { ObservedReplica, StepObserver } from "./observers.ts";

/** The chunks of every step of one replica, as columns. A chunk is the tokens of one request that a step computes. */
export class ChunkTable implements StepObserver {
  /** Per step: when it was planned, and the length of the event log then. */
  readonly startNs: number[] = [];
  readonly loggedEvents: number[] = [];
  /** Per chunk: tokens `[from, from + tokens)` of a request are computed, and `generated` output tokens are produced. */
  readonly step: number[] = [];
  readonly request: number[] = [];
  readonly from: number[] = [];
  readonly tokens: number[] = [];
  readonly generated: number[] = [];
  /** 1 for prefill, 0 for decode. */
  readonly prefill: number[] = [];
  /** Checksum of the block table up to the chunk's end. */
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

/** FNV-1a over the first `count` blocks of a table. */
function checksum(table: Int32Array, count: number): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < count; i++) hash = Math.imul(hash ^ table[i], 0x01000193);
  return hash;
}
