import type { ApiRequest } from "./api-request.ts";
import type { TextEnd, TokenText } from "./text-service.ts";

export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

export const usageOf = (promptTokens: number, completionTokens: number, cachedTokens: number): Usage => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
  prompt_tokens_details: { cached_tokens: cachedTokens },
});

/** Text of an output, with its tokens if they were requested. */
export interface Piece {
  readonly text: string;
  readonly tokens: readonly TokenText[];
}

/** A whole output. */
interface Whole extends Piece {
  readonly index: number;
  readonly end: TextEnd;
}

/** The documents of one of the two APIs. */
export interface ApiFormat {
  whole(outputs: readonly Whole[], usage: Usage): object;
  /** The first events of a stream. */
  opening(index: number): object | undefined;
  /** `offset`: length of the output's text before the piece. */
  piece(index: number, piece: Piece, offset: number): object;
  /** The last event of an output. */
  end(index: number, end: TextEnd): object;
  /** The last event of a stream. */
  usage(usage: Usage): object;
}

/** `id` and `created` (Unix time in s) of the response, and the name of the model. */
export interface ResponseIdentity {
  readonly id: string;
  readonly created: number;
  readonly model: string;
}

const reasonOf = ({ finish }: TextEnd) => (finish === "length" ? "length" : "stop");
/** The stop string or token that ended the output, as vLLM reports it. */
const stopReasonOf = ({ stop, stopToken }: TextEnd) => stop ?? stopToken ?? null;

export function formatOf(request: ApiRequest, identity: ResponseIdentity): ApiFormat {
  const hasLogprobs = request.sampling.logprobs !== undefined;
  return request.isChat
    ? chatFormat(identity, request.includeUsage, hasLogprobs)
    : completionFormat(identity, request.includeUsage, hasLogprobs);
}

function completionFormat(identity: ResponseIdentity, includeUsage: boolean, hasLogprobs: boolean): ApiFormat {
  const document = (choices: readonly object[]) => ({ ...identity, object: "text_completion", choices });
  const chunk = (choice: object) => ({ ...document([choice]), ...(includeUsage && { usage: null }) });
  const logprobs = (tokens: readonly TokenText[], offset: number) =>
    hasLogprobs ? completionLogprobs(tokens, offset) : null;
  return {
    whole: (outputs, usage) => ({
      ...document(
        outputs.map(({ index, text, tokens, end }) => ({
          ...{
            index,
            text,
            logprobs: logprobs(tokens, 0),
            finish_reason: reasonOf(end),
            stop_reason: stopReasonOf(end),
          },
        })),
      ),
      usage,
    }),
    opening: () => undefined,
    piece: (index, { text, tokens }, offset) =>
      chunk({ index, text, logprobs: logprobs(tokens, offset), finish_reason: null }),
    end: (index, end) =>
      chunk({ index, text: "", logprobs: null, finish_reason: reasonOf(end), stop_reason: stopReasonOf(end) }),
    usage: (usage) => ({ ...document([]), usage }),
  };
}

function completionLogprobs(tokens: readonly TokenText[], offset: number) {
  let at = offset;
  return {
    tokens: tokens.map(({ text }) => text),
    token_logprobs: tokens.map(({ logprob }) => logprob),
    // Of tokens with the same text, such as parts of characters, the likeliest one.
    top_logprobs: tokens.map(({ top }) =>
      Object.fromEntries(top.toReversed().map(({ text, logprob }) => [text, logprob])),
    ),
    text_offset: tokens.map(({ text }) => {
      at += text.length;
      return at - text.length;
    }),
  };
}

function chatFormat(identity: ResponseIdentity, includeUsage: boolean, hasLogprobs: boolean): ApiFormat {
  const chunk = (choices: readonly object[]) => ({
    ...identity,
    object: "chat.completion.chunk",
    choices,
    ...(includeUsage && { usage: null }),
  });
  const logprobs = (tokens: readonly TokenText[]) => (hasLogprobs ? chatLogprobs(tokens) : null);
  return {
    whole: (outputs, usage) => ({
      ...identity,
      object: "chat.completion",
      choices: outputs.map(({ index, text, tokens, end }) => ({
        index,
        message: { role: "assistant", content: text, refusal: null },
        ...{ logprobs: logprobs(tokens), finish_reason: reasonOf(end), stop_reason: stopReasonOf(end) },
      })),
      usage,
    }),
    opening: (index) =>
      chunk([{ index, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }]),
    piece: (index, { text, tokens }) =>
      chunk([{ index, delta: { content: text }, logprobs: logprobs(tokens), finish_reason: null }]),
    end: (index, end) =>
      chunk([{ index, delta: {}, logprobs: null, finish_reason: reasonOf(end), stop_reason: stopReasonOf(end) }]),
    usage: (usage) => ({ ...chunk([]), usage }),
  };
}

function chatLogprobs(tokens: readonly TokenText[]) {
  const shown = ({ text, logprob }: { readonly text: string; readonly logprob: number }) => ({
    ...{ token: text, logprob, bytes: [...new TextEncoder().encode(text)] },
  });
  return { content: tokens.map((token) => ({ ...shown(token), top_logprobs: token.top.map(shown) })), refusal: null };
}
