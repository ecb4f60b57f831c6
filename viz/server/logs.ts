import { basename } from "node:path";
import { asyncBufferFromFile, type FileMetaData, parquetMetadataAsync, parquetRead } from "hyparquet";
import type { EventColumns } from "../../core/log/event-log.ts";
import { eventNames } from "../../core/log/events.ts";
import { EventHistory } from "../log/event-history.ts";
import { FileCache } from "./file-cache.ts";
import type { Inside } from "./inside.ts";
import { Refusal } from "./refusal.ts";

/** Memory of an event, including derived columns. */
const eventBytes = 40;
const names = ["event", "timeNs", "request", "block", "key", "value"] as const;
type Name = (typeof names)[number];
const codes = new Map<unknown, number>(eventNames.map((name, code) => [name, code]));

/** Configuration of a run that its log does not contain. */
export interface CacheShape {
  readonly blockTokens: number;
  /** null: unlimited. */
  readonly blocks: number | null;
}

/** The event logs of runs, as histories. */
export class Logs {
  readonly #mostEvents: number;
  readonly #shapes = new WeakMap<Inside, CacheShape>();
  readonly #files: FileCache<EventHistory>;

  /** A log of more than `mostEvents` is refused; all cached logs have at most twice as many events. */
  constructor({ mostFiles = 4, mostEvents = 5_000_000 } = {}) {
    this.#mostEvents = mostEvents;
    this.#files = new FileCache(
      (file) => readHistory(file, this.#shapes.get(file)!, this.#mostEvents),
      ({ events }) => events * eventBytes,
      { files: mostFiles, bytes: 2 * mostEvents * eventBytes },
    );
  }

  /** @throws Refusal if the file is damaged or too large. */
  async read(file: Inside, shape: CacheShape): Promise<EventHistory> {
    this.#shapes.set(file, shape);
    return await this.#files.read(file);
  }
}

async function readHistory({ path }: Inside, { blockTokens, blocks }: CacheShape, most: number): Promise<EventHistory> {
  const name = basename(path);
  const damaged = (why: string) => new Refusal(422, `${name} is damaged (${why.replace(/\s*\n\s*/g, " ")})`);
  try {
    const file = await asyncBufferFromFile(path);
    const metadata = await parquetMetadataAsync(file);
    const events = metadata.row_groups.reduce((sum, { num_rows }) => sum + Number(num_rows), 0);
    if (events > most) throw new Refusal(413, `${name} has ${events} events, too many to show (${most} at most)`);
    checkColumns(metadata);
    const history = new EventHistory({ blockTokens, blocks: blocks ?? undefined });
    // Row group by row group: other requests are handled in between, and at most one group is decoded at a time.
    let from = 0;
    for (const { num_rows } of metadata.row_groups) {
      const to = from + Number(num_rows);
      history.append(await readGroup(file, metadata, from, to));
      from = to;
    }
    return history;
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw damaged(error instanceof Error ? error.message : String(error));
  }
}

/** @throws Refusal if the log cannot be shown */
function checkColumns({ schema, row_groups }: FileMetaData): void {
  const found = schema.filter(({ num_children }) => num_children === undefined).map(({ name }) => name);
  const missing = names.find((name) => !found.includes(name));
  if (missing) throw new Error(`it has no column ${missing}`);
  if (found.includes("replica"))
    throw new Refusal(422, "the log is of several replicas; only the log of one replica can be shown");
  if (row_groups.some(({ num_rows }) => num_rows < 0n))
    throw new Error("it has a row group with a negative number of rows");
}

/** Rows `[from, to)`, a whole group. */
async function readGroup(
  file: Awaited<ReturnType<typeof asyncBufferFromFile>>,
  metadata: FileMetaData,
  from: number,
  to: number,
): Promise<EventColumns> {
  const count = to - from;
  const columns = {
    kind: new Uint8Array(count),
    timeNs: new Float64Array(count),
    request: new Int32Array(count),
    block: new Int32Array(count),
    key: new Float64Array(count),
    value: new Int32Array(count),
  };
  const read = Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, number>;
  let problem: string | undefined;
  await parquetRead({
    file,
    metadata,
    columns: [...names],
    rowStart: from,
    rowEnd: to,
    // An exception in this callback would not be caught.
    onChunk: ({ columnName, columnData, rowStart }) => {
      const name = columnName as Name;
      if (rowStart - from + columnData.length > count) problem ??= `column ${name} is too long`;
      else if (name === "event") problem ??= fillKinds(columns.kind, columnData, rowStart, rowStart - from);
      else problem ??= fillNumbers(columns[name], name, columnData, rowStart, rowStart - from);
      read[name] += columnData.length;
    },
  });
  const short = names.find((name) => read[name] < count);
  if (short) problem ??= `column ${short} is too short`;
  if (problem) throw new Error(problem);
  return columns;
}

function fillKinds(column: Uint8Array, data: ArrayLike<unknown>, row: number, at: number): string | undefined {
  for (let i = 0; i < data.length; i++) {
    const code = codes.get(data[i]);
    if (code === undefined)
      return `event ${row + i} is ${JSON.stringify(String(data[i]).slice(0, 50))}, which is not a kind of event`;
    column[at + i] = code;
  }
  return undefined;
}

function fillNumbers(
  column: Float64Array | Int32Array,
  name: Name,
  data: ArrayLike<unknown>,
  row: number,
  at: number,
): string | undefined {
  for (let i = 0; i < data.length; i++) {
    const value = data[i];
    const number = typeof value === "bigint" ? Number(value) : value;
    column[at + i] = number as number;
    if (column[at + i] !== number || !Number.isSafeInteger(number))
      return `event ${row + i}: ${name} is ${String(value).slice(0, 50)}, expected a whole number`;
  }
  return undefined;
}
