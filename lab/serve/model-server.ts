import { randomUUID } from "node:crypto";
import { InputError } from "../../core/errors.ts";
import { seededRandom } from "../../core/random.ts";
import { now } from "../../engine/clock.ts";
import type { LoadedModel } from "../../engine/model/load.ts";
import type { OnlineEngine } from "../../engine/online-engine.ts";
import type { ApiRequest } from "./api-request.ts";
import { Generator } from "./generator.ts";
import { ServerMetrics } from "./metrics.ts";
import type { Recorder } from "./recorder.ts";
import type { PreparedRequest } from "./respond.ts";
import type { Turn } from "./sessions.ts";
import type { TextClient } from "./text-client.ts";

export interface ModelServerParts {
  /** The name by which clients request the model. */
  readonly model: string;
  readonly loaded: LoadedModel;
  readonly engine: OnlineEngine;
  readonly tokenizer: TextClient;
  readonly detokenizer: TextClient;
  /** Most tokens of a prompt and its output. */
  readonly maxTokens: number;
  readonly seed: number;
  readonly httpRequests: () => number;
  readonly recorder: Recorder | undefined;
}

/** A model as its API sees it: requests become outputs of the engine. */
export class ModelServer {
  readonly model: string;
  readonly maxTokens: number;
  /** Unix time of the start, in s. */
  readonly created = unixSeconds();
  readonly generator: Generator;
  readonly metrics: ServerMetrics;
  readonly #parts: ModelServerParts;
  readonly #random: ReturnType<typeof seededRandom>;
  /** Numbers of the namespaces, by salt. */
  readonly #salts = new Map<string, number>();

  constructor(parts: ModelServerParts) {
    const { model, engine, detokenizer, maxTokens, seed, httpRequests } = parts;
    this.#parts = parts;
    this.model = model;
    this.maxTokens = maxTokens;
    this.#random = seededRandom(seed);
    this.metrics = new ServerMetrics(model, engine, httpRequests);
    this.generator = new Generator(engine, detokenizer, (end) => this.metrics.ended(end), parts.recorder);
  }

  /** Encodes the prompts of a request, or the conversation of its session. @throws InputError if a prompt is invalid or too long */
  async prepare(request: ApiRequest, turn?: Turn): Promise<PreparedRequest> {
    const given = turn ? [turn.messages] : request.prompts;
    const prompts = await Promise.all(given.map((prompt) => this.#encoded(prompt)));
    const { endTokens } = this.#parts.loaded.config;
    const ends = {
      ...{ stops: request.stops, stopTokens: request.stopTokens },
      endTokens: request.ignoreEos ? [] : endTokens,
    };
    const { n, bestOf, priority } = request;
    const sampling = { ...request.sampling, ...(bestOf > n && { logprobs: request.sampling.logprobs ?? 0 }) };
    const namespace = request.cacheSalt === undefined ? 0 : this.#namespaceOf(request.cacheSalt);
    const seed = request.seed ?? this.#random.below(2 ** 32);
    const outputs = prompts.map((prompt) => {
      const maxTokens = this.#maxOutput(prompt.length, request);
      return Array.from({ length: bestOf }, (_, i) => ({
        ...{ prompt, maxTokens, ends, namespace, withTokens: sampling.logprobs !== undefined },
        sampling: { ...sampling, seed: seedOf(seed, i) },
        ...(priority !== undefined && { priority }),
        ...(turn && { session: turn.session }),
      }));
    });
    const prefix = request.isChat ? "chatcmpl" : "cmpl";
    return {
      request,
      outputs,
      identity: { id: `${prefix}-${randomUUID()}`, created: unixSeconds(), model: this.model },
    };
  }

  async #encoded(prompt: ApiRequest["prompts"][number]): Promise<Int32Array> {
    const tokens = prompt instanceof Int32Array ? prompt : await this.#parts.tokenizer.encode(prompt);
    if (tokens.length === 0) throw new InputError("the prompt is empty, expected text");
    return tokens;
  }

  /** The requested number of output tokens, or as many as fit after the prompt. @throws InputError if the prompt is too long */
  #maxOutput(promptTokens: number, { maxTokens }: ApiRequest): number {
    const most = this.maxTokens - promptTokens;
    const tokens = maxTokens ?? Math.max(1, most);
    if (tokens <= most) return tokens;
    throw new InputError(
      `the prompt has ${promptTokens} tokens, which with ${tokens} output tokens exceed the model's ${this.maxTokens} tokens`,
    );
  }

  #namespaceOf(salt: string): number {
    let namespace = this.#salts.get(salt);
    if (namespace === undefined) this.#salts.set(salt, (namespace = this.#salts.size + 1));
    return namespace;
  }
}

/** The seed of output `i`: a request with a seed has the same outputs each time, which differ from each other. */
const seedOf = (seed: number, i: number) => (Math.abs(seed) % 2 ** 32) + i;

const unixSeconds = () => Math.floor(Date.parse(now()) / 1000);
