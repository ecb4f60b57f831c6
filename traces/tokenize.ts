import { stat } from "node:fs/promises";
import { join } from "node:path";
import type { Tokenizer as Library } from "tokenizers";
import { InputError } from "../core/errors.ts";
import { readTextFile } from "./read-text.ts";

/** Token ids of a text. */
export type Tokens = Uint8Array | Uint32Array;

/** Converts text to token ids. */
export interface TextTokenizer {
  /** Description for messages. */
  readonly name: string;
  /** Tokens that the model adds before every prompt, such as a start token. */
  readonly start: Tokens;
  /** The token ids of each text, without special tokens that are not in the text. */
  encode(texts: readonly string[]): Promise<Tokens[]>;
}

/**
 * The tokenizer of `path`: a Hugging Face tokenizer.json, or a folder that contains one. Without a path, the byte-level
 * tokenizer.
 *
 * @throws InputError if the file cannot be read or is not a tokenizer
 */
export async function openTokenizer(path: string | undefined): Promise<TextTokenizer> {
  return path === undefined ? byteTokenizer : await LibraryTokenizer.open(path);
}

/** One token for each byte of the text in UTF-8; token ids are 0 to 255. A lone surrogate counts as U+FFFD, three bytes. */
export const byteTokenizer: TextTokenizer = {
  name: "the byte-level tokenizer",
  start: new Uint8Array(),
  async encode(texts) {
    return texts.map((text) => Buffer.from(text, "utf8"));
  },
};

/** Characters in one call of the library, whose result takes some hundred bytes a token. */
const batchCharacters = 1 << 18;
/** Characters whose tokens are remembered, as messages of a conversation are repeated in each of its requests. */
const rememberedCharacters = 1 << 23;

class LibraryTokenizer implements TextTokenizer {
  readonly name: string;
  readonly start: Tokens;
  readonly #library: Library;
  readonly #known = new Map<string, Tokens>();
  #knownCharacters = 0;

  static async open(path: string): Promise<LibraryTokenizer> {
    const isFolder = await stat(path).then(
      (found) => found.isDirectory(),
      () => false,
    );
    const file = isFolder ? join(path, "tokenizer.json") : path;
    const text = await readTextFile(file);
    // Imported here, so that other traces need no native library.
    const { Tokenizer } = await import("tokenizers");
    try {
      const library = Tokenizer.fromString(text);
      library.disableTruncation();
      library.disablePadding();
      const start = Uint32Array.from((await library.encode("")).getIds());
      return new LibraryTokenizer(file, start, library);
    } catch (error) {
      throw new InputError(
        `${file}: not a Hugging Face tokenizer.json: ${(error as Error).message.replaceAll(/\s+/g, " ")}`,
      );
    }
  }

  private constructor(name: string, start: Tokens, library: Library) {
    this.name = name;
    this.start = start;
    this.#library = library;
  }

  async encode(texts: readonly string[]): Promise<Tokens[]> {
    const missing = [...new Set(texts)].filter((text) => !this.#known.has(text));
    const found = new Map<string, Tokens>();
    for (const text of texts) {
      const tokens = this.#known.get(text);
      if (tokens) found.set(text, tokens);
    }
    for (let from = 0; from < missing.length; ) {
      let to = from;
      for (let characters = 0; to < missing.length && characters < batchCharacters; to++)
        characters += missing[to].length;
      const batch = missing.slice(from, to);
      const encodings = await this.#library.encodeBatch(batch, { addSpecialTokens: false });
      batch.forEach((text, i) => {
        const tokens = Uint32Array.from(encodings[i].getIds());
        found.set(text, tokens);
        this.#remember(text, tokens);
      });
      from = to;
    }
    return texts.map((text) => found.get(text)!);
  }

  #remember(text: string, tokens: Tokens): void {
    this.#knownCharacters += text.length;
    if (this.#knownCharacters > rememberedCharacters) {
      this.#known.clear();
      this.#knownCharacters = text.length;
    }
    this.#known.set(text, tokens);
  }
}
