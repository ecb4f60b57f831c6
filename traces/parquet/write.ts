import { pipeline } from "node:stream/promises";
import { crc32 } from "node:zlib";
import { ByteWriter, type ColumnSource, ParquetWriter } from "hyparquet-writer";
import { rowOf, type Trace, TraceBuilder, type TraceSource } from "../../core/trace/trace.ts";
import { streamOf, type TraceTarget, type TraceWriter, type WriteOptions } from "../writer.ts";
import {
  createdBy,
  footerMark,
  generatedColumn,
  keysColumn,
  metadataKeys,
  numberColumns,
  parquetSchema,
  schemaName,
} from "./schema.ts";

/** A row group ends with the request that reaches one of these numbers, which bounds the memory of writer and reader. */
const rowsPerGroup = 1 << 16;
const keysPerGroup = 1 << 20;

/** kvlab's Parquet schema for traces. */
export const parquetWriter: TraceWriter = {
  name: "parquet",
  extension: ".parquet",
  contents: ["blocks", "tokens", "lengths"],
  columns: [
    ...(["keys", "maxOutputTokens", "namespace", "session", "parent", "thinkNs"] as const),
    ...(["priority", "retentionNs", "category", "markedTokens", "generatedKeys"] as const),
    ...(["tool", "nextUseNs", "nextUseSteps", "keepNs", "sessionEnd"] as const),
  ],
  hasGzip: false,
  write: writeParquetTo,
};

/**
 * Writes a trace as Parquet, row group by row group. Every column of a trace has a column in the file;
 * docs/trace-format.md describes the schema.
 *
 * @throws an error of the file system if the file cannot be written
 */
export async function writeParquetTo(
  target: TraceTarget,
  source: TraceSource,
  { idOf }: WriteOptions = {},
): Promise<void> {
  await pipeline(bytesOf(source, idOf), streamOf(target));
}

async function* bytesOf(source: TraceSource, idOf: WriteOptions["idOf"]): AsyncGenerator<Uint8Array> {
  const groups = new GroupWriter(source, idOf);
  for await (const batch of source.batches()) yield* groups.add(batch);
  yield* groups.finish();
}

/** The bytes of a file, row group by row group. */
class GroupWriter {
  readonly #bytes = new ByteWriter(1 << 16);
  readonly #metadata: { key: string; value: string }[];
  readonly #writer: ParquetWriter;
  readonly #isText: boolean;
  readonly #idOf: WriteOptions["idOf"];
  readonly #checksums: string[] = [];
  #builder: TraceBuilder | undefined;
  #keys = 0;

  constructor({ content, format }: TraceSource, idOf: WriteOptions["idOf"]) {
    this.#idOf = idOf;
    this.#isText = content === "tokens";
    this.#metadata = Object.entries({
      [metadataKeys.schema]: schemaName,
      [metadataKeys.content]: content,
      [metadataKeys.sourceFormat]: format,
    }).map(([key, value]) => ({ key, value }));
    this.#writer = new ParquetWriter({
      writer: this.#bytes,
      schema: idOf ? parquetSchema("int64") : parquetSchema(),
      kvMetadata: this.#metadata,
      createdBy,
    });
  }

  async *add(batch: Trace): AsyncGenerator<Uint8Array> {
    this.#builder ??= this.#begin(batch.unitTokens);
    for (let r = 0; r < batch.requestCount; r++) {
      const row = rowOf(batch, r);
      this.#builder.add(row);
      this.#keys += row.keys.length + (row.generatedKeys?.length ?? 0);
      if (this.#builder.requestCount >= rowsPerGroup || this.#keys >= keysPerGroup)
        yield* this.#endGroup(this.#builder);
    }
  }

  async *finish(): AsyncGenerator<Uint8Array> {
    if (this.#builder && this.#builder.requestCount > 0) yield* this.#endGroup(this.#builder);
    else yield this.#taken();
    this.#metadata.push({ key: metadataKeys.groupChecksums, value: this.#checksums.join(",") });
    await this.#writer.finish();
    const footer = this.#taken();
    const mark = Buffer.alloc(footerMark.length + 4);
    footerMark.copy(mark);
    mark.writeUInt32LE(crc32(footer), footerMark.length);
    yield mark;
    yield footer;
  }

  #begin(unitTokens: number): TraceBuilder {
    this.#metadata.push({ key: metadataKeys.unitTokens, value: String(unitTokens) });
    return new TraceBuilder(unitTokens);
  }

  async *#endGroup(builder: TraceBuilder): AsyncGenerator<Uint8Array> {
    yield this.#taken();
    const group = builder.take();
    this.#keys = 0;
    await this.#writer.write({
      columnData: columnsOf(group, this.#isText, this.#idOf),
      rowGroupSize: group.requestCount,
    });
    this.#checksums.push(crc32(this.#bytes.getBytes()).toString(16));
    yield this.#taken();
  }

  /** The bytes since the last call. */
  #taken(): Uint8Array {
    const bytes = this.#bytes.getBytes().slice();
    this.#bytes.index = 0;
    return bytes;
  }
}

function columnsOf(group: Trace, isText: boolean, idOf: WriteOptions["idOf"]): ColumnSource[] {
  const numbers = numberColumns.map(({ name, field, type }): ColumnSource => {
    const values = field in group ? group[field as keyof Trace] : group.optional[field as keyof Trace["optional"]];
    const column = values as Float64Array | Uint32Array | Int32Array | undefined;
    const plain = { name, offsetIndex: false };
    if (!column) return { ...plain, data: new Array(group.requestCount).fill(null) };
    if (type !== "int64") return { ...plain, data: Array.from(column) };
    return { ...plain, encoding: "DELTA_BINARY_PACKED", data: BigInt64Array.from(column as Float64Array, BigInt) };
  });
  const { generatedKeys, generatedStart } = group.optional;
  // Content ids are mostly consecutive numbers, token ids are not.
  const ids = { offsetIndex: false, statistics: false, ...(!isText && { encoding: "DELTA_BINARY_PACKED" as const }) };
  return [
    ...numbers,
    idOf
      ? {
          ...ids,
          encoding: "PLAIN",
          name: keysColumn,
          data: lists(group.keys, group.keyStart, (key) => BigInt(idOf(key))),
        }
      : { ...ids, name: keysColumn, data: lists(group.keys, group.keyStart, Number) },
    {
      ...ids,
      name: generatedColumn,
      data:
        generatedKeys && generatedStart
          ? lists(generatedKeys, generatedStart, Number)
          : new Array(group.requestCount).fill(null),
    },
  ];
}

function lists<Id>(values: Uint32Array, starts: Float64Array, idOf: (key: number) => Id): Id[][] {
  return Array.from({ length: starts.length - 1 }, (_, r) =>
    Array.from(values.subarray(starts[r], starts[r + 1]), idOf),
  );
}
