import { basename } from "node:path";
import { asyncBufferFromFile, type FileMetaData, parquetMetadataAsync, parquetRead } from "hyparquet";
import type { Inside } from "./inside.ts";
import { Refusal } from "./refusal.ts";

/** A Parquet file in memory: its columns of numbers, and of booleans as 0 and 1. NaN where there is no number. */
export interface Table {
  readonly rowCount: number;
  readonly columns: ReadonlyMap<string, Float64Array>;
}

interface Kept {
  readonly version: string;
  readonly table: Promise<Table>;
  bytes: number;
}

const numberTypes: readonly (string | undefined)[] = ["INT32", "INT64", "FLOAT", "DOUBLE", "BOOLEAN"];

/** Reads Parquet files one at a time, and keeps the few that were asked for last. */
export class Tables {
  readonly #mostTables: number;
  readonly #mostBytes: number;
  readonly #kept = new Map<string, Kept>();
  #last: Promise<unknown> = Promise.resolve();

  /** A table of more than `mostBytes` is refused, and no more than that is kept. */
  constructor({ mostTables = 8, mostBytes = 256 * 2 ** 20 } = {}) {
    this.#mostTables = mostTables;
    this.#mostBytes = mostBytes;
  }

  /** How many tables there are in memory. */
  get count(): number {
    return this.#kept.size;
  }

  /** @throws Refusal if the file is damaged or too large. */
  async read(file: Inside): Promise<Table> {
    const known = this.#kept.get(file.path);
    this.#kept.delete(file.path);
    const kept = known?.version === file.version ? known : this.#start(file);
    this.#kept.set(file.path, kept);
    this.#makeRoom();
    return await kept.table;
  }

  #start(file: Inside): Kept {
    const table = this.#last.then(() => readTable(file, this.#mostBytes));
    this.#last = table.catch(() => {});
    const kept: Kept = { version: file.version, table, bytes: 0 };
    table.then(
      ({ columns, rowCount }) => {
        kept.bytes = columns.size * rowCount * 8;
        this.#makeRoom();
      },
      () => {
        if (this.#kept.get(file.path) === kept) this.#kept.delete(file.path);
      },
    );
    return kept;
  }

  /** What was asked for longest ago goes; the last one stays. */
  #makeRoom(): void {
    const bytes = () => [...this.#kept.values()].reduce((sum, kept) => sum + kept.bytes, 0);
    while (this.#kept.size > 1 && (this.#kept.size > this.#mostTables || bytes() > this.#mostBytes))
      this.#kept.delete(this.#kept.keys().next().value!);
  }
}

async function readTable({ path }: Inside, mostBytes: number): Promise<Table> {
  const damaged = (why: string) => new Refusal(422, `${basename(path)} is damaged (${why.replace(/\s*\n\s*/g, " ")})`);
  try {
    const file = await asyncBufferFromFile(path);
    const metadata = await parquetMetadataAsync(file);
    const rowCount = Number(metadata.num_rows);
    const names = numberColumns(metadata);
    if (rowCount * names.length * 8 > mostBytes)
      throw new Refusal(413, `${basename(path)} has ${rowCount} rows, too many to show (${mostBytes} bytes at most)`);
    const columns = new Map(names.map((name) => [name, new Float64Array(rowCount).fill(Number.NaN)]));
    if (names.length > 0 && rowCount > 0)
      await parquetRead({
        file,
        metadata,
        columns: names,
        onChunk: ({ columnName, columnData, rowStart }) => {
          const column = columns.get(columnName)!;
          if (rowStart + columnData.length > rowCount) throw damaged(`column ${columnName} is too long`);
          for (let i = 0; i < columnData.length; i++) column[rowStart + i] = numberOf(columnData[i]);
        },
      });
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
