import type { KvCache } from "../cache/kv-cache.ts";
import { blocksOf, type Sequence } from "../cache/request.ts";
import { assert } from "../errors.ts";
import type { EventLog } from "../log/event-log.ts";
import type { Nanos } from "../trace/trace.ts";

/**
 * The requests of one replica whose KV is transferred between a prefill and a decode replica. They reference blocks and do not
 * run.
 */
export class KvTransfers {
  /** Requests, by id, whose first token was generated here and whose blocks another replica has not read yet. */
  readonly #sending = new Map<number, Sequence>();
  /** Requests, by id, that have blocks for KV that is being transferred from another replica. */
  readonly #receiving = new Map<number, Sequence>();
  /** Requests that did not fit beside those in transfer; they wait again when a transfer ends. */
  readonly #deferred: Sequence[] = [];
  readonly #cache: KvCache;
  readonly #log: EventLog | undefined;

  constructor(cache: KvCache, log: EventLog | undefined) {
    this.#cache = cache;
    this.#log = log;
  }

  get isIdle(): boolean {
    return this.count + this.#deferred.length === 0;
  }

  /** Requests in transfer, which reference blocks. */
  get count(): number {
    return this.#sending.size + this.#receiving.size;
  }

  *sequences(): Iterable<Sequence> {
    yield* this.#sending.values();
    yield* this.#receiving.values();
  }

  /** The request has its first token and continues on another replica. */
  prefilled(sequence: Sequence): void {
    this.#sending.set(sequence.request.id, sequence);
  }

  /** The transfer of `tokens` tokens of a prefilled request begins. */
  sends(id: number, tokens: number, now: Nanos): void {
    assert(this.#sending.has(id), "a transfer begins from a replica that has not computed the prompt");
    this.#log?.send(now, id, tokens, blocksOf(tokens, this.#cache.blockTokens));
  }

  /** Releases the blocks of a prefilled request; returns its sequence. */
  release(id: number, now: Nanos): Sequence {
    const sequence = this.#sending.get(id);
    assert(sequence !== undefined, "a request is released that has not been computed");
    this.#sending.delete(id);
    this.#cache.finish(sequence, now);
    return sequence;
  }

  /** Blocks are allocated for KV that is to be received. */
  fetches(sequence: Sequence): void {
    this.#receiving.set(sequence.request.id, sequence);
  }

  /** The KV has arrived and is computed from now on; returns the sequence of the request. */
  received(id: number, now: Nanos): Sequence {
    const sequence = this.#receiving.get(id);
    assert(sequence !== undefined, "KV arrives for a request that has no blocks for it");
    this.#receiving.delete(id);
    const tokens = sequence.request.inputTokens - sequence.computedTokens;
    this.#log?.receive(now, id, tokens, blocksOf(tokens, this.#cache.blockTokens));
    sequence.stepTokens = tokens;
    sequence.blocks.endCopy();
    this.#cache.scheduled(sequence, now);
    this.#cache.computed(sequence, true, now);
    return sequence;
  }

  /**
   * Whether a request that does not fit must wait for a transfer to end: an empty cache has enough blocks for it. Schedulers refuse
   * a request that does not fit although none runs.
   */
  mustDefer(sequence: Sequence): boolean {
    if (this.count === 0) return false;
    const { totalBlocks, lookup } = this.#cache;
    return (
      totalBlocks === undefined ||
      sequence.blocksUpTo(lookup.reservedTokens(sequence, sequence.knownTokens)) <= totalBlocks
    );
  }

  defer(sequence: Sequence): void {
    this.#deferred.push(sequence);
  }

  /** Removes and returns the deferred requests, in their order. */
  takeDeferred(): readonly Sequence[] {
    return this.#deferred.splice(0);
  }
}
