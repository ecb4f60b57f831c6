import { join } from "node:path";
import type { Tokenizer as Library } from "tokenizers";
import { InputError } from "../../core/errors.ts";
import { type ChatMessage, type ChatTemplate, readChatTemplate } from "./chat-template.ts";
import { readText } from "./json-fields.ts";

/** Text to token ids of one model and back. */
export interface TextCodec {
  /** With the special tokens that the model puts around a prompt, such as a first one. */
  encode(text: string): Promise<Int32Array>;
  /** A conversation and the beginning of the answer to it, in the form that the model was trained on. */
  encodeChat(messages: readonly ChatMessage[]): Promise<Int32Array>;
  /** Special tokens are left out. */
  decode(tokens: ArrayLike<number>): string;
  stream(): TextStream;
}

/** Text of tokens that come one by one. A character that several tokens make is held back until it is whole. */
export interface TextStream {
  add(token: number): string;
  /** What is left, its broken characters as U+FFFD. */
  end(): string;
}

/** Turns whole lists of tokens into text: what a streaming decoder is built on. */
type Decode = (tokens: readonly number[]) => string;

/**
 * The tokenizer of a Hugging Face folder: `tokenizer.json`, run by the `tokenizers` library, and the chat template.
 *
 * @throws InputError if the file is missing or wrong.
 */
export async function readTokenizer(folder: string, vocabulary: number): Promise<TextCodec> {
  const path = join(folder, "tokenizer.json");
  const text = readText(path);
  // Loaded only here, so that models without text need no native library.
  const { Tokenizer } = await import("tokenizers");
  let library: Library;
  try {
    library = Tokenizer.fromString(text);
  } catch (error) {
    throw new InputError(`${path}: not a tokenizer: ${(error as Error).message.replaceAll(/\s+/g, " ")}`);
  }
  library.disableTruncation();
  library.disablePadding();
  return new FolderCodec(library, path, specialTokens(text, library), vocabulary, readChatTemplate(folder));
}

/** Ids that are no text, as the library numbers them. */
function specialTokens(text: string, library: Library): Set<number> {
  const { added_tokens: added } = JSON.parse(text) as {
    added_tokens?: { content: string; special?: boolean }[] | null;
  };
  const special = (added ?? []).filter((token) => token.special === true);
  return new Set(special.map(({ content }) => library.tokenToId(content)).filter((id) => id !== null));
}

class FolderCodec implements TextCodec {
  readonly #library: Library;
  readonly #path: string;
  readonly #special: ReadonlySet<number>;
  readonly #vocabulary: number;
  readonly #template: ChatTemplate;
  readonly #decoder;

  constructor(
    library: Library,
    path: string,
    special: ReadonlySet<number>,
    vocabulary: number,
    template: ChatTemplate,
  ) {
    this.#library = library;
    this.#path = path;
    this.#special = special;
    this.#vocabulary = vocabulary;
    this.#template = template;
    this.#decoder = library.getDecoder();
  }

  encode(text: string): Promise<Int32Array> {
    return this.#encoded(text, true);
  }

  async encodeChat(messages: readonly ChatMessage[]): Promise<Int32Array> {
    // The template writes special tokens itself.
    return this.#encoded(await this.#template.render(messages), false);
  }

  decode(tokens: ArrayLike<number>): string {
    const words: string[] = [];
    for (let i = 0; i < tokens.length; i++) {
      const word = this.#wordOf(tokens[i]);
      if (word !== undefined) words.push(word);
    }
    if (words.length === 0) return "";
    return this.#decoder ? this.#decoder.decode(words) : words.join(" ");
  }

  stream(): TextStream {
    return new WindowStream(
      (tokens) => this.decode(tokens),
      (token) => this.#wordOf(token) !== undefined,
    );
  }

  /** What the decoder takes for a token; nothing for special ones and for the last ids of a rounded-up vocabulary. */
  #wordOf(token: number): string | undefined {
    return this.#special.has(token) ? undefined : (this.#library.idToToken(token) ?? undefined);
  }

  async #encoded(text: string, addSpecialTokens: boolean): Promise<Int32Array> {
    const encoding = await this.#library.encode(text, null, { addSpecialTokens });
    const tokens = Int32Array.from(encoding.getIds());
    const unknown = tokens.find((token) => token >= this.#vocabulary);
    if (unknown !== undefined) {
      throw new InputError(
        `${this.#path}: the text has token ${unknown}, expected one below ${this.#vocabulary}, the model's vocabulary`,
      );
    }
    return tokens;
  }
}

/** What a character that is not whole yet, or never will be, decodes to. */
const broken = "\uFFFD";
/** Tokens decoded together before they are given up as broken: no text waits that long. */
const mostTokens = 64;

/**
 * Streams through a decoder that knows only whole lists: the new tokens are decoded together with those before them,
 * because the first token of a list may lose its space, and what is new in the text is given out. As in text-generation-
 * inference and vLLM.
 *
 *   tokens   ...  [ context ] [ new ........................ ]
 *   text     gone   decoded     given out | held (ends in U+FFFD)
 */
class WindowStream implements TextStream {
  readonly #decode: Decode;
  readonly #isText: (token: number) => boolean;
  #context: number[] = [];
  #contextText = "";
  #fresh: number[] = [];
  /** Length of the new tokens' text that has been given out. */
  #given = 0;

  constructor(decode: Decode, isText: (token: number) => boolean) {
    this.#decode = decode;
    this.#isText = isText;
  }

  add(token: number): string {
    if (!this.#isText(token)) return "";
    this.#fresh.push(token);
    const text = this.#freshText();
    const isGivenUp = this.#fresh.length >= mostTokens;
    const end = isGivenUp ? text.length : text.length - heldLength(text);
    const out = text.slice(this.#given, end);
    this.#given = Math.max(this.#given, end);
    if (end === text.length) this.#moveOn();
    return out;
  }

  end(): string {
    const out = this.#freshText().slice(this.#given);
    this.#moveOn();
    return out;
  }

  #freshText(): string {
    if (this.#fresh.length === 0) return "";
    return this.#decode([...this.#context, ...this.#fresh]).slice(this.#contextText.length);
  }

  #moveOn(): void {
    this.#context = this.#fresh;
    this.#contextText = this.#decode(this.#context);
    this.#fresh = [];
    this.#given = 0;
  }
}

/**
 * All that is broken at the end may become whole: decoders with byte fallback take a run of byte tokens for broken
 * altogether until its last character is complete.
 */
function heldLength(text: string): number {
  let length = 0;
  while (text[text.length - 1 - length] === broken) length++;
  return length;
}
