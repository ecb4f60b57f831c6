import type { TextCodec } from "../../engine/model/tokenizer.ts";
import type { SampledToken } from "../../engine/sampling.ts";
import { StoppingText } from "../../engine/stop-strings.ts";

/** What ended an answer. */
export type Finish = "end-token" | "stop-token" | "stop-string" | "length" | "interrupted";

export interface StopConditions {
  readonly stops: readonly string[];
  readonly stopTokens: readonly number[];
  /** The model's own. */
  readonly endTokens: readonly number[];
}

/** What is written to a prompt, as it is written. */
export class Completion {
  readonly tokens: SampledToken[] = [];
  text = "";
  finish: Finish | undefined;
  readonly #text: StoppingText;
  readonly #ends: StopConditions;

  constructor(codec: TextCodec, ends: StopConditions) {
    this.#text = new StoppingText(codec.stream(), ends.stops);
    this.#ends = ends;
  }

  /** The stop string that ended it. */
  get stop(): string | undefined {
    return this.#text.stop;
  }

  /** Takes a further token; returns the text that is whole with it. A token that ends the answer has no text. */
  add(sampled: SampledToken): string {
    const { stopTokens, endTokens } = this.#ends;
    this.tokens.push(sampled);
    if (stopTokens.includes(sampled.token)) this.finish = "stop-token";
    else if (endTokens.includes(sampled.token)) this.finish = "end-token";
    return this.finish === undefined ? this.#grow(this.#text.add(sampled.token)) : "";
  }

  /** No further token comes; returns the text that waited for one. */
  end(why: "length" | "interrupted"): string {
    const rest = this.#grow(this.#text.end());
    this.finish ??= why;
    return rest;
  }

  #grow(text: string): string {
    this.text += text;
    if (this.stop !== undefined) this.finish ??= "stop-string";
    return text;
  }
}
