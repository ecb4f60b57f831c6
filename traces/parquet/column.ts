import * as zlib from "node:zlib";
import type { ColumnMetaData, PageHeader, SchemaElement } from "hyparquet";
import { parquetHeader } from "hyparquet/src/column.js";
import { Cursor, DamagedPage, readDeltas, readRuns } from "./encodings.ts";
import { unpackSnappy } from "./snappy.ts";

/** Values of a column in one row group. */
export interface Column {
  /** The values that are present, in order. */
  readonly values: Numbers;
  /** Place of each row's value in `values`, −1 = null; undefined if every row has one. */
  readonly places?: Int32Array;
  /** For a list: `rowCount + 1` offsets into `values`. */
  readonly starts?: Float64Array;
  /** For a list: 1 for each row that is null; undefined if there is none. */
  readonly isNull?: Uint8Array;
}

export type Numbers = Int32Array | Uint32Array | BigInt64Array | BigUint64Array | Float64Array;

/** Most values of a column in one row group, and most bytes of a page. */
export const mostValues = 1 << 26;
const mostPageBytes = 1 << 29;

/**
 * Decodes one column of a row group. `path` has the column's schema elements without the root. The result never depends on
 * sizes that the file claims without data for them.
 *
 * @throws DamagedPage
 */
export function readColumn(
  bytes: Uint8Array,
  path: readonly SchemaElement[],
  metadata: ColumnMetaData,
  rowCount: number,
): Column {
  const shape = shapeOf(path);
  const count = Number(metadata.num_values);
  if (!shape.isList && count !== rowCount)
    throw new DamagedPage(`${count} values in the metadata, expected ${rowCount}, one per row`);
  const pages = readPages(bytes, shape, metadata, count);
  const values = joined(pages.map((page) => page.values));
  if (shape.mostDefinition === 0 && !shape.isList) return { values };
  const definition = joinedLevels(pages.map((page) => page.definition));
  if (!shape.isList) {
    if (values.length === rowCount) return { values };
    let place = 0;
    const places = Int32Array.from(definition, (level) => (level === shape.mostDefinition ? place++ : -1));
    return { values, places };
  }
  const repetition = joinedLevels(pages.map((page) => page.repetition));
  return { values, ...listsOf(definition, repetition, shape, rowCount) };
}

interface Shape {
  readonly leaf: SchemaElement;
  readonly isList: boolean;
  readonly mostDefinition: number;
  /** Definition level at which a list has an entry. */
  readonly entryDefinition: number;
}

/** @throws DamagedPage if the column is neither a number nor a list of numbers */
function shapeOf(path: readonly SchemaElement[]): Shape {
  const leaf = path[path.length - 1];
  const repeated = path.findIndex(({ repetition_type }) => repetition_type === "REPEATED");
  const defined = (elements: readonly SchemaElement[]) =>
    elements.filter(({ repetition_type }) => repetition_type !== "REQUIRED").length;
  if (path.slice(repeated + 1).some(({ repetition_type }) => repeated >= 0 && repetition_type === "REPEATED"))
    throw new DamagedPage("a list of lists, expected a list of integers");
  return {
    leaf,
    isList: repeated >= 0,
    mostDefinition: defined(path),
    entryDefinition: repeated < 0 ? 0 : defined(path.slice(0, repeated + 1)),
  };
}

function listsOf(
  definition: Uint8Array,
  repetition: Uint8Array,
  { mostDefinition, entryDefinition }: Shape,
  rowCount: number,
): Pick<Column, "starts" | "isNull"> {
  const starts = new Float64Array(rowCount + 1);
  let isNull: Uint8Array | undefined;
  let row = -1;
  let entries = 0;
  for (let i = 0; i < definition.length; i++) {
    if (repetition[i] === 0) {
      if (++row === rowCount) throw new DamagedPage(`more than ${rowCount} rows, the number of the row group`);
      starts[row] = entries;
    } else if (row < 0) throw new DamagedPage("the first value continues a list");
    if (definition[i] === mostDefinition) entries++;
    else if (definition[i] >= entryDefinition)
      throw new DamagedPage(`row ${row} of the row group has null in its list`);
    else if (definition[i] < entryDefinition - 1) (isNull ??= new Uint8Array(rowCount))[row] = 1;
  }
  if (row + 1 !== rowCount) throw new DamagedPage(`${row + 1} rows, expected ${rowCount}, the number of the row group`);
  starts[rowCount] = entries;
  return { starts, ...(isNull && { isNull }) };
}

