import type { OnlineEngine, OnlineRequest, RequestEnd } from "../../engine/online-engine.ts";
import type { SamplingOptions } from "../../engine/sampling.ts";
import type { StopConditions } from "../generate/completion.ts";
import type { Recorder } from "./recorder.ts";
import type { TextClient } from "./text-client.ts";
import type { OutputText, TextEnd } from "./text-service.ts";

/** One output to generate. */
export interface OutputRequest
  extends Pick<OnlineRequest, "prompt" | "maxTokens" | "namespace" | "session" | "priority"> {
  readonly sampling: SamplingOptions;
  readonly ends: StopConditions;
  /** Texts have tokens with log probabilities. */
  readonly withTokens: boolean;
  onText(text: OutputText): void;
}

/** The end of an output: `text` is undefined if it was cancelled or refused. */
export interface OutputEnd {
  readonly text: TextEnd | undefined;
  readonly request: RequestEnd;
}

export interface Output {
  /** Resolves when the text is complete and the request's blocks are released. */
  readonly done: Promise<OutputEnd>;
  /** Ends the output; no further text follows. */
  cancel(): void;
}

/** Connects the model with the detokenizer: a stop string that the detokenizer finds ends the request. */
export class Generator {
  readonly #engine: OnlineEngine;
  readonly #detokenizer: TextClient;
  readonly #ended: (end: OutputEnd) => void;
  readonly #recorder: Recorder | undefined;

  constructor(
    engine: OnlineEngine,
    detokenizer: TextClient,
    ended: (end: OutputEnd) => void,
    recorder: Recorder | undefined,
  ) {
    this.#engine = engine;
    this.#detokenizer = detokenizer;
    this.#ended = ended;
    this.#recorder = recorder;
  }

  /** @throws InputError if the engine refuses the request */
  start({ ends, withTokens, onText, ...request }: OutputRequest): Output {
    const engine = this.#engine;
    const detokenizer = this.#detokenizer;
    let text: TextEnd | undefined;
    let end: RequestEnd | undefined;
    let isCancelled = false;
    let hasLastToken = false;
    const recorder = this.#recorder;
    const tokens: number[] = [];
    let finish: (end: OutputEnd) => void = () => {};
    const done = new Promise<OutputEnd>((resolve) => {
      finish = resolve;
    });
    const settle = () => {
      if (end === undefined) return;
      // Ended without a last token or a stop string: cancelled by the server.
      if (text === undefined && !hasLastToken) isCancelled = true;
      if (isCancelled) detokenizer.close(output);
      else if (text === undefined) return;
      const result = { text: isCancelled ? undefined : text, request: end };
      this.#ended(result);
      finish(result);
    };
    const output = detokenizer.open(ends, withTokens, (one) => {
      if (isCancelled) return;
      text = one.end;
      onText(one);
      // A stop string ends the output while the engine computes the next step.
      if (text) engine.cancel(id);
      if (text) settle();
    });
    let id: number;
    try {
      id = engine.submit({
        ...request,
        endTokens: [...ends.stopTokens, ...ends.endTokens],
        onToken(sampled, isLast) {
          hasLastToken = isLast;
          if (recorder) tokens.push(sampled.token);
          detokenizer.add(output, sampled, isLast);
        },
        onEnd: (one) => {
          end = one;
          recorder?.ended(request, tokens, one);
          settle();
        },
      });
    } catch (error) {
      detokenizer.close(output);
      throw error;
    }
    return {
      done,
      cancel() {
        if (end || isCancelled) return;
        isCancelled = true;
        engine.cancel(id);
      },
    };
  }
}
