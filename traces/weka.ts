import { counted } from "../core/counted.ts";
import { InputError } from "../core/errors.ts";
import { seededRandom } from "../core/random.ts";
import { type Trace, TraceBuilder } from "../core/trace/trace.ts";
import { openBytes, shownPath } from "./bytes.ts";
import { Notes, type TraceFormat } from "./format.ts";
import { type JsonRecord, jsonRecords } from "./json-records.ts";
import { withRateNotes } from "./rates.ts";
import { mostTokens } from "./requests.ts";
import { type WekaRequest, WekaSessions } from "./weka-sessions.ts";

const mostSeconds = 90 * 86_400;
const seconds = `a number of seconds from 0 to ${mostSeconds}`;
const ids = "integers from 0 to 4294967294";

/**
 * Sessions of coding agents, one session a line or a file: `{"id", "block_size", "scope": "local", "requests": [{"t": s, "in", "out",
 * "think": s, "ranges": [[first, count], …]}]}`, or with `hash_ids` instead of `ranges`. An id identifies a block and all
 * blocks before it, within its session. A partial last block has no id. Requests of a sub-agent are nested in an entry
 * of their session, with times from its start.
 *
 * All sessions start at time 0, or spread over a time by a seed. Their requests are merged by arrival, ties in file order;
 * until then they are in memory, as ranges.
 */
export const weka: TraceFormat = {
  name: "weka",
  about: "JSON: sessions of coding agents with sub-agents, content ids as ranges or lists",
  source: "WEKA's agent traces, github.com/callanjfox/kv-cache-tester",
  shape: {
    kinds: ["json-lines", "json-object", "json-array"],
    needs: ["id", "block_size", ["scope", "hash_id_scope"], "requests", ["requests[].ranges", "requests[].hash_ids"]],
  },
  options: ["sessionSpread"],
  open(files, { unitTokens, sessionSpread, signal }) {
    if (sessionSpread !== undefined && !(sessionSpread.seconds >= 0 && sessionSpread.seconds <= mostSeconds))
      throw new InputError(`session spread is ${sessionSpread.seconds}, expected ${seconds}`);
    const notes = new Notes();
    const read = async function* (): AsyncGenerator<Trace> {
      const reader = new WekaReader(unitTokens);
      for (const file of files) await reader.read(file, signal);
      const { count } = reader.sessions;
      if (!sessionSpread && count > 1)
        notes.add(
          `${files.map(shownPath).join(", ")}: ${counted(count, "session")} without start times all start at 0; ` +
            "--session-spread SECONDS starts them at random times",
        );
      const random = seededRandom(sessionSpread?.seed ?? 1);
      const spread = sessionSpread?.seconds ?? 0;
      const builder = new TraceBuilder(reader.unitTokens);
      for (const row of reader.sessions.rows(() => Math.floor(random.unit() * spread * 1e9))) {
        builder.add(row);
        if (builder.isFull) {
          signal?.throwIfAborted();
          yield builder.take();
        }
      }
      if (builder.requestCount > 0) yield builder.take();
    };
    return {
      format: "weka",
      files,
      content: "blocks",
      notes: notes.all,
      batches: () => withRateNotes(read(), files, notes, sessionSpread ? undefined : "sessionSpread"),
    };
  },
};

class WekaReader {
  readonly sessions = new WekaSessions();
  readonly #givenUnit: number | undefined;
  #unitTokens: number | undefined;

  constructor(givenUnit: number | undefined) {
    this.#givenUnit = givenUnit;
  }

  get unitTokens(): number {
    return this.#unitTokens ?? 64;
  }

  async read(file: string, signal: AbortSignal | undefined): Promise<void> {
    const source = await openBytes(file, { signal });
    try {
      for await (const session of jsonRecords(shownPath(file), source, signal)) this.#session(session);
    } finally {
      await source.close();
    }
  }

  #session(session: JsonRecord): void {
    this.#checkUnit(session);
    const scope = session.has("scope") ? "scope" : "hash_id_scope";
    if (session.text(scope) !== "local") throw session.unexpected(scope, '"local": ids of one session');
    this.sessions.begin(session.place);
    for (const { record, t } of inOrder(session.records("requests"))) {
      if (!record.has("requests")) {
        this.sessions.add(this.#request(record, t), false);
        continue;
      }
      this.sessions.beginSubAgent();
      for (const nested of inOrder(record.records("requests")))
        this.sessions.add(this.#request(nested.record, t + nested.t), true);
    }
  }

  #checkUnit(session: JsonRecord): void {
    const unit = session.integer("block_size", 2, mostTokens);
    const expected = this.#givenUnit ?? this.#unitTokens ?? unit;
    if (unit !== expected) throw session.unexpected("block_size", `${expected}, as before or as given with --unit`);
    this.#unitTokens = unit;
  }

  #request(record: JsonRecord, arrivalS: number): WekaRequest {
    const inputTokens = record.integer("in", 1, mostTokens);
    const thinkName = record.has("think") ? "think" : "think_time";
    const thinkS = record.has(thinkName) ? secondsOf(record, thinkName) : undefined;
    const ranges = record.has("ranges") ? rangesOf(record) : rangesOfIds(record);
    const blocks = ranges.reduce((sum, each, i) => (i % 2 === 1 ? sum + each : sum), 0);
    const expected = Math.floor(inputTokens / this.unitTokens);
    if (blocks !== expected)
      throw record.unexpected(
        "in",
        `${blocks} whole blocks of ${this.unitTokens} tokens, as many as the request has ids`,
      );
    const callsTool = record.has("stop") ? record.value("stop") === "tool_use" : undefined;
    const outputTokens = record.integer("out", 0, mostTokens);
    return { arrivalS, inputTokens, outputTokens, thinkS, callsTool, ranges };
  }
}

/** Requests with their times. @throws TraceError if the times decrease */
function* inOrder(records: readonly JsonRecord[]): Generator<{ readonly record: JsonRecord; readonly t: number }> {
  let last = 0;
  for (const record of records) {
    const t = secondsOf(record, "t");
    if (t < last) throw record.unexpected("t", `at least ${last}, the time of the request before`);
    last = t;
    yield { record, t };
  }
}

function secondsOf(record: JsonRecord, name: string): number {
  const value = record.number(name, seconds, 0);
  if (value > mostSeconds) throw record.unexpected(name, seconds);
  return value;
}

const isId = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0;
const mostId = 2 ** 32 - 2;

/** First id and count of each range. */
function rangesOf(record: JsonRecord): number[] {
  const expected = `pairs of first id and count, with ${ids}`;
  const flat: number[] = [];
  const ranges = record.value("ranges");
  if (!Array.isArray(ranges)) throw record.unexpected("ranges", expected);
  for (const range of ranges) {
    const [first, count] = Array.isArray(range) ? range : [];
    const isRange = Array.isArray(range) && range.length === 2 && isId(first) && isId(count) && count >= 1;
    if (!isRange || first + count - 1 > mostId) throw record.unexpected("ranges", expected);
    flat.push(first, count);
  }
  return flat;
}

/** The ids as ranges of consecutive ones. */
function rangesOfIds(record: JsonRecord): number[] {
  const flat: number[] = [];
  let next = -1;
  const list = record.value("hash_ids");
  if (!Array.isArray(list)) throw record.unexpected("hash_ids", `an array of ${ids}`);
  for (const id of list) {
    if (!isId(id) || id > mostId) throw record.unexpected("hash_ids", `an array of ${ids}`);
    if (id === next) flat[flat.length - 1]++;
    else flat.push(id, 1);
    next = id + 1;
  }
  return flat;
}
