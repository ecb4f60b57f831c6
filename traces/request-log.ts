import type { TraceRow } from "../core/trace/trace.ts";
import { ChatMessages } from "./chat-messages.ts";
import { RandomArrivals } from "./conversation-times.ts";
import type { Notes, TimeUnit } from "./format.ts";
import type { JsonRecord } from "./json-records.ts";
import { loggedRequest } from "./logged-request.ts";
import { numbered } from "./optional-fields.ts";
import { ArrivalClock } from "./requests.ts";
import { SessionIds } from "./sessions.ts";
import { OutputLengths, share, type TextGroup, type TextRequest, tokenized } from "./text-requests.ts";
import type { TextReading } from "./text-source.ts";
import { inTimeOrder, mergedByTime, type Timed } from "./time-order.ts";

/**
 * The requests of logs, or of files of requests for a benchmark, whose prompt is in `field`. Files with times are merged and
 * sorted by them. Requests without times arrive at random.
 */
export async function* loggedRequests(
  { files, records, tokenizer, notes, confirmTimes }: TextReading,
  field: "messages" | "prompt",
  timeUnit: TimeUnit | undefined,
): AsyncGenerator<TraceRow> {
  const log = new RequestLog(field, timeUnit);
  const entries = mergedByTime(files, (file) => log.entries(records(file)));
  const clock = new ArrivalClock(1e3, { isUnitGiven: true });
  const random = new RandomArrivals();
  for await (const { group, rows } of tokenized(inTimeOrder(entries, notes), tokenizer, notes))
    for (const row of rows) {
      const arrivalNs = log.isTimed ? clock.arrivalNs(group.time, "the time in us", group.record) : random.next();
      yield { ...row, arrivalNs };
    }
  if (!log.isTimed) random.note(notes, "requests arrive");
  // Others than Unix times have a note of their own.
  confirmTimes();
  log.note(notes);
}

/** Unix times before 1973 are taken for times since the start of the log. */
const leastUnixUs = 1e14;

interface Entry extends TextGroup, Timed {
  readonly record: JsonRecord;
}

/** The requests of a log. Whether they have times and the text of outputs is decided by the first one. */
class RequestLog {
  readonly #field: "messages" | "prompt";
  readonly #timeUnit: TimeUnit | undefined;
  readonly #messages = new ChatMessages();
  readonly #sessions = new SessionIds();
  readonly #lengths = new OutputLengths();
  /** By model and cache salt: its namespace. */
  readonly #namespaces = new Map<string, number>();
  /** By name. */
  readonly #tools = new Map<string, number>();
  #isTimed: boolean | undefined;
  #hasOutputs: boolean | undefined;
  #requests = 0;
  #withoutOutput = 0;
  #relativeTimes = 0;

  constructor(field: "messages" | "prompt", timeUnit: TimeUnit | undefined) {
    this.#field = field;
    this.#timeUnit = timeUnit;
  }

  get isTimed(): boolean {
    return this.#isTimed === true;
  }

  async *entries(records: AsyncIterable<JsonRecord>): AsyncGenerator<Entry> {
    for await (const record of records) {
      const { time, ...request } = this.#read(record);
      const size = [...request.prompt, request.output ?? ""].reduce((sum, { length }) => sum + length, 0);
      yield { record, time, size, requests: [request] };
    }
  }

  note(notes: Notes): void {
    if (this.#relativeTimes > 0)
      notes.add(
        `times that are not Unix times are read as seconds (--time-unit states another unit): ${share(this.#relativeTimes, this.#requests)}`,
      );
    this.#messages.note(notes);
    this.#lengths.note(notes);
    if (this.#withoutOutput > 0)
      notes.add(
        `requests without an output in the trace are read with 0 output tokens: ${share(this.#withoutOutput, this.#requests)}`,
      );
  }

  #read(record: JsonRecord): TextRequest & { readonly time: number } {
    const { prompt, output, timeUs, ...found } = loggedRequest(record, this.#field, this.#messages, this.#timeUnit);
    this.#isTimed ??= timeUs !== undefined;
    if (this.#isTimed && timeUs === undefined)
      throw record.error("the request has no time, expected one as in the first request");
    this.#hasOutputs ??= output !== undefined;
    if (this.#timeUnit === undefined && timeUs !== undefined && timeUs < leastUnixUs) this.#relativeTimes++;
    this.#requests++;
    if (this.#hasOutputs && output === undefined) this.#withoutOutput++;
    const session = found.session === undefined ? undefined : this.#sessions.numberOf(found.session);
    const namespace = this.#namespaceOf(found.namespace);
    return {
      time: timeUs ?? 0,
      prompt,
      ...(this.#hasOutputs
        ? { output: output ?? "", statedOutputTokens: found.outputTokens }
        : { outputTokens: this.#lengths.of(found.outputTokens ?? found.maxOutputTokens) }),
      statedInputTokens: found.inputTokens,
      maxOutputTokens: found.maxOutputTokens,
      ...(session !== undefined && { session }),
      ...(namespace > 0 && { namespace }),
      ...(found.tool !== undefined && { tool: numbered(this.#tools, found.tool, 1) }),
    };
  }

  /** 0 for the first model, so that a log of one model has no namespaces. */
  #namespaceOf(name: string): number {
    let number = this.#namespaces.get(name);
    if (number === undefined) this.#namespaces.set(name, (number = this.#namespaces.size));
    return number;
  }
}
