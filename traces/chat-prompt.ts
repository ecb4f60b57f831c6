/** A message of a conversation. */
export interface ChatMessage {
  readonly role: string;
  readonly content: string;
}

/** The texts of a message in a prompt, each of which is tokenized by itself: `<role>\n`, the content and a line end. */
export const messageTexts = ({ role, content }: ChatMessage) => [`${role}\n`, content, "\n"] as const;

/** The end of a prompt, which the output follows. */
export const outputHeader = "assistant\n";

/**
 * The texts of a prompt with these messages. The prompt and output of a turn are the exact beginning of the next turn's
 * prompt, in text and in tokens, because the output is followed by the line end of its message.
 */
export const chatPrompt = (messages: readonly ChatMessage[]): string[] => [
  ...messages.flatMap(messageTexts),
  outputHeader,
];
