import { basename } from "node:path";
import { asyncBufferFromFile, type FileMetaData, parquetMetadataAsync, parquetRead } from "hyparquet";
import { FileCache } from "./file-cache.ts";
import type { Inside } from "./inside.ts";
import { Refusal } from "./refusal.ts";

/** A Parquet file in memory: its columns of numbers, and of booleans as 0 and 1. NaN where there is no number. */
export interface Table {
  readonly rowCount: number;
  readonly columns: ReadonlyMap<string, Float64Array>;
}

const numberTypes: readonly (string | undefined)[] = ["INT32", "INT64", "FLOAT", "DOUBLE", "BOOLEAN"];

interface TablesOptions {
  readonly mostTables?: number;
  readonly mostBytes?: number;
  /** Names of the columns to read; default: all. */
  readonly columns?: readonly string[];
}

/** Cached tables of runs. */
export class Tables extends FileCache<Table> {
  /** A table of more than `mostBytes` is refused, and at most that is cached. @throws Refusal also if a file is damaged */
  constructor({ mostTables = 8, mostBytes = 256 * 2 ** 20, columns }: TablesOptions = {}) {
    super(
      (file) => readTable(file, mostBytes, columns),
      ({ columns, rowCount }) => columns.size * rowCount * 8,
      { files: mostTables, bytes: mostBytes },
    );
  }
}

async function readTable({ path }: Inside, mostBytes: number, only?: readonly string[]): Promise<Table> {
  const damaged = (why: string) => new Refusal(422, `${basename(path)} is damaged (${why.replace(/\s*\n\s*/g, " ")})`);
  try {
    const file = await asyncBufferFromFile(path);
    const metadata = await parquetMetadataAsync(file);
    const rowCount = Number(metadata.num_rows);
    const names = numberColumns(metadata).filter((name) => only?.includes(name) ?? true);
    if (rowCount * names.length * 8 > mostBytes)
      throw new Refusal(413, `${basename(path)} has ${rowCount} rows, too many to show (${mostBytes} bytes at most)`);
    const columns = new Map(names.map((name) => [name, new Float64Array(rowCount).fill(Number.NaN)]));
    let tooLong: string | undefined;
    if (names.length > 0 && rowCount > 0)
      await parquetRead({
        file,
        metadata,
        columns: names,
        onChunk: ({ columnName, columnData, rowStart }) => {
          const column = columns.get(columnName)!;
          // An exception in this callback would not be caught.
          if (rowStart + columnData.length > rowCount) tooLong = columnName;
          else for (let i = 0; i < columnData.length; i++) column[rowStart + i] = numberOf(columnData[i]);
        },
      });
    if (tooLong !== undefined) throw damaged(`column ${tooLong} is too long`);
    return { rowCount, columns };
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw damaged(error instanceof Error ? error.message : String(error));
  }
}

const numberColumns = ({ schema }: FileMetaData) =>
  schema
    .filter(({ type, repetition_type }) => numberTypes.includes(type) && repetition_type !== "REPEATED")
    .map(({ name }) => name);

function numberOf(value: unknown): number {
  return typeof value === "number" || typeof value === "bigint" || typeof value === "boolean"
    ? Number(value)
    : Number.NaN;
}