/** Counts in headers may be of any type where a file is damaged. */
function checkCount(count: number, most: number, what: string): void {
  if (!(Number.isInteger(count) && count >= 0 && count <= most))
    throw new DamagedPage(`a page has ${count} ${what}, expected at most ${most}`);
}

interface Page {
  readonly values: Numbers;
  readonly definition: Uint8Array;
  readonly repetition: Uint8Array;
}

function readPages(bytes: Uint8Array, shape: Shape, metadata: ColumnMetaData, count: number): Page[] {
  const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 };
  const pages: Page[] = [];
  let dictionary: Numbers | undefined;
  let found = 0;
  while (found < count) {
    if (reader.offset >= bytes.length) throw new DamagedPage(`${found} values, expected ${count}`);
    const header = parquetHeader(reader);
    const size = header.compressed_page_size;
    checkCount(size, bytes.length - reader.offset, "bytes");
    checkCount(header.uncompressed_page_size, mostPageBytes, "bytes");
    const data = bytes.subarray(reader.offset, reader.offset + size);
    reader.offset += size;
    if (header.type === "DICTIONARY_PAGE") {
      const page = decompressed(data, header.uncompressed_page_size, metadata.codec);
      dictionary = readPlain(new Cursor(page), shape.leaf, header.dictionary_page_header?.num_values ?? -1);
      continue;
    }
    if (header.type === "INDEX_PAGE") continue;
    const values = header.data_page_header?.num_values ?? header.data_page_header_v2?.num_values ?? -1;
    checkCount(values, count - found, "values");
    pages.push(readPage(data, header, values, shape, metadata, dictionary));
    found += values;
  }
  return pages;
}

function readPage(
  data: Uint8Array,
  header: PageHeader,
  count: number,
  shape: Shape,
  { codec }: ColumnMetaData,
  dictionary: Numbers | undefined,
): Page {
  const { mostDefinition, isList } = shape;
  const definitionBits = Math.ceil(Math.log2(mostDefinition + 1));
  const v2 = header.data_page_header_v2;
  if (v2) checkCount(v2.repetition_levels_byte_length, data.length, "bytes of levels");
  if (v2) checkCount(v2.definition_levels_byte_length, data.length, "bytes of levels");
  const cursor = new Cursor(v2 ? data : decompressed(data, header.uncompressed_page_size, codec));
  // Version 1 has the length before the levels, version 2 in the header.
  const levels = (length: number | undefined, bits: number) => {
    const part = new Cursor(cursor.take(length ?? cursor.uint32()));
    return bits === 0 ? new Uint8Array(count) : readRuns(part, bits, new Uint8Array(count));
  };
  const noLevels = new Uint8Array(0);
  const repetition =
    isList || (v2 && v2.repetition_levels_byte_length > 0)
      ? levels(v2?.repetition_levels_byte_length, isList ? 1 : 0)
      : noLevels;
  const definition =
    mostDefinition > 0 || (v2 && v2.definition_levels_byte_length > 0)
      ? levels(v2?.definition_levels_byte_length, definitionBits)
      : noLevels;
  let present = mostDefinition > 0 ? 0 : count;
  for (const level of definition) {
    if (level > mostDefinition)
      throw new DamagedPage(`a definition level is ${level}, expected ${mostDefinition} at most`);
    if (level === mostDefinition && mostDefinition > 0) present++;
  }
  const levelBytes = v2 ? v2.repetition_levels_byte_length + v2.definition_levels_byte_length : 0;
  const isPacked = v2 !== undefined && v2.is_compressed !== false;
  const rest = cursor.take(cursor.bytes.length - cursor.at);
  const plain = isPacked ? decompressed(rest, header.uncompressed_page_size - levelBytes, codec) : rest;
  const encoding = header.data_page_header?.encoding ?? v2?.encoding;
  return { values: readValues(new Cursor(plain), encoding, shape.leaf, present, dictionary), definition, repetition };
}

