import type { TextCodec } from "../../engine/model/tokenizer.ts";
import type { SampledToken } from "../../engine/sampling.ts";
import { StoppingText } from "../../engine/stop-strings.ts";

/** The reason why an output ended. */
export type Finish = "end-token" | "stop-token" | "stop-string" | "length" | "interrupted";

export interface StopConditions {
  readonly stops: readonly string[];
  readonly stopTokens: readonly number[];
  /** End tokens of the model. */
  readonly endTokens: readonly number[];
}

/** The output of a prompt while it is generated. */
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

  /** The stop string that ended the output. */
  get stop(): string | undefined {
    return this.#text.stop;
  }

  /** Adds a token; returns the text that it completes. A token that ends the output has no text. */
  add(sampled: SampledToken): string {
    const { stopTokens, endTokens } = this.#ends;
    this.tokens.push(sampled);
    if (stopTokens.includes(sampled.token)) this.finish = "stop-token";
    else if (endTokens.includes(sampled.token)) this.finish = "end-token";
    return this.finish === undefined ? this.#append(this.#text.add(sampled.token)) : "";
  }

  /** Ends the output; returns the rest of its text. */
  end(reason: "length" | "interrupted"): string {
    const rest = this.#append(this.#text.end());
    this.finish ??= reason;
    return rest;
  }

  #append(text: string): string {
    this.text += text;
    if (this.stop !== undefined) this.finish ??= "stop-string";
    return text;
  }
}
