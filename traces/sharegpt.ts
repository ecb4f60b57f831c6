import { type ChatMessage, chatPrompt } from "./chat-prompt.ts";
import { withArrivalTimes } from "./conversation-times.ts";
import type { TraceFormat } from "./format.ts";
import type { JsonRecord } from "./json-records.ts";
import { share, type TextGroup, type TextRequest, tokenized } from "./text-requests.ts";
import { type TextReading, textSource } from "./text-source.ts";

const lists = ["conversations", "conversation"];
const authors = ["from", "role"];
const contents = ["value", "content"];

/**
 * ShareGPT's conversations: `[{"id": id, "conversations": [{"from": "human" | "gpt" | …, "value": text}, …]}, …]`, as one
 * array or one conversation a line; also with the names `conversation`, `role` and `content`, as in SGLang's custom data
 * sets. Each message of the user is a request, with all messages before it in the prompt. The next message is the output if
 * it is the assistant's.
 */
export const sharegpt: TraceFormat = {
  name: "sharegpt",
  about: "a JSON array or JSON lines of conversations; each message of the user is a request with the history",
  source: "ShareGPT, as in the benchmarks of vLLM and SGLang",
  shape: { kinds: ["json-array", "json-lines", "json-object"], needs: [lists] },
  options: ["unitTokens", "tokenizer"],
  open: (files, options) => textSource("sharegpt", files, options, rowsOf),
};

async function* rowsOf({ notes, tokenizer, ...reading }: TextReading) {
  const conversations = conversationsOf({ notes, tokenizer, ...reading });
  async function* turns() {
    for await (const { rows } of tokenized(conversations, tokenizer, notes)) yield rows;
  }
  yield* withArrivalTimes(turns(), notes);
}

async function* conversationsOf({ files, records, notes }: TextReading): AsyncGenerator<TextGroup> {
  let count = 0;
  let empty = 0;
  let session = 0;
  let turns = 0;
  let unfinished = 0;
  for (const file of files)
    for await (const record of records(file)) {
      count++;
      const requests = requestsOf(messagesOf(record), session + 1);
      if (requests.length === 0) {
        empty++;
        continue;
      }
      session++;
      turns += requests.length;
      unfinished += requests.filter(({ output }) => output === "").length;
      yield { requests };
    }
  if (empty > 0) notes.add(`conversations without a message of the user are left out: ${share(empty, count)}`);
  if (unfinished > 0)
    notes.add(`requests without an output in the trace are read with 0 output tokens: ${share(unfinished, turns)}`);
}

const assistantNames = ["gpt", "chatgpt", "bing", "bard", "model", "assistant"];
const userNames = ["human", "user"];

function messagesOf(record: JsonRecord): ChatMessage[] {
  const list = lists.find((name) => record.has(name)) ?? lists[0];
  return record.records(list, "an array of messages").map((message) => {
    const author = message.text(authors.find((name) => message.has(name)) ?? authors[0]);
    const content = message.text(contents.find((name) => message.has(name)) ?? contents[0]);
    const role = assistantNames.includes(author) ? "assistant" : userNames.includes(author) ? "user" : author;
    return { role, content };
  });
}

/** A request for each message of the user. */
function requestsOf(messages: readonly ChatMessage[], session: number): TextRequest[] {
  return messages.flatMap(({ role }, i) => {
    if (role !== "user") return [];
    const next = messages[i + 1];
    const output = next?.role === "assistant" ? next.content : "";
    return [{ prompt: chatPrompt(messages.slice(0, i + 1)), output, session }];
  });
}
