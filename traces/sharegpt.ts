import { type ChatMessage, messageTexts, outputHeader } from "./chat-prompt.ts";
import { type Turns, withArrivalTimes } from "./conversation-times.ts";
import type { TraceFormat } from "./format.ts";
import type { JsonRecord } from "./json-records.ts";
import { encoded, joined, share, type TokenizedRequest } from "./text-requests.ts";
import { type TextReading, textSource } from "./text-source.ts";
import type { Tokens } from "./tokenize.ts";

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

async function* rowsOf(reading: TextReading) {
  const { notes, tokenizer } = reading;
  async function* conversations() {
    for await (const { group, tokens } of encoded(recorded(reading), textsOf, tokenizer))
      yield new Conversation(group, tokens, tokenizer.start);
  }
  yield* withArrivalTimes(conversations(), notes);
}

interface RecordedConversation {
  readonly messages: readonly ChatMessage[];
  /** Indexes of the user's messages. */
  readonly turns: readonly number[];
  readonly session: number;
}

const textsOf = ({ messages }: RecordedConversation) => [...messages.flatMap(messageTexts), outputHeader];

async function* recorded({ files, records, notes }: TextReading): AsyncGenerator<RecordedConversation> {
  let count = 0;
  let session = 0;
  let requests = 0;
  let unfinished = 0;
  for (const file of files)
    for await (const record of records(file)) {
      count++;
      const messages = messagesOf(record);
      const turns = [...messages.keys()].filter((i) => messages[i].role === "user");
      if (turns.length === 0) continue;
      requests += turns.length;
      unfinished += turns.filter((i) => messages[i + 1]?.role !== "assistant").length;
      yield { messages, turns, session: ++session };
    }
  if (count > session)
    notes.add(`conversations without a message of the user are left out: ${share(count - session, count)}`);
  if (unfinished > 0)
    notes.add(`requests without an output in the trace are read with 0 output tokens: ${share(unfinished, requests)}`);
}

/** A tokenized conversation. The prompts of its turns are joined when they arrive, as their sum may be large. */
class Conversation implements Turns {
  readonly #recorded: RecordedConversation;
  /** Tokens of each of `textsOf`. */
  readonly #tokens: readonly Tokens[];
  readonly #start: Tokens;

  constructor(found: RecordedConversation, tokens: readonly Tokens[], start: Tokens) {
    this.#recorded = found;
    this.#tokens = tokens;
    this.#start = start;
  }

  get count(): number {
    return this.#recorded.turns.length;
  }

  request(turn: number): TokenizedRequest {
    const { messages, turns, session } = this.#recorded;
    const next = turns[turn] + 1;
    const keys = joined([this.#start, ...this.#tokens.slice(0, 3 * next), this.#tokens[3 * messages.length]]);
    const generatedKeys = messages[next]?.role === "assistant" ? this.#tokens[3 * next + 1] : [];
    return { keys, inputTokens: keys.length, generatedKeys, outputTokens: generatedKeys.length, session };
  }
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
