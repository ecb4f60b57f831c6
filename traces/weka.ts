import { InputError, TraceError } from "../core/errors.ts";
import { seededRandom } from "../core/random.ts";
import { type Trace, TraceBuilder } from "../core/trace/trace.ts";
import { shownPath } from "./bytes.ts";
import { Notes, type TraceFormat } from "./format.ts";
import { JsonLineScanner } from "./json-lines.ts";
import { JsonRecord, repeatedName } from "./json-record.ts";
import { lineBlocks } from "./lines.ts";
import { withRateNotes } from "./rates.ts";
import { mostTokens } from "./requests.ts";
import { type WekaRequest, WekaSessions } from "./weka-sessions.ts";

const mostSeconds = 90 * 86_400;
const seconds = `a number of seconds from 0 to ${mostSeconds}`;
const ids = "integers from 0 to 4294967294";

/**
 * Sessions of coding agents, one session a line: `{"id", "block_size", "scope": "local", "requests": [{"t": s, "in", "out",
 * "think": s, "ranges": [[first, count], …]}]}`, or with `hash_ids` instead of `ranges`. An id identifies a block and all
 * blocks before it, within its session. A partial last block has no id. Requests of a sub-agent are nested in an entry
 * of their session, with times from its start.
 *
 * All sessions start at time 0, or spread over a time by a seed. Their requests are merged by arrival, ties in file order;
 * until then they are in memory, as ranges.
 */
export const weka: TraceFormat = {
  name: "weka",
  about: "JSON lines: sessions of coding agents with sub-agents, content ids as ranges or lists",
  source: "WEKA's agent traces, github.com/callanjfox/kv-cache-tester",
  shape: {
    kinds: ["json-lines"],
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
      batches: () => withRateNotes(read(), files, notes),
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
    const scan = new JsonLineScanner({});
    let any = false;
    for await (const block of lineBlocks(file, signal)) {
      while (block.next()) {
        scan.begin(block);
        if (scan.isBlank) continue;
        const invalid = scan.invalid();
        if (invalid) throw invalid;
        this.#session(block.text(), `${shownPath(file)}:${block.line}`);
        any = true;
      }
    }
    if (!any) throw new TraceError(`${shownPath(file)}: no requests, only blank lines`);
  }

  #session(text: string, at: string): void {
    const session = new JsonRecord(JSON.parse(text), at);
    const twice = repeatedName(text);
    if (twice !== undefined) throw new TraceError(`${at}: ${twice} is there twice, expected it once`);
    this.#checkUnit(session);
    const scope = session.has("scope") ? "scope" : "hash_id_scope";
    if (session.text(scope) !== "local") throw session.unexpected(scope, '"local": ids of one session');
    this.sessions.begin(at);
    let last = 0;
    session.array("requests").forEach((entry, i) => {
      const path = `requests[${i}]`;
      const record = new JsonRecord(entry, at, path);
      const t = record.number("t", 0, mostSeconds, seconds);
      if (t < last) throw record.error(`t is ${t}, expected at least ${last}, the time of the request before`);
      last = t;
      if (record.has("requests")) this.#subAgent(record, t, at, path);
      else this.sessions.add(this.#request(record, t), false);
    });
  }

  #subAgent(agent: JsonRecord, startS: number, at: string, path: string): void {
    let last = 0;
    this.sessions.beginSubAgent();
    agent.array("requests").forEach((entry, i) => {
      const record = new JsonRecord(entry, at, `${path}.requests[${i}]`);
      const t = record.number("t", 0, mostSeconds, seconds);
      if (t < last) throw record.error(`t is ${t}, expected at least ${last}, the time of the request before`);
      last = t;
      this.sessions.add(this.#request(record, startS + t), true);
    });
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
    const thinkS = record.has(thinkName) ? record.number(thinkName, 0, mostSeconds, seconds) : undefined;
    const ranges = record.has("ranges") ? rangesOf(record) : rangesOfIds(record);
    const blocks = ranges.reduce((sum, each, i) => (i % 2 === 1 ? sum + each : sum), 0);
    const expected = Math.floor(inputTokens / this.unitTokens);
    if (blocks !== expected)
      throw record.error(
        `has ids of ${blocks} blocks, expected ${expected}: in is ${inputTokens}, in whole blocks of ${this.unitTokens}`,
      );
    return { arrivalS, inputTokens, outputTokens: record.integer("out", 0, mostTokens), thinkS, ranges };
  }
}

const isId = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0;
const mostId = 2 ** 32 - 2;

/** First id and count of each range. */
function rangesOf(record: JsonRecord): number[] {
  const flat: number[] = [];
  for (const range of record.array("ranges", "an array of [first id, count]")) {
    const [first, count] = Array.isArray(range) ? range : [];
    const isRange = Array.isArray(range) && range.length === 2 && isId(first) && isId(count) && count >= 1;
    if (!isRange || first + count - 1 > mostId)
      throw record.unexpected("ranges", `pairs of first id and count, with ${ids}`);
    flat.push(first, count);
  }
  return flat;
}

/** The ids as ranges of consecutive ones. */
function rangesOfIds(record: JsonRecord): number[] {
  const flat: number[] = [];
  let next = -1;
  for (const id of record.array("hash_ids", `an array of ${ids}`)) {
    if (!isId(id) || id > mostId) throw record.unexpected("hash_ids", ids);
    if (id === next) flat[flat.length - 1]++;
    else flat.push(id, 1);
    next = id + 1;
  }
  return flat;
}
