import { crc32 } from "node:zlib";
import { type FileMetaData, parquetMetadata, type RowGroup, type SchemaElement } from "hyparquet";
import { TraceError } from "../../core/errors.ts";
import type { TraceContent } from "../../core/trace/trace.ts";
import type { RandomAccessFile } from "../bytes.ts";
import { type Column, mostValues, readColumn } from "./column.ts";
import { DamagedPage } from "./encodings.ts";
import {
  createdBy,
  footerMark,
  generatedColumn,
  keysColumn,
  metadataKeys,
  numberColumns,
  requiredColumns,
  schemaName,
} from "./schema.ts";

const magic = 0x3152_4150;
const mostFooterBytes = 1 << 28;
/** A row group is read as a whole. */
const mostGroupBytes = 1 << 30;

/** The columns of one row group, by name. */
export interface Group {
  readonly rowCount: number;
  readonly columns: ReadonlyMap<string, Column>;
}

/** A Parquet file with the columns of a trace. */
export class ParquetFile {
  readonly path: string;
  readonly unitTokens: number | undefined;
  readonly content: TraceContent | undefined;
  readonly #file: RandomAccessFile;
  readonly #metadata: FileMetaData;
  /** The leaf columns of a trace: schema elements from the column to its leaf. */
  readonly #paths: ReadonlyMap<string, readonly SchemaElement[]>;
  /** CRC-32 of each row group; undefined if another program wrote the file. */
  readonly #checksums: readonly string[] | undefined;

