import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Tokenizer as Library } from "tokenizers";
import { InputError } from "../../core/errors.ts";
import { type ChatMessage, type ChatTemplate, readChatTemplate } from "./chat-template.ts";
import { reasonOf } from "./json-fields.ts";

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
  return new FolderCodec(library, path, specialTokens(text), vocabulary, readChatTemplate(folder));
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new InputError(`${path}: ${reasonOf(error)}`);
  }
}

/** Ids that are no text. */
function specialTokens(text: string): Set<number> {
  const { added_tokens: added } = JSON.parse(text) as { added_tokens?: { id: number; special?: boolean }[] | null };
  return new Set((added ?? []).filter(({ special }) => special === true).map(({ id }) => id));
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
      if (this.#special.has(tokens[i])) continue;
      // A model's vocabulary is often rounded up: its last ids stand for nothing.
      const word = this.#library.idToToken(tokens[i]);
      if (word !== null) words.push(word);
    }
    if (words.length === 0) return "";
    return this.#decoder ? this.#decoder.decode(words) : words.join(" ");
  }

  stream(): TextStream {
    return new WindowStream((tokens) => this.decode(tokens));
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
/** A character has at most four bytes, so that no more than three can be waiting for its last one. */
const mostHeld = 3;
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
  #context: number[] = [];
  #contextText = "";
  #fresh: number[] = [];
  /** Length of the new tokens' text that has been given out. */
  #given = 0;

  constructor(decode: Decode) {
    this.#decode = decode;
  }

  add(token: number): string {
    this.#fresh.push(token);
    const text = this.#freshText();
    const isGivenUp = this.#fresh.length >= mostTokens;
    const end = isGivenUp ? text.length : text.length - heldLength(text);
    const out = text.slice(this.#given, end);
    this.#given = Math.max(this.#given, end);
    if (text === "") this.#fresh.pop();
    else if (end === text.length) this.#moveOn();
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

function heldLength(text: string): number {
  let length = 0;
  while (length < mostHeld && text[text.length - 1 - length] === broken) length++;
  return length;
}
