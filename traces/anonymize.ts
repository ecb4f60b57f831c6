import { createHmac } from "node:crypto";
import { InputError } from "../core/errors.ts";
import { rowOf, type Trace, TraceBuilder, type TraceRow, type TraceSource } from "../core/trace/trace.ts";
import { DenseIds } from "./dense-ids.ts";

export interface AnonymizeOptions {
  /** Tokens per content id; a multiple of the trace's unit. */
  readonly blockTokens: number;
  /** Secret of the ids: without it, ids cannot be computed from guessed content. */
  readonly salt: string | Uint8Array;
}

/** An anonymized trace, and the ids that are written for its keys. */
export interface Anonymized {
  readonly source: TraceSource;
  /** The id of a key of the source, in decimal: an integer of 63 bits. */
  readonly idOf: (key: number) => string;
}

/**
 * Replaces the keys of a trace by salted content ids of blocks of `blockTokens` tokens: the first 63 bits of a chain of
 * HMAC-SHA-256 over a block and all blocks before it. Equal prefixes have equal ids under one salt; ids under two salts have
 * nothing in common. Sessions, namespaces and categories are numbered by first appearance. Ids of output tokens are left out.
 *
 * @throws InputError if the trace has no content, or the block size is not a multiple of its unit
 */
export function anonymized(source: TraceSource, { blockTokens, salt }: AnonymizeOptions): Anonymized {
  if (source.content === "lengths")
    throw new InputError("the trace has lengths only, so that it has nothing to anonymize, expected one with content");
  const ids = new DenseIds();
  return {
    idOf: (key) => ids.textOf(key),
    source: {
      ...source,
      content: "blocks",
      async *batches(): AsyncGenerator<Trace> {
        const builder = new TraceBuilder(blockTokens);
        const rows = new AnonymousRows(ids, salt);
        for await (const batch of source.batches()) {
          if (blockTokens % batch.unitTokens !== 0)
            throw new InputError(
              `block size is ${blockTokens}, expected a multiple of the trace's unit, ${batch.unitTokens}`,
            );
          for (let r = 0; r < batch.requestCount; r++) {
            builder.add(rows.row(rowOf(batch, r), batch.unitTokens, blockTokens));
            if (builder.isFull) yield builder.take();
          }
        }
        if (builder.requestCount > 0) yield builder.take();
      },
    },
  };
}

class AnonymousRows {
  readonly #ids: DenseIds;
  readonly #salt: string | Uint8Array;
  readonly #sessions = new Map<number, number>([[0, 0]]);
  readonly #namespaces = new Map<number, number>([[0, 0]]);
  readonly #categories = new Map<number, number>([[0, 0]]);

  constructor(ids: DenseIds, salt: string | Uint8Array) {
    this.#ids = ids;
    this.#salt = salt;
  }

  row(row: TraceRow, unitTokens: number, blockTokens: number): TraceRow {
    const { generatedKeys: _, session, namespace, category, ...rest } = row;
    return {
      ...rest,
      keys: this.#keys(row, blockTokens / unitTokens, unitTokens),
      ...(session !== undefined && { session: numberOf(this.#sessions, session) }),
      ...(namespace !== undefined && { namespace: numberOf(this.#namespaces, namespace) }),
      ...(category !== undefined && { category: numberOf(this.#categories, category) }),
    };
  }

  /** The ids of a prompt's blocks. A partial last block has one too, unless it contains tokens without an id. */
  #keys({ keys, inputTokens }: TraceRow, perBlock: number, unitTokens: number): Uint32Array {
    const areTokens = unitTokens === 1;
    const count = keys.length / perBlock;
    const blocks = new Uint32Array(keys.length * unitTokens < inputTokens ? Math.floor(count) : Math.ceil(count));
    const all = Uint32Array.from(keys);
    let before: Uint8Array = new Uint8Array(0);
    for (let block = 0; block < blocks.length; block++) {
      const end = Math.min(all.length, (block + 1) * perBlock);
      // A content id stands for all content before it.
      const start = areTokens ? block * perBlock : end - 1;
      const part = all.subarray(start, end);
      const hash = createHmac("sha256", this.#salt).update(areTokens ? before : "");
      const digest = hash.update(bytesOf(part)).digest();
      before = digest;
      blocks[block] = this.#number(digest);
    }
    return blocks;
  }

  #number(digest: Buffer): number {
    const id = digest.readBigUInt64BE() >> 1n;
    return this.#ids.numberOf(Number(id / 1_000_000_000n), Number(id % 1_000_000_000n));
  }
}

/** The numbers as bytes, the same on every machine. */
function bytesOf(numbers: Uint32Array): Uint8Array {
  const bytes = Buffer.allocUnsafe(numbers.length * 4);
  for (let i = 0; i < numbers.length; i++) bytes.writeUInt32LE(numbers[i], i * 4);
  return bytes;
}

function numberOf(known: Map<number, number>, found: number): number {
  let number = known.get(found);
  if (number === undefined) known.set(found, (number = known.size));
  return number;
}
