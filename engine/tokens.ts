import type { KvCache } from "../core/cache/kv-cache.ts";
import { type Request, Sequence } from "../core/cache/request.ts";
import { assert } from "../core/errors.ts";
import { promptTokens } from "./content-tokens.ts";
import type { DeviceSampling, Executor } from "./executor.ts";
import { checkSampling, type SampledToken, Sampler, type SamplingOptions } from "./sampling.ts";

/** How the output tokens of requests are chosen. */
export interface TokenChoice {
  readonly sampling?: SamplingOptions;
  /** Sampling options of a request, in range and with their seed, instead of `sampling` and `seedOf`. */
  readonly samplingOf?: (request: Request) => SamplingOptions;
  /** Seed of a request; by default the seed of `sampling` plus the request id. */
  readonly seedOf?: (request: Request) => number;
  /** Maps token ids outside the vocabulary to id modulo vocabulary. */
  readonly fold?: boolean;
  /** A request finishes with any of these tokens, or at `maxOutputTokens`; absent: output lengths are those of the trace. */
  readonly endTokens?: readonly number[];
  /** Whether a request finishes with this token for another reason, such as a stop string; called only with `endTokens`. */
  readonly isStop?: (request: Request, sampled: SampledToken) => boolean;
}

/** An output token. */
export interface NextToken extends SampledToken {
  readonly isLast: boolean;
  /** The logits that it was chosen from; undefined if the device sampled. */
  readonly logits: Float32Array | undefined;
}

interface RequestTokens {
  readonly request: Request;
  readonly prompt: Int32Array;
  readonly output: number[];
  readonly sampler: Sampler;
}

/** Stored logits of prompts that are no longer cached are pruned above this number of prompts. */
const minStoredBeforePruning = 64;

/**
 * Prompt and output tokens of the running requests. If the trace has output tokens, these are used, because the cache identifies
 * generated blocks by them; otherwise tokens are sampled from the model's logits.
 */
export class Tokens {
  /** Whether output tokens, not the trace, decide output lengths. */
  readonly decidesEnds: boolean;
  readonly #vocabulary: number;
  readonly #cache: KvCache;
  readonly #choice: TokenChoice;
  readonly #running = new Map<number, RequestTokens>();
  /** With full-hit=stored-logits: the logits of whole prompts, by the content id of the last block. */
  readonly #logits: Map<number, { readonly request: Request; readonly logits: Float32Array }> | undefined;
  #mostStored = minStoredBeforePruning;

  /** @throws InputError if a sampling option is out of range */
  constructor(vocabulary: number, cache: KvCache, choice: TokenChoice = {}) {
    checkSampling(choice.sampling ?? {});
    this.#vocabulary = vocabulary;
    this.#cache = cache;
    this.#choice = choice;
    this.decidesEnds = choice.endTokens !== undefined;
    this.#logits = cache.rules["full-hit"] === "stored-logits" ? new Map() : undefined;
  }

  /** Writes tokens `[from, to)` of a sequence to `into`, starting at index `at`. */
  write(sequence: Sequence, from: number, to: number, into: Int32Array, at: number): void {
    const { prompt, output } = this.#of(sequence.request);
    const promptEnd = Math.min(to, prompt.length);
    if (from < promptEnd) into.set(prompt.subarray(from, promptEnd), at);
    for (let i = Math.max(from, prompt.length); i < to; i++) into[at + i - from] = output[i - prompt.length];
  }

  /** Device sampling of the next token of each request; undefined if the host needs the logits or the device does not support it. */
  onDevice(requests: readonly Request[], executor: Executor): DeviceSampling[] | undefined {
    if (this.#logits || !executor.canSample) return undefined;
    const all: DeviceSampling[] = [];
    for (const request of requests) {
      const { output, sampler } = this.#of(request);
      const sampling = sampler.onDevice(output.length);
      if (!sampling || !executor.canSample(sampling)) return undefined;
      all.push(sampling);
    }
    return all;
  }

  /**
   * The next output token of a sequence.
   *
   * @param result logits, or the token that the device sampled; undefined: the logits stored for the prompt are sampled
   */
  next(sequence: Sequence, result: Float32Array | number | undefined): NextToken {
    const { request } = sequence;
    const { output, sampler } = this.#of(request);
    const source = result ?? this.#stored(request);
    if (typeof result === "object" && output.length === 0) this.#store(request, result);
    const chosen = this.#fromTrace(request, output.length) ?? (typeof source === "number" ? source : undefined);
    if (chosen !== undefined) sampler.accept(chosen);
    const sampled = chosen === undefined ? sampler.sample(source as Float32Array) : { token: chosen };
    output.push(sampled.token);
    const isLast = this.#isLast(request, sampled, output.length);
    return { ...sampled, isLast, logits: typeof source === "object" ? source : undefined };
  }

  #isLast(request: Request, sampled: SampledToken, length: number): boolean {
    const { endTokens, isStop } = this.#choice;
    if (!endTokens) return length >= request.outputTokens;
    const ends = isStop?.(request, sampled) ?? false;
    return ends || endTokens.includes(sampled.token) || length >= request.maxOutputTokens;
  }

  /** Discards a finished or refused request. @returns its number of output tokens */
  ended(id: number): number {
    const count = this.#running.get(id)?.output.length ?? 0;
    this.#running.delete(id);
    return count;
  }

  #of(request: Request): RequestTokens {
    let tokens = this.#running.get(request.id);
    if (!tokens) {
      const { fold, sampling, samplingOf, seedOf } = this.#choice;
      const prompt = promptTokens(request.trace, request.row, this.#vocabulary, fold ? { fold } : {});
      const seed = seedOf?.(request) ?? (sampling?.seed ?? 0) + request.id;
      const sampler = new Sampler(samplingOf?.(request) ?? { ...sampling, seed }, prompt);
      tokens = { request, prompt, output: [], sampler };
      this.#running.set(request.id, tokens);
    }
    return tokens;
  }

  /** Output token `at` of a trace that has output tokens. */
  #fromTrace({ row, trace }: Request, at: number): number | undefined {
    const { generatedKeys, generatedStart } = trace.optional;
    if (!generatedKeys || !generatedStart || this.decidesEnds) return undefined;
    const place = generatedStart[row] + at;
    if (place >= generatedStart[row + 1]) return undefined;
    const token = generatedKeys[place];
    return this.#choice.fold ? token % this.#vocabulary : token;
  }

  #stored(request: Request): Float32Array {
    const found = this.#logits?.get(endOf(request));
    assert(found !== undefined, `request ${request.id} has no tokens to compute and no stored logits`);
    return found.logits;
  }

  #store(request: Request, logits: Float32Array): void {
    if (!this.#logits || request.promptBlocks === 0) return;
    this.#logits.set(endOf(request), { request, logits: logits.slice() });
    if (this.#logits.size <= this.#mostStored) return;
    // A running request may still insert its prompt: at the end of this step, or again after a preemption.
    const running = new Set(Array.from(this.#running.values(), (tokens) => endOf(tokens.request)));
    for (const [end, { request: other }] of this.#logits) {
      if (running.has(end)) continue;
      const isCached = this.#cache.cachedTokens(new Sequence(other)) === other.inputTokens;
      if (!isCached) this.#logits.delete(end);
    }
    this.#mostStored = Math.max(minStoredBeforePruning, 2 * this.#logits.size);
  }
}

/** Content id of a prompt's last block, which identifies the whole prompt. */
const endOf = ({ keys, keyStart, promptBlocks }: Request) => keys[keyStart + promptBlocks - 1];
