import type { SchemaElement } from "hyparquet";
import type { TraceRow } from "../../core/trace/trace.ts";

/** Name and version of the schema, in the file's metadata under `metadataKeys.schema`. */
export const schemaName = "trace/1";

/** Keys of the file's metadata. */
export const metadataKeys = {
  schema: "kvlab.schema",
  unitTokens: "kvlab.unit_tokens",
  content: "kvlab.content",
  sourceFormat: "kvlab.source_format",
  /** CRC-32 of the bytes of each row group, in hexadecimal, separated by commas. */
  groupChecksums: "kvlab.row_group_crc32",
} as const;

export const createdBy = "kvlab";

/**
 * Stands before the footer, followed by the CRC-32 of the footer (4 bytes, little-endian). Parquet readers find the footer
 * from the end of the file and ignore these bytes.
 */
export const footerMark = Buffer.from("kvlabcrc", "latin1");

type Field = Exclude<keyof TraceRow, "keys" | "generatedKeys">;

/** A column with one integer per row. */
export interface NumberColumn {
  readonly name: string;
  readonly field: Field;
  readonly type: "uint32" | "int32" | "int64";
  /** True for the optional columns of a trace: null = the row has no value. */
  readonly nullable: boolean;
  /** Allowed values when a file is read. */
  readonly least: number;
  readonly most: number;
}

const mostUint32 = 2 ** 32 - 1;
const mostTokens = 2 ** 31 - 1;

const number = (
  name: string,
  field: Field,
  type: NumberColumn["type"],
  nullable: boolean,
  least: number,
  most: number,
): NumberColumn => ({ name, field, type, nullable, least, most });

export const numberColumns: readonly NumberColumn[] = [
  number("arrival_ns", "arrivalNs", "int64", false, 0, Number.MAX_SAFE_INTEGER),
  number("input_tokens", "inputTokens", "uint32", false, 1, mostTokens),
  number("output_tokens", "outputTokens", "uint32", false, 0, mostTokens),
  number("max_output_tokens", "maxOutputTokens", "uint32", false, 0, mostUint32),
  number("namespace", "namespace", "uint32", true, 0, mostUint32),
  number("session", "session", "uint32", true, 0, mostUint32),
  number("parent", "parent", "int32", true, -1, mostTokens),
  number("think_ns", "thinkNs", "int64", true, 0, Number.MAX_SAFE_INTEGER),
  number("priority", "priority", "int32", true, -(2 ** 31), 2 ** 31 - 1),
  number("retention_ns", "retentionNs", "int64", true, 0, Number.MAX_SAFE_INTEGER),
  number("category", "category", "uint32", true, 0, mostUint32),
  number("marked_tokens", "markedTokens", "uint32", true, 0, mostTokens),
  number("tool", "tool", "uint32", true, 0, mostUint32),
  number("next_use_ns", "nextUseNs", "int64", true, 0, Number.MAX_SAFE_INTEGER),
  number("next_use_steps", "nextUseSteps", "uint32", true, 0, mostUint32),
  number("keep_ns", "keepNs", "int64", true, 0, Number.MAX_SAFE_INTEGER),
  number("session_end", "sessionEnd", "uint32", true, 0, 2),
];

/** Columns with a list of ids per row. */
export const keysColumn = "keys";
export const generatedColumn = "generated_keys";

/** Columns without which a file is not a trace; `max_output_tokens` is `output_tokens` where the column is missing. */
export const requiredColumns = ["arrival_ns", "input_tokens", "output_tokens"] as const;

const physical = {
  uint32: { type: "INT32", converted_type: "UINT_32" },
  int32: { type: "INT32" },
  int64: { type: "INT64" },
} as const;

const list = (name: string, type: keyof typeof physical, nullable: boolean): SchemaElement[] => [
  { name, repetition_type: nullable ? "OPTIONAL" : "REQUIRED", num_children: 1, converted_type: "LIST" },
  { name: "list", repetition_type: "REPEATED", num_children: 1 },
  { name: "element", repetition_type: "REQUIRED", ...physical[type] },
];

/**
 * The Parquet schema of a trace. It is the same for all traces, so that several files can be queried as one table, except
 * that the keys of an anonymized trace have 64 bits.
 */
export const parquetSchema = (keys: "uint32" | "int64" = "uint32"): SchemaElement[] => [
  { name: "trace", num_children: numberColumns.length + 2 },
  ...numberColumns.map(
    ({ name, type, nullable }): SchemaElement => ({
      name,
      repetition_type: nullable ? "OPTIONAL" : "REQUIRED",
      ...physical[type],
    }),
  ),
  ...list(keysColumn, keys, false),
  ...list(generatedColumn, "uint32", true),
];
