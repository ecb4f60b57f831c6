import { nanosPer, type TraceFormat } from "./format.ts";
import type { JsonRecord } from "./json-records.ts";
import { ArrivalClock, mostTokens } from "./requests.ts";
import { SessionIds } from "./sessions.ts";
import { OutputLengths, type TextGroup, type TextRequest, tokenized } from "./text-requests.ts";
import { type TextReading, textSource } from "./text-source.ts";

/**
 * AIBrix's workloads, one time a line: `{"timestamp": ms, "requests": [{"prompt": text, "Prompt Length": tokens, "Output
 * Length": tokens}, …]}`. Newer versions name the lengths `prompt_length` and `output_length` and have a `session_id`.
 */
export const aibrix: TraceFormat = {
  name: "aibrix",
  about: "JSON lines: timestamp (ms) and the prompts of that time as text, with output lengths",
  source: "AIBrix, github.com/vllm-project/aibrix",
  shape: { kinds: ["json-lines"], needs: ["timestamp", "requests[].prompt"] },
  options: ["unitTokens", "timeUnit", "tokenizer"],
  open(files, options) {
    const { timeUnit } = options;
    const clock = () => new ArrivalClock(nanosPer[timeUnit ?? "ms"], { isUnitGiven: timeUnit !== undefined });
    return textSource("aibrix", files, options, (reading) => rowsOf(reading, clock()));
  },
};

interface Line extends TextGroup {
  readonly record: JsonRecord;
}

async function* rowsOf(reading: TextReading, clock: ArrivalClock) {
  for await (const { group, rows } of tokenized(linesOf(reading), reading.tokenizer, reading.notes)) {
    const { record } = group;
    const arrivalNs = clock.arrivalNs(record.number("timestamp", "a number of 0 or more", 0), "timestamp", record);
    for (const row of rows) yield { ...row, arrivalNs };
  }
}

async function* linesOf({ files, records, notes }: TextReading): AsyncGenerator<Line> {
  const sessions = new SessionIds();
  const lengths = new OutputLengths();
  for (const file of files)
    for await (const record of records(file)) {
      const requests = record.records("requests");
      yield { record, requests: requests.map((request) => requestOf(request, sessions, lengths)) };
    }
  lengths.note(notes);
}

function requestOf(record: JsonRecord, sessions: SessionIds, lengths: OutputLengths): TextRequest {
  const [input] = ["Prompt Length", "prompt_length"].filter((name) => record.has(name));
  const [output] = ["Output Length", "output_length"].filter((name) => record.has(name));
  const session = sessions.of(record, "session_id");
  return {
    prompt: [record.text("prompt")],
    outputTokens: lengths.of(output && record.integer(output, 0, mostTokens)),
    ...(input && { statedInputTokens: record.integer(input, 0, mostTokens) }),
    ...(session && { session }),
  };
}