function readValues(
  cursor: Cursor,
  encoding: string | undefined,
  leaf: SchemaElement,
  count: number,
  dictionary: Numbers | undefined,
): Numbers {
  if (encoding === "PLAIN") return readPlain(cursor, leaf, count);
  if (encoding === "PLAIN_DICTIONARY" || encoding === "RLE_DICTIONARY") {
    if (count === 0) return emptyOf(leaf);
    if (!dictionary) throw new DamagedPage("a page refers to a dictionary, but there is none");
    const indexes = readRuns(cursor, cursor.byte(), new Uint32Array(count));
    const values = new (dictionary.constructor as new (length: number) => Numbers)(count);
    for (let i = 0; i < count; i++) {
      if (indexes[i] >= dictionary.length)
        throw new DamagedPage(`an index is ${indexes[i]}, expected less than ${dictionary.length}`);
      values[i] = dictionary[indexes[i]];
    }
    return values;
  }
  if (encoding === "DELTA_BINARY_PACKED" && (leaf.type === "INT32" || leaf.type === "INT64")) {
    const values = leaf.type === "INT32" ? new Int32Array(count) : new BigInt64Array(count);
    readDeltas(cursor, values);
    return signed(values, leaf);
  }
  throw new DamagedPage(`the encoding is ${encoding}, expected PLAIN, RLE_DICTIONARY or DELTA_BINARY_PACKED`);
}

const widths: Readonly<Record<string, number>> = { INT32: 4, INT64: 8, DOUBLE: 8, FLOAT: 4 };

function readPlain(cursor: Cursor, leaf: SchemaElement, count: number): Numbers {
  const width = widths[leaf.type ?? ""];
  checkCount(count, mostValues, "values");
  // A copy, because a typed array needs an aligned offset.
  const { buffer } = new Uint8Array(cursor.take(count * width));
  if (leaf.type === "INT32") return signed(new Int32Array(buffer), leaf);
  if (leaf.type === "INT64") return signed(new BigInt64Array(buffer), leaf);
  return leaf.type === "FLOAT" ? Float64Array.from(new Float32Array(buffer)) : new Float64Array(buffer);
}

const emptyOf = (leaf: SchemaElement): Numbers => readPlain(new Cursor(new Uint8Array()), leaf, 0);

/** True for a type of unsigned integers. */
const isUnsigned = ({ converted_type, logical_type }: SchemaElement) =>
  converted_type?.startsWith("UINT_") || (logical_type?.type === "INTEGER" && !logical_type.isSigned);

function signed(values: Int32Array | BigInt64Array, leaf: SchemaElement): Numbers {
  if (!isUnsigned(leaf)) return values;
  const { buffer, byteOffset, length } = values;
  return values instanceof Int32Array
    ? new Uint32Array(buffer, byteOffset, length)
    : new BigUint64Array(buffer, byteOffset, length);
}

/** Node 22 and later. */
const zstd = (zlib as { zstdDecompressSync?: typeof zlib.gunzipSync }).zstdDecompressSync;

const decompressors: Readonly<Record<string, typeof zlib.gunzipSync | undefined>> = {
  GZIP: zlib.gunzipSync,
  BROTLI: zlib.brotliDecompressSync as typeof zlib.gunzipSync,
  ZSTD: zstd,
};

/** @throws DamagedPage also if this version of Node cannot decompress the data */
function decompressed(data: Uint8Array, size: number, codec: string): Uint8Array {
  checkCount(size, mostPageBytes, "bytes");
  if (codec === "UNCOMPRESSED") return data;
  const decompress = decompressors[codec];
  if (codec !== "SNAPPY" && !decompress)
    throw new DamagedPage(`the compression is ${codec}, expected SNAPPY, GZIP, BROTLI or none (ZSTD needs Node 22.15)`);
  // At most 64 bytes are copied for 3 compressed ones.
  if (codec === "SNAPPY" && size > 64 * data.length)
    throw new DamagedPage(`a page has ${size} bytes, too many for ${data.length} compressed ones`);
  let page: Uint8Array;
  try {
    page = decompress ? decompress(data, { maxOutputLength: Math.max(1, size) }) : unpackSnappy(data, size);
  } catch (error) {
    throw new DamagedPage(`a page cannot be decompressed (${(error as Error).message})`);
  }
  if (page.length !== size) throw new DamagedPage(`a page has ${page.length} bytes, expected ${size}`);
  return page;
}

function joined(pieces: readonly Numbers[]): Numbers {
  if (pieces.length <= 1) return pieces[0] ?? new Int32Array(0);
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const all = new (pieces[0].constructor as new (length: number) => Numbers)(length);
  let at = 0;
  for (const piece of pieces) {
    (all as Float64Array).set(piece as Float64Array, at);
    at += piece.length;
  }
  return all;
}

function joinedLevels(pieces: readonly Uint8Array[]): Uint8Array {
  return pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
}
