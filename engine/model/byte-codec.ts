import { InputError } from "../../core/errors.ts";
import { randomEndToken } from "./random.ts";
import type { TextCodec, TextStream } from "./tokenizer.ts";

/**
 * The tokenizer of random models, which needs no file: tokens 0 to 255 are the bytes of UTF-8, token 256 is the end token, and
 * all further ones, which only a model generates, are decoded to their number.
 */
export const byteCodec: TextCodec = {
  async encode(text) {
    return Int32Array.from(new TextEncoder().encode(text));
  },
  async encodeChat() {
    throw new InputError("random models have no chat template; give a plain prompt");
  },
  decode(tokens) {
    const stream = byteCodec.stream();
    let text = "";
    for (let i = 0; i < tokens.length; i++) text += stream.add(tokens[i]);
    return text + stream.end();
  },
  stream: () => new ByteStream(),
};

class ByteStream implements TextStream {
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  readonly #byte = new Uint8Array(1);

  add(token: number): string {
    if (token >= 256) return this.end() + (token === randomEndToken ? "" : `<${token}>`);
    this.#byte[0] = token;
    return this.#decoder.decode(this.#byte, { stream: true });
  }

  end(): string {
    return this.#decoder.decode();
  }
}