  /**
   * Reads the metadata of an open file, which it closes at `close`. `path` is for messages.
   *
   * @throws TraceError if the file is not a trace in Parquet
   */
  constructor(path: string, file: RandomAccessFile) {
    this.path = path;
    this.#file = file;
    const metadata = readFooter(path, file);
    this.#metadata = metadata;
    this.#paths = columnPaths(metadata);
    const missing = requiredColumns.filter((name) => !this.#paths.has(name));
    if (missing.length > 0) throw new TraceError(`${path}: ${this.#unlike(missing)}`);
    const value = (key: string) => metadata.key_value_metadata?.find((pair) => pair.key === key)?.value;
    const schema = value(metadataKeys.schema);
    if (schema !== undefined && schema !== schemaName)
      throw new TraceError(`${path}: ${metadataKeys.schema} is ${JSON.stringify(schema)}, expected "${schemaName}"`);
    this.unitTokens = unitOf(path, value(metadataKeys.unitTokens));
    this.content = contentOf(path, value(metadataKeys.content));
    // Another program may have copied the metadata to other rows.
    if (metadata.created_by === createdBy) this.#checksums = value(metadataKeys.groupChecksums)?.split(",") ?? [];
  }

  close(): void {
    this.#file.close();
  }

  has(column: string): boolean {
    return this.#paths.has(column);
  }

  /** The row groups in order. @throws TraceError */
  *groups(): Generator<Group> {
    const groups = this.#metadata.row_groups;
    if (this.#checksums && this.#checksums.filter((sum) => sum !== "").length !== groups.length)
      throw new TraceError(`${this.path}: damaged: ${groups.length} row groups, ${this.#checksums.length} checksums`);
    const rows = groups.reduce((sum, { num_rows }) => sum + num_rows, 0n);
    if (rows !== this.#metadata.num_rows)
      throw new TraceError(`${this.path}: damaged: ${rows} rows in row groups, expected ${this.#metadata.num_rows}`);
    for (const [index, group] of groups.entries()) {
      const rowCount = Number(group.num_rows);
      if (rowCount === 0) continue;
      if (!(rowCount > 0 && rowCount <= mostValues))
        throw this.#damaged(index, `${rowCount} rows, expected at most ${mostValues}`);
      yield { rowCount, columns: this.#read(group, index, rowCount) };
    }
  }

  #read(group: RowGroup, index: number, rowCount: number): Map<string, Column> {
    const chunks = this.#chunksOf(group, index);
    const from = Math.min(...chunks.map(({ start }) => start));
    const to = Math.max(...chunks.map(({ end }) => end));
    const bytes = readBytes(this.path, this.#file, from, to - from);
    if (this.#checksums && this.#checksums[index] !== crc32(bytes).toString(16))
      throw this.#damaged(index, "its bytes do not have the checksum that they were written with");
    const columns = new Map<string, Column>();
    for (const { name, path, chunk, start, end } of chunks) {
      try {
        columns.set(name, readColumn(bytes.subarray(start - from, end - from), path, chunk, rowCount));
      } catch (error) {
        // The decoder of Thrift reads out of bounds where data is damaged.
        if (!(error instanceof DamagedPage || error instanceof RangeError || isThriftError(error))) throw error;
        throw this.#damaged(index, `column ${name}: ${(error as Error).message}`);
      }
    }
    return columns;
  }

  #chunksOf(group: RowGroup, index: number) {
    const chunks = group.columns.flatMap(({ meta_data: chunk }) => {
      const name = chunk?.path_in_schema[0] ?? "";
      const path = this.#paths.get(name);
      if (!chunk || !path) return [];
      const start = Number(chunk.dictionary_page_offset || chunk.data_page_offset);
      const end = start + Number(chunk.total_compressed_size);
      if (!(start >= 4 && end >= start && end <= this.#file.bytes))
        throw this.#damaged(index, `column ${name} is at bytes ${start} to ${end} of ${this.#file.bytes}`);
      if (!(chunk.num_values >= 0n && chunk.num_values <= BigInt(mostValues)))
        throw this.#damaged(
          index,
          `column ${name} has ${chunk.num_values} values, expected at most ${mostValues}: write smaller row groups`,
        );
      return [{ name, path, chunk, start, end }];
    });
    for (const name of this.#paths.keys())
      if (chunks.filter((chunk) => chunk.name === name).length !== 1)
        throw this.#damaged(index, `column ${name} is missing, or there twice`);
    const bytes = Math.max(...chunks.map(({ end }) => end)) - Math.min(...chunks.map(({ start }) => start));
    if (bytes > mostGroupBytes)
      throw this.#damaged(index, `it has ${bytes} bytes, expected at most ${mostGroupBytes}: write smaller row groups`);
    return chunks;
  }

  #damaged(index: number, why: string): TraceError {
    return new TraceError(`${this.path}: row group ${index}: ${why}`);
  }

  #unlike(missing: readonly string[]): string {
    const [root, ...rest] = this.#metadata.schema;
    const names = rest.slice(0, 20).map(({ name }) => (isPrintable(name) ? name : JSON.stringify(name)));
    return `Parquet without the columns ${missing.join(", ")} of a trace; found ${names.join(", ") || "(none)"}${
      rest.length > names.length ? ", …" : ""
    } in the schema ${JSON.stringify(root?.name ?? "")}`;
  }
}

/** Without line ends and other control characters, which a damaged file may contain. */
const isPrintable = (name: string) => !/[\p{Cc}\p{Cf}\u2028\u2029]/u.test(name);

const isThriftError = (error: unknown) => error instanceof Error && error.message.startsWith("thrift");

/** The metadata at the end of the file. */
function readFooter(path: string, file: RandomAccessFile): FileMetaData {
  const size = file.bytes;
  if (size === 0) throw new TraceError(`${path}: the file is empty, expected a trace`);
  if (size < 12) throw new TraceError(`${path}: is not Parquet, or cut: it has ${size} bytes`);
  const head = readBytes(path, file, 0, 4);
  if (head.readUInt32LE() !== magic) throw new TraceError(`${path}: is not Parquet: it does not begin with PAR1`);
  const tail = readBytes(path, file, size - 8, 8);
  const length = tail.readUInt32LE();
  if (tail.readUInt32LE(4) !== magic)
    throw new TraceError(`${path}: the Parquet file is cut: it does not end with PAR1`);
  if (length > Math.min(size - 12, mostFooterBytes))
    throw new TraceError(`${path}: the Parquet file is damaged: its metadata has ${length} bytes, the file ${size}`);
  const markBytes = footerMark.length + 4;
  const start = Math.max(4, size - 8 - length - markBytes);
  const bytes = readBytes(path, file, start, size - start);
  const footer = bytes.subarray(bytes.length - 8 - length);
  const isMarked =
    bytes.length - footer.length === markBytes && bytes.subarray(0, footerMark.length).equals(footerMark);
  if (isMarked && bytes.readUInt32LE(footerMark.length) !== crc32(footer))
    throw new TraceError(`${path}: the Parquet file is damaged: its metadata does not have its checksum`);
  let metadata: FileMetaData;
  try {
    metadata = parquetMetadata(footer, { geoparquet: false });
  } catch (error) {
    throw new TraceError(
      `${path}: the Parquet file is damaged: its metadata cannot be read (${(error as Error).message})`,
    );
  }
  if (!isSound(metadata))
    throw new TraceError(`${path}: the Parquet file is damaged: its metadata has values of other types`);
  if (metadata.created_by === createdBy && !isMarked)
    throw new TraceError(`${path}: the Parquet file is damaged: its metadata has no checksum`);
  return metadata;
}

/** Whether the metadata's fields have the types that they are declared with, which the decoder does not check. */
function isSound({ schema, num_rows, row_groups, key_value_metadata = [] }: FileMetaData): boolean {
  const are = (type: string, ...values: unknown[]) => values.every((value) => typeof value === type);
  return (
    are("bigint", num_rows) &&
    schema.every(({ name, num_children = 0 }) => are("string", name) && are("number", num_children)) &&
    key_value_metadata.every(({ key, value = "" }) => are("string", key, value)) &&
    row_groups.every(
      (group) =>
        are("bigint", group.num_rows) &&
        group.columns.every(({ meta_data: chunk }) => {
          if (!chunk) return false;
          const { num_values, total_compressed_size, data_page_offset, dictionary_page_offset = 0n } = chunk;
          return (
            are("bigint", num_values, total_compressed_size, data_page_offset, dictionary_page_offset) &&
            are("string", chunk.codec, ...chunk.path_in_schema)
          );
        }),
    )
  );
}

function readBytes(path: string, file: RandomAccessFile, at: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(length);
  for (let read = 0; read < length; ) {
    const count = file.readAt(at + read, bytes.subarray(read));
    if (count === 0) throw new TraceError(`${path}: the file became shorter while it was read`);
    read += count;
  }
  return bytes;
}

const wanted: ReadonlySet<string> = new Set([...numberColumns.map(({ name }) => name), keysColumn, generatedColumn]);

/** For each column of a trace, its schema elements down to the leaf. @throws TraceError if one is not of numbers */
function columnPaths({ schema }: FileMetaData): Map<string, SchemaElement[]> {
  const paths = new Map<string, SchemaElement[]>();
  let at = 1;
  /** Elements from `at` as one path; undefined if there is a branch. */
  const path = (): SchemaElement[] | undefined => {
    const element = schema[at++];
    if (!element) return undefined;
    const { num_children: children = 0 } = element;
    if (children === 0) return [element];
    let only: SchemaElement[] | undefined;
    for (let i = 0; i < children && at < schema.length; i++) only = path();
    return children === 1 && only ? [element, ...only] : undefined;
  };
  while (at < schema.length) {
    const { name } = schema[at];
    const elements = path();
    if (elements && wanted.has(name)) paths.set(name, elements);
  }
  return paths;
}

function unitOf(path: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const unit = Number(text);
  if (Number.isInteger(unit) && unit >= 1 && unit < 2 ** 31) return unit;
  throw new TraceError(
    `${path}: ${metadataKeys.unitTokens} is ${JSON.stringify(text)}, expected an integer from 1 to ${2 ** 31 - 1}`,
  );
}

function contentOf(path: string, text: string | undefined): TraceContent | undefined {
  if (text === undefined || text === "blocks" || text === "tokens" || text === "lengths") return text;
  throw new TraceError(
    `${path}: ${metadataKeys.content} is ${JSON.stringify(text)}, expected "blocks", "tokens" or "lengths"`,
  );
}
