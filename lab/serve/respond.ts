import type { ServerResponse } from "node:http";
import { ApiError, apiErrorOf } from "./api-error.ts";
import type { ApiRequest } from "./api-request.ts";
import { type ApiFormat, formatOf, type ResponseIdentity, usageOf } from "./api-response.ts";
import { EventStream } from "./event-stream.ts";
import type { Generator, Output, OutputEnd, OutputRequest } from "./generator.ts";
import type { OutputText, TextEnd, TokenText } from "./text-service.ts";

/** A request whose prompts are encoded. */
export interface PreparedRequest {
  readonly request: ApiRequest;
  readonly identity: ResponseIdentity;
  /** By prompt: its outputs, `bestOf` of them. */
  readonly outputs: readonly (readonly Omit<OutputRequest, "onText">[])[];
}

/** An output of the response while it is generated. */
interface Part {
  readonly promptAt: number;
  readonly promptTokens: number;
  readonly output: Output;
  text: string;
  tokens: TokenText[];
  end: TextEnd | undefined;
}

/**
 * Generates the outputs of a request and sends them. A client that disconnects cancels them.
 *
 * @returns the outputs' texts in the order of the response; undefined if the client has disconnected
 * @throws ApiError or InputError before anything is sent
 */
export async function respond(
  { request, identity, outputs }: PreparedRequest,
  response: ServerResponse,
  generator: Generator,
): Promise<readonly string[] | undefined> {
  const format = formatOf(request, identity);
  const stream = request.stream ? new Streaming(format, response) : undefined;
  const parts: Part[] = [];
  const cancel = () => {
    for (const { output } of parts) output.cancel();
  };
  response.once("close", cancel);
  try {
    for (const [promptAt, ofPrompt] of outputs.entries())
      for (const one of ofPrompt) {
        const index = parts.length;
        const onText = (text: OutputText) => {
          const part = parts[index];
          if (stream) stream.add(index, text);
          part.text += text.text;
          if (text.token && !stream) part.tokens.push(text.token);
          part.end = text.end;
        };
        const output = generator.start({ ...one, onText });
        parts.push({ ...{ promptAt, promptTokens: one.prompt.length, output }, text: "", tokens: [], end: undefined });
      }
    stream?.open(parts.length);
    const ends = await Promise.all(parts.map(({ output }) => output.done));
    if (response.destroyed) return undefined;
    const refused = ends.find(({ text }) => text === undefined);
    if (refused) throw refusalOf(refused);
    const chosen = chosenParts(parts, request);
    const usage = usageOfParts(parts, ends);
    if (stream) await stream.end(request.includeUsage ? format.usage(usage) : undefined);
    else
      sendJson(
        response,
        200,
        format.whole(
          chosen.map(({ text, tokens, end }, index) => ({ index, text, tokens, end: end! })),
          usage,
        ),
      );
    return chosen.map(({ text }) => text);
  } catch (error) {
    cancel();
    await Promise.all(parts.map(({ output }) => output.done));
    if (!stream?.isOpen) throw error;
    stream.fail(apiErrorOf(error));
    return undefined;
  } finally {
    response.off("close", cancel);
  }
}

export function sendJson(response: ServerResponse, status: number, body: object): void {
  const text = Buffer.from(JSON.stringify(body));
  response.writeHead(status, { "content-type": "application/json; charset=utf-8", "content-length": text.length });
  response.end(text);
}

function refusalOf({ request: { refused } }: OutputEnd): ApiError {
  if (refused === undefined || refused === "cancelled") return new ApiError(503, "the server is shutting down");
  return new ApiError(500, `the request was refused: ${refused}`);
}

/** By prompt the `n` outputs with the largest mean log probability of their tokens, if more were generated. */
function chosenParts(parts: readonly Part[], { n, bestOf, prompts }: ApiRequest): readonly Part[] {
  if (n === bestOf) return parts;
  const mean = ({ tokens }: Part) => tokens.reduce((sum, { logprob }) => sum + logprob, 0) / Math.max(1, tokens.length);
  return prompts.flatMap((_, promptAt) =>
    parts
      .filter((part) => part.promptAt === promptAt)
      .sort((a, b) => mean(b) - mean(a))
      .slice(0, n),
  );
}

/** Each prompt counts once, with the cached tokens of its first output. */
function usageOfParts(parts: readonly Part[], ends: readonly OutputEnd[]) {
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const firsts = parts.flatMap(({ promptAt }, i) => (i === 0 || parts[i - 1].promptAt !== promptAt ? [i] : []));
  return usageOf(
    sum(firsts.map((i) => parts[i].promptTokens)),
    sum(ends.map(({ text }) => text!.tokens)),
    sum(firsts.map((i) => ends[i].request.cachedTokens)),
  );
}

/** The events of a streamed response. */
class Streaming {
  isOpen = false;
  readonly #format: ApiFormat;
  readonly #response: ServerResponse;
  #events: EventStream | undefined;
  /** Text and tokens of each output that have not been sent, and the length of its text that has. */
  readonly #unsent = new Map<number, { text: string; tokens: TokenText[]; sent: number; end: TextEnd | undefined }>();
  #last: { readonly document: object | undefined; readonly resolve: () => void } | undefined;

  constructor(format: ApiFormat, response: ServerResponse) {
    this.#format = format;
    this.#response = response;
  }

  /** All outputs have been accepted: the response begins. */
  open(count: number): void {
    this.isOpen = true;
    this.#events = new EventStream(this.#response, () => this.#flush());
    for (let index = 0; index < count; index++) {
      const opening = this.#format.opening(index);
      if (opening) this.#events.write(opening);
    }
    this.#flush();
  }

  add(index: number, { text, token, end }: OutputText): void {
    let unsent = this.#unsent.get(index);
    if (!unsent) this.#unsent.set(index, (unsent = { text: "", tokens: [], sent: 0, end: undefined }));
    unsent.text += text;
    if (token) unsent.tokens.push(token);
    unsent.end = end;
    this.#flush();
  }

  /** Resolves when everything is written. */
  end(usage: object | undefined): Promise<void> {
    return new Promise((resolve) => {
      this.#response.once("close", resolve);
      this.#last = { document: usage, resolve };
      this.#flush();
    });
  }

  fail({ body }: ApiError): void {
    this.#events!.write(body);
    this.#events!.end();
  }

  #flush(): void {
    const events = this.#events;
    if (!events) return;
    for (const [index, unsent] of this.#unsent) {
      if (!events.isReady) return;
      const { text, tokens, sent, end } = unsent;
      if (text !== "" || tokens.length > 0) {
        events.write(this.#format.piece(index, { text, tokens }, sent));
        Object.assign(unsent, { text: "", tokens: [], sent: sent + text.length });
      }
      if (end) {
        events.write(this.#format.end(index, end));
        unsent.end = undefined;
      }
    }
    if (!this.#last || !events.isReady) return;
    const { document, resolve } = this.#last;
    this.#last = undefined;
    if (document) events.write(document);
    events.write("[DONE]");
    events.end();
    resolve();
  }
}
