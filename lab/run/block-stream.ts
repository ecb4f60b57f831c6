import { grown } from "../../core/grown.ts";
import { blockKeysFor, type CacheConfig } from "../../core/replica/compose.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import type { TraceStream } from "../trace-stream.ts";

/** A batch of a trace with the content ids of its blocks. */
export interface BlockBatch {
  readonly trace: Trace;
  readonly blocks: BlockColumns;
}

/** Batches of one trace, in order; every call begins at the first one. */
export interface BlockBatches {
  /** `keeps`: another call follows, so that the batches of a small trace are kept. */
  batches(keeps?: boolean): AsyncIterable<BlockBatch> | Iterable<BlockBatch>;
}

/** A trace in memory as one batch. */
export const inMemory = (trace: Trace, blocks: BlockColumns): BlockBatches => ({ batches: () => [{ trace, blocks }] });

/** The batches of a trace as a run reads them: with the content ids of its blocks at one block size. */
export class BlockStream implements BlockBatches {
  readonly blockTokens: number;
  readonly #stream: TraceStream;
  readonly #config: Pick<CacheConfig, "index" | "rules" | "blockTokens">;
  readonly #loaded: (batch: Trace) => Trace;
  #distinctBlocks: number | undefined;
  #kept: readonly BlockBatch[] | undefined;

  /** `loaded`: changes that the options of a run make to each batch. */
  constructor(
    stream: TraceStream,
    config: Pick<CacheConfig, "index" | "rules" | "blockTokens">,
    loaded: (batch: Trace) => Trace = (batch) => batch,
  ) {
    this.#stream = stream;
    this.blockTokens = config.blockTokens;
    this.#config = config;
    this.#loaded = loaded;
  }

  /** Number of distinct prompt blocks; undefined before the end of the first pass. */
  get distinctBlocks(): number | undefined {
    return this.#distinctBlocks;
  }

  async *batches(keeps = false): AsyncGenerator<BlockBatch> {
    if (this.#kept) {
      yield* this.#kept;
      return;
    }
    const distinct = new DistinctBlocks();
    let kept: BlockBatch[] | undefined = [];
    const keys = blockKeysFor(this.#config, (await this.#stream.head()).unitTokens);
    for await (const batch of this.#stream.batches(keeps)) {
      const one = { trace: this.#loaded(batch), blocks: keys.of(batch) };
      distinct.add(one.blocks);
      if (!this.#stream.isInMemory) kept = undefined;
      kept?.push(one);
      yield one;
    }
    this.#distinctBlocks = distinct.count;
    this.#kept = kept;
  }
}

/** Counts the distinct content ids among the blocks of all prompts, with one bit per content id. */
export class DistinctBlocks {
  count = 0;
  #seen = new Uint32Array(1 << 10);

  add({ keys, start, promptBlocks, distinct }: BlockColumns): void {
    const words = (distinct + 31) >>> 5;
    if (words > this.#seen.length) this.#seen = grown(this.#seen, Math.max(words, 2 * this.#seen.length));
    const seen = this.#seen;
    let { count } = this;
    for (let r = 0; r < promptBlocks.length; r++) {
      const end = start[r] + promptBlocks[r];
      for (let at = start[r] | 0; at < end; at++) {
        const key = keys[at];
        const bit = 1 << (key & 31);
        if ((seen[key >>> 5] & bit) !== 0) continue;
        seen[key >>> 5] |= bit;
        count++;
      }
    }
    this.count = count;
  }
}

/** Number of distinct content ids among the blocks of all prompts. */
export function distinctPromptBlocks(blocks: BlockColumns): number {
  const distinct = new DistinctBlocks();
  distinct.add(blocks);
  return distinct.count;
}
