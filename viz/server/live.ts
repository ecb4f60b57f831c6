import { lstat, open, readdir, readFile, realpath, rm } from "node:fs/promises";
import { join } from "node:path";
import type { BrokenRun, LiveRow } from "../api.ts";
import type { EventHistory } from "../log/event-history.ts";
import type { Policy } from "../log/victim.ts";
import { childOf, type Inside, isChildName } from "./inside.ts";
import {
  isAlive,
  type LiveHeader,
  type LiveNow,
  liveFiles,
  liveFolder,
  mostLiveRequests,
  parseHeader,
  parseNow,
  parseSeries,
  requestColumns,
} from "./live-format.ts";
import { LiveLogs } from "./live-logs.ts";
import { Refusal } from "./refusal.ts";
import { Requests } from "./requests.ts";
import type { Table } from "./tables.ts";

type Row = LiveRow | BrokenRun;

/** Maximum number of listed programs. */
const mostListed = 50;
const mostBytes = 1 << 20;

/** The parsed content of a file, and its version. */
interface Kept<Document> {
  readonly version: string;
  readonly document: Document;
}

/** Running programs that report their progress in a hidden folder beside the runs. */
export class LiveRuns {
  /** The rows as of the last refresh, the newest first. */
  rows: readonly Row[] = [];
  /** Number of refreshes that changed the rows. */
  changes = 0;
  readonly #runs: string;
  readonly #headers = new Map<string, Kept<LiveHeader>>();
  readonly #logs = new LiveLogs();
  readonly #nows = new Map<string, Kept<LiveNow>>();

  constructor(runs: string) {
    this.#runs = runs;
  }

