import { join } from "node:path";
import type { Tokenizer as Library } from "tokenizers";
import { InputError } from "../../core/errors.ts";
import { type ChatMessage, type ChatTemplate, readChatTemplate } from "./chat-template.ts";
import { readText } from "./json-fields.ts";

/** Converts text to token ids of one model, and token ids to text. */
export interface TextCodec {
  /** Includes the special tokens that the model adds to a prompt, such as a start token. */
  encode(text: string): Promise<Int32Array>;
  /** A conversation in the model's chat format, with the beginning of the assistant's next message. */
  encodeChat(messages: readonly ChatMessage[]): Promise<Int32Array>;
  /** Omits special tokens. */
  decode(tokens: ArrayLike<number>): string;
  /** Decodes tokens one by one. */
  stream(): TextStream;
}

/**
 * Incremental detokenization: text of tokens that are added one by one. A character of several tokens is returned when
 * complete.
 */
export interface TextStream {
  add(token: number): string;
  /** The remaining text, with incomplete characters as U+FFFD. */
  end(): string;
}

/** Converts a list of tokens to text. */
type Decode = (tokens: readonly number[]) => string;

/**
 * The tokenizer of a Hugging Face folder: `tokenizer.json`, run by the `tokenizers` library, and the chat template.
 *
 * @throws InputError if the file is missing or invalid.
 */
export async function readTokenizer(folder: string, vocabulary: number): Promise<TextCodec> {
  const path = join(folder, "tokenizer.json");
  const text = readText(path);
  // Imported here, so that models without text need no native library.
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

/** Ids of special tokens, which are not text. */
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
    // The template includes special tokens.
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

  /** The vocabulary entry of a token; undefined for special tokens and for the unused last ids of a padded vocabulary. */
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

/** Text of an incomplete or invalid character. */
const replacementCharacter = "\uFFFD";
/** Maximum tokens that stay pending: a longer incomplete sequence is invalid. */
const maxPendingTokens = 64;

/**
 * Incremental detokenization with a decoder for whole lists: new tokens are decoded together with those before them, because
 * the first token of a list may lose its space, and only the new text is returned. As in text-generation-inference and vLLM.
 *
 *   tokens   ...  [ context ] [ new ............................ ]
 *   text            decoded     returned | pending (ends in U+FFFD)
 */
class WindowStream implements TextStream {
  readonly #decode: Decode;
  readonly #isText: (token: number) => boolean;
  #context: number[] = [];
  #contextText = "";
  #newTokens: number[] = [];
  /** Length of the new tokens' text that has been returned. */
  #returned = 0;

  constructor(decode: Decode, isText: (token: number) => boolean) {
    this.#decode = decode;
    this.#isText = isText;
  }

  add(token: number): string {
    if (!this.#isText(token)) return "";
    this.#newTokens.push(token);
    const text = this.#newText();
    const isInvalid = this.#newTokens.length >= maxPendingTokens;
    const end = isInvalid ? text.length : text.length - pendingLength(text);
    const added = text.slice(this.#returned, end);
    this.#returned = Math.max(this.#returned, end);
    if (end === text.length) this.#advance();
    return added;
  }

  end(): string {
    const added = this.#newText().slice(this.#returned);
    this.#advance();
    return added;
  }

  #newText(): string {
    if (this.#newTokens.length === 0) return "";
    return this.#decode([...this.#context, ...this.#newTokens]).slice(this.#contextText.length);
  }

  #advance(): void {
    this.#context = this.#newTokens;
    this.#contextText = this.#decode(this.#context);
    this.#newTokens = [];
    this.#returned = 0;
  }
}

/**
 * All replacement characters at the end are pending: decoders with byte fallback decode a whole run of byte tokens to
 * replacement characters until its last character is complete.
 */
function pendingLength(text: string): number {
  let length = 0;
  while (text[text.length - 1 - length] === replacementCharacter) length++;
  return length;
}
