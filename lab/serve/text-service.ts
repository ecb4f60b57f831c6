import type { ChatMessage } from "../../engine/model/chat-template.ts";
import type { TextCodec } from "../../engine/model/tokenizer.ts";
import type { SampledToken } from "../../engine/sampling.ts";
import { Completion, type Finish, type StopConditions } from "../generate/completion.ts";

/** A prompt: text, or a conversation in the model's chat format. */
export type PromptText = string | readonly ChatMessage[];

/** To a text worker. Prompts are encoded; the output tokens of open outputs are decoded, in their order. */
export type TextRequest =
  | { readonly kind: "encode"; readonly id: number; readonly prompt: PromptText }
  | { readonly kind: "open"; readonly id: number; readonly ends: StopConditions; readonly withTokens: boolean }
  | { readonly kind: "tokens"; readonly tokens: readonly OutputToken[] }
  | { readonly kind: "close"; readonly id: number };

/** A token of an output. */
export interface OutputToken {
  readonly id: number;
  readonly sampled: SampledToken;
  readonly isLast: boolean;
}

/** From a text worker. */
export type TextResponse =
  | { readonly kind: "ready" }
  | { readonly kind: "encoded"; readonly id: number; readonly tokens: Int32Array }
  | {
      readonly kind: "failed";
      readonly id: number;
      readonly error: { readonly name: string; readonly message: string };
    }
  | { readonly kind: "texts"; readonly texts: readonly OutputText[] };

/** What a token adds to the text of its output: whole characters, or nothing. */
export interface OutputText {
  readonly id: number;
  readonly text: string;
  /** The token; only of outputs opened with `withTokens`. */
  readonly token: TokenText | undefined;
  /** Set with the last text of an output. */
  readonly end: TextEnd | undefined;
}

export interface TextEnd {
  readonly finish: Finish;
  /** The stop string that ended it. */
  readonly stop: string | undefined;
  /** The token that ended it. */
  readonly stopToken: number | undefined;
  /** Tokens of the output; the engine may have generated more after a stop string. */
  readonly tokens: number;
}

/** A token with its text and log probability. */
export interface TokenText extends Alternative {
  readonly top: readonly Alternative[];
}

interface Alternative {
  readonly text: string;
  readonly logprob: number;
}

interface Output {
  readonly completion: Completion;
  readonly withTokens: boolean;
}

/** Tokenizing and detokenizing, in a thread of its own or in the server's. */
export class TextService {
  readonly #codec: TextCodec;
  readonly #outputs = new Map<number, Output>();

  constructor(codec: TextCodec) {
    this.#codec = codec;
  }

  /** Handles a request; `respond` is called before the return, except for `encode`. */
  handle(request: TextRequest, respond: (response: TextResponse) => void): void {
    switch (request.kind) {
      case "encode":
        void this.#encode(request.id, request.prompt).then(respond);
        return;
      case "open":
        this.#outputs.set(request.id, {
          completion: new Completion(this.#codec, request.ends),
          withTokens: request.withTokens,
        });
        return;
      case "close":
        this.#outputs.delete(request.id);
        return;
      case "tokens":
        respond({ kind: "texts", texts: request.tokens.flatMap((token) => this.#add(token) ?? []) });
    }
  }

  async #encode(id: number, prompt: PromptText): Promise<TextResponse> {
    try {
      const tokens = await (typeof prompt === "string" ? this.#codec.encode(prompt) : this.#codec.encodeChat(prompt));
      return { kind: "encoded", id, tokens };
    } catch (error) {
      const { name, message } = error as Error;
      return { kind: "failed", id, error: { name, message } };
    }
  }

  /** undefined: the output has ended already, with a stop string, or is closed. */
  #add({ id, sampled, isLast }: OutputToken): OutputText | undefined {
    const output = this.#outputs.get(id);
    if (!output) return undefined;
    const { completion, withTokens } = output;
    let text = completion.add(sampled);
    if (isLast) text += completion.end("length");
    const token = withTokens ? this.#tokenText(sampled) : undefined;
    const { finish, stop, tokens } = completion;
    if (finish === undefined) return { id, text, token, end: undefined };
    this.#outputs.delete(id);
    const stopToken = finish === "stop-token" ? sampled.token : undefined;
    return { id, text, token, end: { finish, stop, stopToken, tokens: tokens.length } };
  }

  #tokenText({ token, logprob = 0, top = [] }: SampledToken): TokenText {
    const textOf = (one: number) => this.#codec.decode([one]);
    return {
      ...{ text: textOf(token), logprob },
      top: top.map((one) => ({ text: textOf(one.token), logprob: one.logprob })),
    };
  }
}