  /** Reads changed files. */
  async refresh(): Promise<readonly Row[]> {
    const root = await this.#root();
    const entries = root === undefined ? [] : await readdir(root, { withFileTypes: true }).catch(() => []);
    const ids = entries.filter((entry) => entry.isDirectory() && isChildName(entry.name)).map(({ name }) => name);
    const found = await Promise.all(ids.slice(0, mostListed).map((id) => this.#row(root!, id)));
    for (const kept of [this.#headers, this.#nows])
      for (const id of kept.keys()) if (!ids.includes(id)) kept.delete(id);
    const rows = found.filter((row) => row !== undefined).sort(newestFirst);
    if (JSON.stringify(rows) !== JSON.stringify(this.rows)) this.changes++;
    this.rows = rows;
    return rows;
  }

  /** @throws Refusal if there is none or it cannot be read */
  async row(id: string): Promise<LiveRow> {
    const root = await this.#root();
    const row = root === undefined || !isChildName(id) ? undefined : await this.#row(root, id);
    if (!row) throw new Refusal(404, `there is no running program ${JSON.stringify(id.slice(0, 100))}`);
    if ("problem" in row) throw new Refusal(422, `${JSON.stringify(id)}: ${row.problem}`);
    return row;
  }

  /** Its series so far, as a table like series.parquet. @throws Refusal if there is none or it cannot be read */
  async series(id: string): Promise<Table> {
    await this.row(id);
    const folder = await this.#folder(id);
    const file = folder && (await childOf(folder.path, liveFiles.series, "file"));
    if (!file) throw new Refusal(404, "the run has no time series: it has just started, or it has no clock");
    try {
      const { startNs, intervalNs, count, columns } = parseSeries(await read(file));
      const starts = Float64Array.from({ length: count }, (_, i) => startNs + i * intervalNs);
      const all = Object.entries(columns).map(([name, values]) => [name, Float64Array.from(values)] as const);
      return { rowCount: count, columns: new Map([["startNs", starts], ...all]) };
    } catch (error) {
      throw new Refusal(422, `${JSON.stringify(id)}: ${(error as Error).message}`);
    }
  }

  /** Its requests that have ended; undefined if there are none yet. @throws Refusal if they cannot be read */
  async requests(id: string): Promise<Requests | undefined> {
    const folder = await this.#folder(id);
    const file = folder && (await childOf(folder.path, liveFiles.requests, "file"));
    if (!file) return undefined;
    const bytes = await readBytes(file, mostLiveRequests * requestColumns.length * 8);
    const width = requestColumns.length;
    const rowCount = Math.floor(bytes.byteLength / (8 * width));
    if (rowCount === 0) return undefined;
    const values = new Float64Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + rowCount * 8 * width));
    const columns = requestColumns.map(
      (name, i) => [name, Float64Array.from({ length: rowCount }, (_, row) => values[row * width + i])] as const,
    );
    return new Requests({ rowCount, columns: new Map(columns) });
  }

  /** Its event log as far as it has been written, and its policy. @throws Refusal if there is none or it cannot be read */
  async log(id: string): Promise<{ readonly history: EventHistory; readonly policy: Policy }> {
    const { now, startedAtMs, blockTokens, blocks, eviction } = await this.row(id);
    const folder = await this.#folder(id);
    if (!folder || !now || now.events === null)
      throw new Refusal(404, "the run has no event log: it was started without --events, or has several replicas");
    const { eventsWritten } = now;
    const leavesOnly = this.#headers.get(id)?.document.victims === "leaf";
    try {
      const version = `${startedAtMs}`;
      const history = await this.#logs.read(folder, { version, eventsWritten, blockTokens, blocks });
      return { history, policy: { eviction, leavesOnly } };
    } catch (error) {
      throw new Refusal(422, `${JSON.stringify(id)}: ${(error as Error).message}`);
    }
  }

  /** Removes the folder of a killed program. @throws Refusal if there is none, or it has not been killed */
  async dismiss(id: string): Promise<void> {
    const { state } = await this.row(id);
    if (state !== "killed") throw new Refusal(409, `the program is ${state}`);
    const folder = await this.#folder(id);
    if (folder) await rm(folder.path, { recursive: true, force: true });
    await this.refresh();
  }

  async #folder(id: string): Promise<Inside | undefined> {
    const root = await this.#root();
    return root === undefined ? undefined : await childOf(root, id, "folder");
  }

  /** Undefined if the program has just ended. */
  async #row(root: string, id: string): Promise<Row | undefined> {
    const folder = await childOf(root, id, "folder");
    if (!folder) return undefined;
    const files = await Promise.all(
      [liveFiles.header, liveFiles.now].map((name) => childOf(folder.path, name, "file")),
    );
    const [headerFile, nowFile] = files;
    try {
      if (!headerFile) {
        if (!(await childOf(root, id, "folder"))) return undefined;
        throw new Error("has no header.json");
      }
      const header = await kept(this.#headers, id, headerFile, parseHeader);
      const now = nowFile && (await kept(this.#nows, id, nowFile, parseNow));
      return rowOf(id, headerFile.mtimeMs, header, now);
    } catch (error) {
      // The program may have ended while its files were read.
      if (!(await childOf(root, id, "folder"))) return undefined;
      return { id, problem: (error as Error).message.replace(/\s*\n\s*/g, " ") };
    }
  }

  /** Undefined if there is none; links are not followed. */
  async #root(): Promise<string | undefined> {
    try {
      const root = join(await realpath(this.#runs), liveFolder);
      return (await lstat(root)).isDirectory() ? root : undefined;
    } catch {
      return undefined;
    }
  }
}

async function kept<Document>(
  known: Map<string, Kept<Document>>,
  id: string,
  file: Inside,
  parse: (json: string) => Document,
): Promise<Document> {
  const before = known.get(id);
  if (before?.version === file.version) return before.document;
  const document = parse(await read(file));
  known.set(id, { version: file.version, document });
  return document;
}

/** At most the first `most` bytes. */
async function readBytes({ path, size }: Inside, most: number): Promise<Uint8Array> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(new Uint8Array(Math.min(size, most)), 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

async function read({ path, size }: Inside): Promise<string> {
  if (size > mostBytes) throw new Error(`a file has ${size} bytes, expected at most ${mostBytes}`);
  return await readFile(path, "utf8");
}

function rowOf(id: string, startedAtMs: number, header: LiveHeader, now: LiveNow | undefined): LiveRow {
  const { schema: _, host: __, victims: ___, ...setup } = header;
  const { blocks, blockTokens } = header;
  const { state = "running", ...metrics } = now ?? {};
  return {
    ...{ id, startedAtMs, ...setup, state: isAlive(header) ? state : "killed" },
    capacityTokens: blocks === null ? null : blocks * blockTokens,
    now: now ? (metrics as Omit<LiveNow, "state">) : null,
  };
}

function newestFirst(a: Row, b: Row): number {
  const [startedA, startedB] = [a, b].map((row) => ("problem" in row ? -1 : row.startedAtMs));
  return startedB - startedA || (a.id < b.id ? -1 : 1);
}
