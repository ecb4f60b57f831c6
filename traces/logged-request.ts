import type { ChatMessages } from "./chat-messages.ts";
import { type ChatMessage, chatPrompt } from "./chat-prompt.ts";
import type { TimeUnit } from "./format.ts";
import type { JsonRecord } from "./json-records.ts";
import { recordedTimeUs } from "./recorded-time.ts";
import { mostTokens } from "./requests.ts";

/** Objects in which an object of a log may have its request; empty for the object itself. */
const places = ["", "body", "request", "request.body", "input"];
/** Paths of a field of the request, for the recognition of the format. */
export const requestPaths = (field: string) => places.map((place) => (place === "" ? field : `${place}.${field}`));

const timeFields = ["timestamp", "created_at", "created", "time", "start_time", "request_time"];
const sessionFields = ["session_id", "conversation_id"];
const lengthFields = ["output_tokens", "expected_output_len"];
const limitFields = ["max_completion_tokens", "max_tokens"];
const responseFields = ["response", "output", "completion"];

/** One object of a log. Lengths are those that the file states. */
export interface LoggedRequest {
  /** Texts of the prompt; see `TextRequest`. */
  readonly prompt: readonly string[];
  /** Text of the output; undefined if the object has none. */
  readonly output: string | undefined;
  readonly timeUs: number | undefined;
  readonly inputTokens: number | undefined;
  readonly outputTokens: number | undefined;
  readonly maxOutputTokens: number | undefined;
  /** Id of the conversation. */
  readonly session: string | undefined;
  /** Name of the first tool that the response calls; undefined if it calls none. */
  readonly tool: string | undefined;
  /** Model and cache salt: requests in which they differ share no content. */
  readonly namespace: string;
}

/** Reads a request, with its response if the object has it. @throws TraceError */
export function loggedRequest(
  record: JsonRecord,
  field: "messages" | "prompt",
  texts: ChatMessages,
  timeUnit: TimeUnit | undefined,
): LoggedRequest {
  const body = bodyOf(record, field);
  const response = responseOf(record);
  const responded = responseText(record, response, texts);
  const usage = response?.optionalRecord("usage") ?? record.optionalRecord("usage");
  return {
    ...(field === "prompt"
      ? { prompt: [body.text("prompt")], output: responded }
      : promptAndOutput(texts.of(body), responded)),
    timeUs: firstOf([record, body, response], timeFields, (place, name) => recordedTimeUs(place, name, timeUnit)),
    inputTokens: firstOf([usage], ["prompt_tokens"], tokens),
    outputTokens: firstOf([usage], ["completion_tokens"], tokens) ?? firstOf([record, body], lengthFields, tokens),
    maxOutputTokens: firstOf([body], limitFields, tokens),
    session: firstOf(
      [record, body, record.optionalRecord("metadata"), body.optionalRecord("metadata")],
      sessionFields,
      (place, name) => JSON.stringify(place.value(name)),
    ),
    tool: calledTool(response),
    namespace: JSON.stringify([body.value("model") ?? null, body.value("cache_salt") ?? null]),
  };
}

/** Without a response, an assistant's message at the end is the output. */
function promptAndOutput(messages: readonly ChatMessage[], responded: string | undefined) {
  const last = messages.at(-1);
  if (responded !== undefined || last?.role !== "assistant") return { prompt: chatPrompt(messages), output: responded };
  return { prompt: chatPrompt(messages.slice(0, -1)), output: last.content };
}

const tokens = (place: JsonRecord, field: string) => place.integer(field, 0, mostTokens);

/** Reads the first of the fields that one of the objects has. */
function firstOf<T>(
  objects: readonly (JsonRecord | undefined)[],
  fields: readonly string[],
  read: (place: JsonRecord, field: string) => T,
): T | undefined {
  for (const place of objects) for (const field of fields) if (place?.has(field)) return read(place, field);
  return undefined;
}

/** The object that has the request. */
function bodyOf(record: JsonRecord, field: string): JsonRecord {
  for (const path of places) {
    const names = path === "" ? [] : path.split(".");
    const place = names.reduce((within: JsonRecord | undefined, name) => within?.optionalRecord(name), record);
    if (place?.has(field)) return place;
  }
  throw record.error(`${field} is missing, expected ${field === "prompt" ? "a string" : "an array of messages"}`);
}

/** The object that has the response's `choices` or is its message: the record itself or an object in it. */
function responseOf(record: JsonRecord): JsonRecord | undefined {
  if (record.has("choices")) return record;
  for (const field of responseFields) {
    const response = record.optionalRecord(field);
    if (response) return response.optionalRecord("body") ?? response;
  }
  return undefined;
}

function calledTool(response: JsonRecord | undefined): string | undefined {
  const message = response?.has("choices") ? response.records("choices")[0]?.optionalRecord("message") : response;
  const [call] = message?.has("tool_calls") ? message.records("tool_calls") : [];
  const named = call?.optionalRecord("function") ?? call?.optionalRecord("custom");
  return call && JSON.stringify(named?.value("name") ?? null);
}

/** The text of the first choice; undefined without a response. */
function responseText(record: JsonRecord, response: JsonRecord | undefined, texts: ChatMessages): string | undefined {
  if (!response) return firstOf([record], responseFields, (place, field) => place.text(field));
  if (!response.has("choices")) return response.has("content") ? texts.text(response) : undefined;
  const [choice] = response.records("choices");
  if (!choice) return undefined;
  const message = choice.optionalRecord("message");
  return message ? texts.text(message) : choice.text("text");
}
