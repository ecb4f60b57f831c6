import { grouped } from "../core/counted.ts";
import type { ChatMessage } from "./chat-prompt.ts";
import type { Notes } from "./format.ts";
import type { JsonRecord } from "./json-records.ts";

const contentExpected = "a string, an array of content parts or null";

/** Reads messages of OpenAI's API as text. Images and other parts that are not text are left out and counted. */
export class ChatMessages {
  #leftOut = 0;

  /** The field `messages` of a request, after the definitions of its tools as a message of the role `tools`. */
  of(body: JsonRecord): ChatMessage[] {
    const messages = body.records("messages", "an array of messages");
    const tools = body.value("tools") ?? body.value("functions");
    const read = messages.map((message) => ({ role: message.text("role"), content: this.text(message) }));
    return tools === undefined ? read : [{ role: "tools", content: JSON.stringify(tools) }, ...read];
  }

  /** The text of a message: reasoning, content, refusal and tool calls, as far as it has them. */
  text(message: JsonRecord): string {
    const parts = [message.value("reasoning_content"), this.#content(message), message.value("refusal")];
    const texts = parts.filter((part) => typeof part === "string");
    const calls = message.has("tool_calls") ? message.records("tool_calls") : [];
    for (const call of calls) texts.push(JSON.stringify(call.value("function") ?? call.value("custom") ?? null));
    return texts.join("");
  }

  note(notes: Notes): void {
    if (this.#leftOut > 0)
      notes.add(`content parts that are not text, such as images, are left out: ${grouped(this.#leftOut)}`);
  }

  #content(message: JsonRecord): string {
    const content = message.value("content");
    if (content === undefined) return "";
    if (typeof content === "string") return content;
    if (!Array.isArray(content)) throw message.unexpected("content", contentExpected);
    return content.map((part) => this.#partText(message, part)).join("");
  }

  #partText(message: JsonRecord, part: unknown): string {
    if (typeof part === "string") return part;
    if (typeof part !== "object" || part === null) throw message.unexpected("content", contentExpected);
    const { text } = part as { text?: unknown };
    if (typeof text === "string") return text;
    this.#leftOut++;
    return "";
  }
}
