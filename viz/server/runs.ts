import { readdir, readFile, realpath, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { z } from "zod";
import type { BrokenRun, ListedRun, RunDetail, RunList, RunNotes, RunNotesChange, RunRow } from "../api.ts";
import { childOf, type Inside, isChildName, versionOf } from "./inside.ts";
import { targetName } from "./live-format.ts";
import { Notes } from "./notes.ts";
import { Refusal } from "./refusal.ts";
import { SettingNumbers, settingsOf } from "./settings.ts";

const distribution = z.looseObject({ p50: z.number(), p99: z.number() }).nullable();

export const name = z.string().max(1000);

/** Values by definition of the hit ratio. */
export const byDefinition = <Value extends z.ZodType>(value: Value) =>
  z
    .custom((values) => Object.keys(Object(values)).length <= 100, { error: "has over 100 definitions" })
    .pipe(z.record(name, value));

const interval = z.object({ value: z.number(), low: z.number(), high: z.number() });

/** The fields of a report (schema run/1) that the list needs, of limited length. */
const listed = z.looseObject({
  schema: z.literal("run/1"),
  trace: z.looseObject({
    files: z.array(z.string().max(4096)).max(10_000),
    format: name,
    requests: z.int().nonnegative(),
  }),
  policy: z.looseObject({
    preset: name.nullable(),
    index: name,
    eviction: name,
    allocator: name,
    scheduler: name,
    blockTokens: z.int().positive(),
    blocks: z.int().positive().nullable(),
  }),
  target: targetName,
  cache: z.looseObject({
    hitRatio: byDefinition(z.number().min(0).max(1).nullable()),
    hitTokens: z.number().default(0),
    lookupTokens: z.number().default(0),
    refusedRequests: z.int().nonnegative().optional(),
    missTokens: byDefinition(z.number()).optional(),
  }),
  uncertainty: z.looseObject({ metric: name, gainOverLru: interval, behindBest: interval }).optional(),
  simulation: z.looseObject({ kvBytesPerToken: z.number().nullish() }).nullish(),
  engine: z.looseObject({ kvBytesPerToken: z.number().nullish() }).nullish(),
  offlineBound: z.looseObject({ gapClosed: byDefinition(z.number().nullable()) }).optional(),
  latency: z
    .looseObject({
      ttftMs: distribution,
      tpotMs: distribution.optional(),
      e2eMs: distribution,
      queueMs: distribution.optional(),
    })
    .nullable(),
  throughput: z.looseObject({ requestsPerS: z.number(), outputTokensPerS: z.number().optional() }).nullable(),
  load: z.looseObject({ offeredRequestsPerS: z.number().nullish(), limitedBy: name.nullish() }).nullish(),
  slo: z.looseObject({ attained: z.number().nullish(), goodputRequestsPerS: z.number().nullish() }).nullish(),
  cluster: z
    .looseObject({
      replicas: z.array(z.looseObject({ utilisation: z.number().nullish() })),
      imbalance: z.number().nullish(),
    })
    .nullish(),
  refusals: byDefinition(z.number()).optional(),
  interrupted: z.looseObject({}).optional(),
  command: z.string().max(100_000).default(""),
});
type Listed = z.infer<typeof listed>;

const mostReportBytes = 16 * 2 ** 20;
/** Limit of a report's nesting, far above that of any real one; a deeper one could not be serialised. */
const deepest = 64;

/** A row with the version of its report and the notes that it was made of. `read`: the row without notes. */
interface KnownRow {
  readonly version: string;
  readonly notes: RunNotes | undefined;
  readonly read: RunRow | BrokenRun;
  readonly row: RunRow | BrokenRun;
}

const withNotes = (row: RunRow, notes: RunNotes | undefined): RunRow => (notes === undefined ? row : { ...row, notes });

/** Rows of readable runs are kept while they do not change. */
const areSame = (rows: readonly (RunRow | BrokenRun)[], others: readonly (RunRow | BrokenRun)[]) =>
  rows.length === others.length &&
  rows.every((row, i) => {
    const other = others[i];
    return (
      row === other || ("problem" in row && "problem" in other && row.id === other.id && row.problem === other.problem)
    );
  });

/** Number of folders that are read concurrently. */
const atOnce = 32;

/** The folder of saved runs. Hidden folders are being written; a folder without a complete run is listed as broken. */
export class Runs {
  readonly folder: string;
  readonly notes: Notes;
  readonly #rows = new Map<string, KnownRow>();
  readonly #settings = new SettingNumbers();
  readonly #listedRows = new WeakMap<RunRow, ListedRun>();
  #listed: readonly (RunRow | BrokenRun)[] | undefined;
  #listedStamp = "";
  #text: { readonly rows: unknown; readonly exists: boolean; readonly json: string } | undefined;
  #check: Promise<unknown> | undefined;
  #changes = 0;

  constructor(folder: string) {
    this.folder = folder;
    this.notes = new Notes(folder);
  }

  /** The response to GET /api/runs, as JSON: of the last list, if the folder has not changed since. */
  async listed(): Promise<string> {
    const rows = await this.#latest();
    const exists = (await this.#root()) !== undefined;
    if (this.#text?.rows === rows && this.#text.exists === exists) return this.#text.json;
    const runs = rows.map((row) => ("problem" in row ? row : this.#numbered(row)));
    const list: RunList = {
      ...{ schema: "runs/1", runs, folder: { path: this.folder, exists }, settings: this.#settings.all },
    };
    const json = JSON.stringify(list);
    this.#text = { rows, exists, json };
    return json;
  }

  /**
   * The last list, if neither the folder nor the notes have changed since. A report that was changed in place is found by a
   * check that follows, which counts as a change.
   */
  async #latest(): Promise<readonly (RunRow | BrokenRun)[]> {
    if (this.#listed === undefined || this.#listedStamp !== (await this.stamp())) return await this.list();
    this.#check ??= this.list()
      .catch(() => {})
      .finally(() => {
        this.#check = undefined;
      });
    return this.#listed;
  }

  #numbered(row: RunRow): ListedRun {
    const known = this.#listedRows.get(row);
    if (known) return known;
    const settings = Object.entries(row.settings).map(([name, value]) => this.#settings.numberOf(name, value));
    const listedRow = { ...row, settings };
    this.#listedRows.set(row, listedRow);
    return listedRow;
  }

  /** The newest first, broken ones last. */
  async list(): Promise<readonly (RunRow | BrokenRun)[]> {
    const stamp = await this.stamp();
    const root = await this.#root();
    const ids = root === undefined ? [] : await foldersIn(root);
    await this.notes.refresh();
    const present = new Set(ids);
    for (const id of this.#rows.keys()) if (!present.has(id)) this.#rows.delete(id);
    const rows: (RunRow | BrokenRun)[] = [];
    for (let at = 0; at < ids.length; at += atOnce)
      for (const row of await Promise.all(ids.slice(at, at + atOnce).map((id) => this.#row(root!, id))))
        if (row !== undefined) rows.push(row);
    rows.sort(newestFirst);
    this.#listedStamp = stamp;
    if (this.#listed !== undefined && areSame(rows, this.#listed)) return this.#listed;
    if (this.#listed !== undefined) this.#changes++;
    this.#listed = rows;
    return rows;
  }

  /** Number of times that the list has changed: a run was added, removed, replaced, or its notes were changed. */
  get changes(): number {
    return this.#changes;
  }

  /** @throws Refusal if there is no such run */
  async detail(id: string): Promise<RunDetail> {
    const folder = await this.#whole(id);
    const found = await childOf(folder.path, "run.json", "file");
    if (!found) throw new Refusal(404, `run ${shown(id)} has no run.json`);
    try {
      const report = await readReport(found);
      const { command, ...saved } = report;
      const files = (await readdir(folder.path)).filter((name) => isChildName(name)).sort();
      await this.notes.refresh();
      return { row: withNotes(rowOf(id, report, found.mtimeMs), this.notes.of(id)), report: saved, command, files };
    } catch (error) {
      throw new Refusal(422, `run ${shown(id)}: ${oneLine(error)}`);
    }
  }

  /** Changes the notes of a run. @throws Refusal if there is no such run, or they cannot be written */
  async annotate(id: string, change: RunNotesChange): Promise<RunNotes> {
    const changed = await this.row(id);
    this.#listedStamp = "";
    await this.notes.change(id, change);
    if (change.baseline)
      for (const row of await this.list())
        if (!("problem" in row) && row.id !== id && row.notes?.baseline && areOfOneWorkload(row, changed))
          await this.notes.change(row.id, { baseline: false });
    this.#listedStamp = "";
    return this.notes.of(id) ?? {};
  }

  /** The row of a run. @throws Refusal if there is no such run or it cannot be read */
  async row(id: string): Promise<RunRow> {
    await this.#whole(id);
    const row = await this.#row((await this.#root())!, id);
    if (!row || "problem" in row) throw new Refusal(422, `run ${shown(id)} cannot be read`);
    return row;
  }

  /** A file of a run; undefined if the run has none of this name. @throws Refusal if there is no such run */
  async file(id: string, name: string): Promise<Inside | undefined> {
    return await childOf((await this.#whole(id)).path, name, "file");
  }

  /** The folders with a saved file that is not that of a run. */
  async foldersWith(name: "curves.json" | "size.json"): Promise<{ readonly id: string; readonly file: Inside }[]> {
    const root = await this.#root();
    const found: { id: string; file: Inside }[] = [];
    for (const id of root === undefined ? [] : await foldersIn(root)) {
      const folder = await childOf(root!, id, "folder");
      const file = folder && (await childOf(folder.path, name, "file"));
      if (file) found.push({ id, file });
    }
    return found;
  }

  /** Changes when the list may have changed; cheap to compute. */
  async stamp(): Promise<string> {
    const found = await stat(this.folder, { bigint: true }).catch(() => undefined);
    return found ? `${found.ino} ${found.mtimeNs} ${await this.notes.stamp()}` : "";
  }

  async #whole(id: string): Promise<Inside> {
    const root = await this.#root();
    const folder = root === undefined ? undefined : await childOf(root, id, "folder");
    if (!folder) throw new Refusal(404, `there is no run ${shown(id)}`);
    return folder;
  }

  /** Undefined for a folder of curves, of a sizing, or of a sweep, whose runs a dashboard of that folder shows. */
  async #row(root: string, id: string): Promise<RunRow | BrokenRun | undefined> {
    const same = this.#rows.get(id);
    if (same && same.notes === this.notes.of(id) && same.version === (await versionOf(join(root, id, "run.json"))))
      return same.row;
    const folder = await childOf(root, id, "folder");
    if (!folder) return { id, problem: "cannot be read, or is a link that leads out of the folder of runs" };
    const found = await childOf(folder.path, "run.json", "file");
    if (!found) {
      for (const other of ["curves.json", "size.json", "sweep.json"])
        if (await childOf(folder.path, other, "file")) return undefined;
      return { id, problem: "has no run.json" };
    }
    const known = this.#rows.get(id);
    const notes = this.notes.of(id);
    if (known?.version === found.version && known.notes === notes) return known.row;
    const read = known?.version === found.version ? known.read : await readRow(id, found);
    const row = "problem" in read ? read : withNotes(read, notes);
    this.#rows.set(id, { version: found.version, read, notes, row });
    return row;
  }

  /** Undefined if nothing has been saved yet. */
  async #root(): Promise<string | undefined> {
    return await realpath(this.folder).catch(() => undefined);
  }
}

/** Folders and links, which may point to a folder; a run that is being written is hidden. */
async function foldersIn(root: string): Promise<string[]> {
  const entries = await readdir(root, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => isChildName(entry.name) && (entry.isDirectory() || entry.isSymbolicLink()))
    .map(({ name }) => name);
}

async function readRow(id: string, found: Inside): Promise<RunRow | BrokenRun> {
  try {
    return rowOf(id, await readReport(found), found.mtimeMs);
  } catch (error) {
    return { id, problem: oneLine(error) };
  }
}

async function readReport({ path, size }: Inside): Promise<Listed> {
  if (size > mostReportBytes) throw new Error(`run.json has ${size} bytes, expected at most ${mostReportBytes}`);
  const parsed = listed.safeParse(parseJson(await readFile(path, "utf8")));
  if (parsed.success) return parsed.data;
  const [{ path: field, message }] = parsed.error.issues;
  throw new Error(`run.json is not the report of a run: ${field.join(".") || "document"}: ${message}`);
}

function parseJson(text: string): unknown {
  if (isDeeper(text, deepest))
    throw new Error(`run.json is not the report of a run: it is nested over ${deepest} deep`);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`run.json is not valid JSON: ${oneLine(error)}`);
  }
}

/** Whether brackets outside strings are nested deeper than this. */
function isDeeper(json: string, most: number): boolean {
  let depth = 0;
  let isText = false;
  for (let i = 0; i < json.length; i++) {
    const sign = json[i];
    if (isText) {
      if (sign === "\\") i++;
      else isText = sign !== '"';
    } else if (sign === '"') isText = true;
    else if (sign === "[" || sign === "{") {
      if (++depth > most) return true;
    } else if (sign === "]" || sign === "}") depth--;
  }
  return false;
}

function rowOf(id: string, report: Listed, savedAtMs: number): RunRow {
  const { trace, policy, target, cache, uncertainty, offlineBound, interrupted } = report;
  const bytes = report.simulation?.kvBytesPerToken ?? report.engine?.kvBytesPerToken;
  const { preset, index, eviction, allocator, scheduler, blocks, blockTokens } = policy;
  const ratios = Object.entries(cache.hitRatio).filter((entry): entry is [string, number] => entry[1] !== null);
  return {
    ...{ id, savedAtMs, target, trace: traceName(trace.files), requests: trace.requests },
    ...{ preset, index, eviction, allocator, scheduler, blocks, blockTokens },
    capacityTokens: blocks === null ? null : blocks * blockTokens,
    hitRatio: Object.fromEntries(ratios),
    ...(offlineBound && { gapClosed: offlineBound.gapClosed }),
    ...(cache.missTokens && { missTokens: aboveZero(cache.missTokens) }),
    ...(cache.refusedRequests && { refused: cache.refusedRequests }),
    ...(cache.refusedRequests && report.refusals && { refusals: report.refusals }),
    ...(uncertainty && {
      uncertainty: {
        metric: uncertainty.metric,
        gainOverLru: uncertainty.gainOverLru,
        behindBest: uncertainty.behindBest,
      },
    }),
    ...{ hitTokens: cache.hitTokens, lookupTokens: cache.lookupTokens },
    ...(bytes && { kvBytesPerToken: bytes }),
    ...timesOf(report),
    settings: Object.fromEntries(settingsOf(report)),
    ...(interrupted && { interrupted: true }),
  };
}

const aboveZero = (counts: Readonly<Record<string, number>>) =>
  Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0));

/** Latencies, throughput and load of a run with a clock. */
function timesOf({ latency, throughput, load, slo, cluster }: Listed): Partial<RunRow> {
  const busy = (cluster?.replicas ?? []).flatMap(({ utilisation }) => utilisation ?? []);
  const values = {
    ...{ requestsPerS: throughput?.requestsPerS, outputTokensPerS: throughput?.outputTokensPerS },
    offeredRequestsPerS: load?.offeredRequestsPerS,
    ...{ ttftMsP50: latency?.ttftMs?.p50, ttftMsP99: latency?.ttftMs?.p99 },
    ...{ tpotMsP50: latency?.tpotMs?.p50, tpotMsP99: latency?.tpotMs?.p99 },
    latencyMsP50: latency?.e2eMs?.p50,
    ...{ queueMsP50: latency?.queueMs?.p50, queueMsP99: latency?.queueMs?.p99 },
    ...{ goodputRequestsPerS: slo?.goodputRequestsPerS, sloAttained: slo?.attained },
    utilisation: busy.length > 0 ? busy.reduce((sum, each) => sum + each, 0) / busy.length : undefined,
    imbalance: busy.length > 1 ? cluster?.imbalance : undefined,
    limitedBy: load?.limitedBy,
  };
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined && value !== null));
}

/** Request ids are comparable only between runs of one trace. @throws Refusal */
export function checkSameTrace(a: RunRow, b: RunRow): void {
  if (a.trace !== b.trace) throw new Refusal(409, `the runs are of different traces: ${a.trace} and ${b.trace}`);
}

const areOfOneWorkload = (a: RunRow, b: RunRow) =>
  a.trace === b.trace && a.requests === b.requests && a.target === b.target;

/** Short name of the trace, from its first file. */
export function traceName([first, ...others]: readonly string[]): string {
  if (first === undefined) return "example";
  const name = basename(first)
    .replace(/\.gz$/, "")
    .replace(/\.[a-z]+$/i, "");
  return others.length === 0 ? name : `${name}+${others.length}`;
}

function newestFirst(a: RunRow | BrokenRun, b: RunRow | BrokenRun): number {
  const [savedA, savedB] = [a, b].map((row) => ("problem" in row ? -1 : row.savedAtMs));
  return savedB - savedA || (a.id < b.id ? -1 : 1);
}

/** A name from a client, on one line. */
const shown = (id: string) => JSON.stringify(id.length > 100 ? `${id.slice(0, 100)}…` : id);

export const oneLine = (error: unknown) =>
  (error instanceof Error ? error.message : String(error)).replace(/\s*\n\s*/g, " ");
