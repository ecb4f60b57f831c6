import { nanosPer, type TimeUnit, type TraceFormat } from "./format.ts";
import type { JsonRecord } from "./json-records.ts";
import { ArrivalClock } from "./requests.ts";
import { SessionIds } from "./sessions.ts";
import { type TextGroup, tokenized } from "./text-requests.ts";
import { type TextReading, textSource } from "./text-source.ts";
import { inTimeOrder, mergedByTime, type Timed } from "./time-order.ts";

/**
 * LMCache's agent traces, one call of the model a line: `{"timestamp": µs, "input": text, "output": text, "session_id": id}`.
 * The input is the whole prompt. A file has one session, with calls in the order in which they ended; several files are
 * merged by time.
 */
export const agents: TraceFormat = {
  name: "agents",
  about: "JSON lines: timestamp (µs), prompt and output as text, session; several files are merged by time",
  source: "LMCache agent traces, github.com/LMCache/lmcache-agent-trace",
  shape: { kinds: ["json-lines"], needs: ["timestamp", "input", "output", "session_id"] },
  options: ["unitTokens", "timeUnit", "tokenizer"],
  open(files, options) {
    const { timeUnit } = options;
    return textSource("agents", files, options, (reading) => rowsOf(reading, timeUnit));
  },
};

async function* rowsOf(reading: TextReading, timeUnit: TimeUnit | undefined) {
  const { files, tokenizer, notes } = reading;
  const nanosPerUnit = nanosPer[timeUnit ?? "us"];
  const clock = new ArrivalClock(nanosPerUnit, { isUnitGiven: timeUnit !== undefined });
  const sessions = new SessionIds();
  const calls = mergedByTime(files, (file) => callsOf(reading.records(file), sessions));
  for await (const { group, rows } of tokenized(inTimeOrder(calls, notes), tokenizer, notes)) {
    if (group.time * nanosPerUnit >= leastUnixNs) reading.confirmTimes();
    const arrivalNs = clock.arrivalNs(group.time, "timestamp", group.record);
    for (const row of rows) yield { ...row, arrivalNs };
  }
}

/** Unix times from 2001 on. */
const leastUnixNs = 1e18;

interface Call extends TextGroup, Timed {
  readonly record: JsonRecord;
}

async function* callsOf(records: AsyncIterable<JsonRecord>, sessions: SessionIds): AsyncGenerator<Call> {
  for await (const record of records) {
    const input = record.text("input");
    const output = record.text("output");
    const session = sessions.of(record, "session_id");
    yield {
      ...{ record, time: record.number("timestamp", "a number of 0 or more", 0), size: input.length + output.length },
      requests: [{ prompt: [input], output, ...(session && { session }) }],
    };
  }
}
