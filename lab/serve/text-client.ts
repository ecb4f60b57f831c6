import { InputError } from "../../core/errors.ts";
import { ExecutorError } from "../../engine/executor.ts";
import type { TextCodec } from "../../engine/model/tokenizer.ts";
import type { SampledToken } from "../../engine/sampling.ts";
import { programOf, startPlainThread } from "../../engine/worker/thread.ts";
import type { StopConditions } from "../generate/completion.ts";
import {
  type OutputText,
  type OutputToken,
  type PromptText,
  type TextRequest,
  type TextResponse,
  TextService,
} from "./text-service.ts";

interface Pending {
  resolve(tokens: Int32Array): void;
  reject(error: Error): void;
}

/** Client of a text worker. */
export class TextClient {
  /** Rejects if the worker dies; never resolves. */
  readonly died: Promise<never>;
  #fail: (error: Error) => void = () => {};
  #failure: Error | undefined;
  #post: (request: TextRequest) => void = () => {};
  #terminate: () => Promise<void> = async () => {};
  readonly #encoding = new Map<number, Pending>();
  readonly #outputs = new Map<number, (text: OutputText) => void>();
  /** Tokens of the present step, which are sent together. */
  #tokens: OutputToken[] = [];
  #count = 0;

  private constructor() {
    this.died = new Promise((_, reject) => {
      this.#fail = reject;
    });
    // Handled where it is awaited; otherwise the server is closing.
    this.died.catch(() => {});
  }

  /** A worker in this thread. */
  static inThisThread(codec: TextCodec): TextClient {
    const client = new TextClient();
    const service = new TextService(codec);
    client.#post = (request) => service.handle(request, (response) => client.#receive(response));
    return client;
  }

  /** A worker in a thread of its own. @throws ExecutorError if it does not start */
  static async inThread(model: string): Promise<TextClient> {
    const client = new TextClient();
    const thread = startPlainThread(programOf(import.meta.url, "text-worker"), { model });
    client.#post = (request) => thread.post(request);
    client.#terminate = () => thread.terminate();
    await new Promise<void>((resolve, reject) => {
      const listen = (response: unknown) => {
        if ((response as TextResponse).kind === "ready") resolve();
        else client.#receive(response as TextResponse);
      };
      thread.listen(listen, (cause) => {
        const error = new ExecutorError(`a text worker's thread died: ${cause}`);
        reject(error);
        client.#died(error);
      });
      thread.keepAlive(true);
    });
    return client;
  }

  /** The tokens of a prompt. @throws InputError if it cannot be encoded */
  encode(prompt: PromptText): Promise<Int32Array> {
    if (this.#failure) return Promise.reject(this.#failure);
    const id = this.#count++;
    return new Promise((resolve, reject) => {
      this.#encoding.set(id, { resolve, reject });
      this.#post({ kind: "encode", id, prompt });
    });
  }

  /** Opens an output; `onText` is called with the text of each token, until its end. @returns the output's id */
  open(ends: StopConditions, withTokens: boolean, onText: (text: OutputText) => void): number {
    const id = this.#count++;
    this.#outputs.set(id, onText);
    this.#post({ kind: "open", id, ends, withTokens });
    return id;
  }

  /** Decodes the next token of an output; the tokens of one step are sent in one message. */
  add(id: number, sampled: SampledToken, isLast: boolean): void {
    if (this.#tokens.length === 0) queueMicrotask(() => this.#flush());
    this.#tokens.push({ id, sampled, isLast });
  }

  /** `onText` of the output is not called any more. */
  close(id: number): void {
    if (this.#outputs.delete(id)) this.#post({ kind: "close", id });
  }

  async end(): Promise<void> {
    this.#failure ??= new ExecutorError("the server is closed");
    await this.#terminate();
  }

  #flush(): void {
    const tokens = this.#tokens;
    this.#tokens = [];
    this.#post({ kind: "tokens", tokens });
  }

  #receive(response: TextResponse): void {
    if (response.kind === "texts") {
      for (const text of response.texts) {
        const onText = this.#outputs.get(text.id);
        if (text.end) this.#outputs.delete(text.id);
        onText?.(text);
      }
    } else if (response.kind !== "ready") {
      const pending = this.#encoding.get(response.id);
      this.#encoding.delete(response.id);
      if (response.kind === "encoded") pending?.resolve(response.tokens);
      else {
        const { name, message } = response.error;
        pending?.reject(name === "InputError" ? new InputError(message) : new ExecutorError(message));
      }
    }
  }

  #died(error: Error): void {
    this.#failure ??= error;
    for (const { reject } of this.#encoding.values()) reject(this.#failure);
    this.#encoding.clear();
    this.#fail(this.#failure);
  }
}
