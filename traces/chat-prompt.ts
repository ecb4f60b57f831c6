/** A message of a conversation. */
export interface ChatMessage {
  readonly role: string;
  readonly content: string;
}

/**
 * The texts of a prompt with these messages, each of which is tokenized by itself: `<role>\n<content>\n` for each message,
 * and `assistant\n`, which the output follows. The prompt and output of a turn are thus the exact beginning of the next
 * turn's prompt, in text and in tokens.
 */
export function chatPrompt(messages: readonly ChatMessage[]): string[] {
  return [...messages.flatMap(({ role, content }) => [`${role}\n`, content, "\n"]), "assistant\n"];
}
