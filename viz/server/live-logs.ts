import { open } from "node:fs/promises";
import type { EventColumns } from "../../core/log/event-log.ts";
import { EventHistory } from "../log/event-history.ts";
import { childOf, type Inside } from "./inside.ts";
import { columnFile } from "./live-format.ts";

/** Number of cached logs; each takes up to 100 MB. */
const mostKept = 2;
/** Events that are read at a time; other requests are handled in between. */
const eventsAtOnce = 100_000;
/** Limit of the states that a history stores. */
const mostBytes = 16 * 2 ** 20;

interface Kept {
  readonly version: string;
  readonly history: EventHistory;
  reading: Promise<void>;
}

/** Identifies a log. */
export interface LiveLog {
  /** Process and start: another program may use the same folder later. */
  readonly version: string;
  readonly eventsWritten: number;
  readonly blockTokens: number;
  readonly blocks: number | null;
}

/** The event logs of running programs, read incrementally. */
export class LiveLogs {
  readonly #kept = new Map<string, Kept>();

  /** The log as far as it has been written. @throws Error if it is damaged; then it is no longer cached */
  async read(folder: Inside, log: LiveLog): Promise<EventHistory> {
    const { path } = folder;
    const known = this.#kept.get(path);
    this.#kept.delete(path);
    const { blockTokens, blocks, version } = log;
    const fresh = () => new EventHistory({ blockTokens, blocks: blocks ?? undefined, mostBytes });
    const kept = known?.version === version ? known : { version, history: fresh(), reading: Promise.resolve() };
    this.#kept.set(path, kept);
    while (this.#kept.size > mostKept) this.#kept.delete(this.#kept.keys().next().value!);
    kept.reading = kept.reading.then(() => readOn(kept.history, path, log.eventsWritten));
    try {
      await kept.reading;
    } catch (error) {
      if (this.#kept.get(path) === kept) this.#kept.delete(path);
      throw error;
    }
    return kept.history;
  }
}

async function readOn(history: EventHistory, folder: string, to: number): Promise<void> {
  while (history.events < to) {
    const from = history.events;
    const count = Math.min(eventsAtOnce, to - from);
    const columns: EventColumns = {
      kind: new Uint8Array(count),
      timeNs: new Float64Array(count),
      request: new Int32Array(count),
      block: new Int32Array(count),
      key: new Float64Array(count),
      value: new Int32Array(count),
    };
    for (const [name, column] of Object.entries(columns)) await readInto(folder, columnFile(name), column, from);
    history.append(checked(columns, from));
  }
}

/** Rows from `from` on, at most `eventsAtOnce`. */
async function readInto(
  folder: string,
  name: string,
  column: EventColumns[keyof EventColumns],
  from: number,
): Promise<void> {
  const found = await childOf(folder, name, "file");
  if (!found) throw new Error(`has no ${name}`);
  const file = await open(found.path);
  try {
    const bytes = new Uint8Array(column.buffer);
    const { bytesRead } = await file.read(bytes, 0, bytes.length, from * column.BYTES_PER_ELEMENT);
    if (bytesRead < bytes.length) throw new Error(`${name} is too short`);
  } finally {
    await file.close();
  }
}

/** @throws Error if a time or a key is not a safe integer */
function checked(columns: EventColumns, from: number): EventColumns {
  for (const name of ["timeNs", "key"] as const) {
    const odd = columns[name].findIndex((value) => !Number.isSafeInteger(value));
    if (odd >= 0) throw new Error(`event ${from + odd}: ${name} is ${columns[name][odd]}, expected a whole number`);
  }
  return columns;
}
