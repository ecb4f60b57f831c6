import { grown } from "../../core/grown.ts";
import { blockKeysFor, type CacheConfig } from "../../core/replica/compose.ts";
import type { BlockColumns, BlockContents } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { BatchStore } from "../batch-store.ts";
import type { TraceStream } from "../trace-stream.ts";

/** A batch of a trace with the content ids of its blocks. */
export interface BlockBatch {
  readonly trace: Trace;
  readonly blocks: BlockColumns;
}

/** Batches of one trace, in order; every call begins at the first one. */
export interface BlockBatches {
  /** `keeps`: another call follows, for which the batches are kept. */
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
  /** The blocks of all batches, if they are kept. */
  #kept: BatchStore<KeptBlocks> | undefined;
  /** For partial matches, the tokens of all blocks. */
  #contents: BlockContents | undefined;

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

  /** Reads all batches, which are kept for later passes. */
  async count(): Promise<void> {
    // With all batches read, it is known whether content ids depend on namespaces.
    await this.#stream.count();
    for await (const _ of this.batches(true));
  }

  async *batches(keeps = false): AsyncGenerator<BlockBatch> {
    if (this.#kept) {
      const kept = this.#kept.read();
      for await (const batch of this.#stream.batches()) yield this.#restored(batch, kept.next().value!);
      return;
    }
    const { isWhole, hasNamespaces } = this.#stream;
    const distinct = new DistinctBlocks();
    const kept = keeps ? new BatchStore<KeptBlocks>(isWhole ? Number.POSITIVE_INFINITY : undefined) : undefined;
    const { unitTokens } = await this.#stream.head();
    const keys = blockKeysFor(this.#config, unitTokens, { lateNamespaces: hasNamespaces });
    try {
      for await (const batch of this.#stream.batches(keeps)) {
        const blocks = keys.of(batch);
        distinct.add(blocks);
        kept?.add(...keptBlocks(batch, blocks));
        this.#contents = blocks.contents;
        yield { trace: this.#loaded(batch), blocks };
      }
      this.#distinctBlocks = distinct.count;
      this.#kept = kept;
    } finally {
      if (this.#kept !== kept) kept?.close();
    }
  }

  /** Removes what was kept. */
  close(): void {
    this.#kept?.close();
  }

  #restored(batch: Trace, { keys = batch.keys, start = batch.keyStart, ...blocks }: KeptBlocks): BlockBatch {
    const contents = this.#contents;
    return { trace: this.#loaded(batch), blocks: { ...blocks, keys, start, ...(contents && { contents }) } };
  }
}

/** The blocks of a batch, without columns that are those of the trace. */
type KeptBlocks = Omit<BlockColumns, "keys" | "start" | "contents"> & Partial<Pick<BlockColumns, "keys" | "start">>;

/** What is kept of the blocks of a batch, and its bytes. */
function keptBlocks(batch: Trace, { contents: _, ...blocks }: BlockColumns): [KeptBlocks, number] {
  const { keys, start, promptBlocks, plainKeys, tails, ...others } = blocks;
  const own = keys === batch.keys ? {} : { keys, start };
  const optional = { ...(plainKeys && { plainKeys }), ...(tails && { tails }) };
  const columns = { ...own, promptBlocks, ...optional };
  const bytes = Object.values(columns).reduce((sum, { byteLength }) => sum + byteLength, 0);
  return [{ ...others, ...columns }, bytes];
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
