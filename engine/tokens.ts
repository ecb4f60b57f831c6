import type { KvCache } from "../core/cache/kv-cache.ts";
import { type Request, Sequence } from "../core/cache/request.ts";
import { assert } from "../core/errors.ts";
import type { Trace } from "../core/trace/trace.ts";
import { promptTokens } from "./content-tokens.ts";
import type { DeviceSampling, Executor } from "./executor.ts";
import { checkSampling, type SampledToken, Sampler, type SamplingOptions } from "./sampling.ts";

/** What requests write. */
export interface TokenChoice {
  readonly sampling?: SamplingOptions;
  /** A request's own seed; if not given, that of the sampling plus the request's number. */
  readonly seedOf?: (request: Request) => number;
  /** Token ids that the model does not have become others. */
  readonly fold?: boolean;
  /** Any of these ends an answer, before its longest length; absent: answers are as long as the trace says. */
  readonly endTokens?: readonly number[];
  /** Where end tokens decide, told of each token as it is chosen: whether the answer ends with it, as by its text. */
  readonly endsWith?: (request: Request, sampled: SampledToken) => boolean;
}

/** A token of an answer. */
export interface NextToken extends SampledToken {
  readonly isLast: boolean;
}

interface Written {
  readonly request: Request;
  readonly prompt: Int32Array;
  readonly answer: number[];
  readonly sampler: Sampler;
}

/** Stored logits of more prompts than this are looked through for those that are not cached any more. */
const fewStored = 64;

/**
 * The tokens of the requests that run: their prompts, and what they write. A trace that says what was written (token ids)
 * decides that here, too, for the cache knows answers by it; else the model does.
 */
export class Tokens {
  /** Whether tokens decide when an answer ends, rather than the trace. */
  readonly decideEnds: boolean;
  readonly #trace: Trace;
  readonly #vocabulary: number;
  readonly #cache: KvCache;
  readonly #choice: TokenChoice;
  readonly #running = new Map<number, Written>();
  /** Where the rules want it: the logits behind whole prompts, by the content id of their ends. */
  readonly #logits: Map<number, { readonly request: Request; readonly logits: Float32Array }> | undefined;
  #mostStored = fewStored;

  /** @throws InputError if an option of the sampling is out of its range */
  constructor(trace: Trace, vocabulary: number, cache: KvCache, choice: TokenChoice = {}) {
    checkSampling(choice.sampling ?? {});
    this.#trace = trace;
    this.#vocabulary = vocabulary;
    this.#cache = cache;
    this.#choice = choice;
    this.decideEnds = choice.endTokens !== undefined;
    this.#logits = cache.rules["full-hit"] === "stored-logits" ? new Map() : undefined;
  }

  /** Tokens `[from, to)` of a sequence to `into[at ..)`. */
  write(sequence: Sequence, from: number, to: number, into: Int32Array, at: number): void {
    const { prompt, answer } = this.#of(sequence.request);
    const promptEnd = Math.min(to, prompt.length);
    if (from < promptEnd) into.set(prompt.subarray(from, promptEnd), at);
    for (let i = Math.max(from, prompt.length); i < to; i++) into[at + i - from] = answer[i - prompt.length];
  }

  /** Sampling of the next tokens of these requests on the device; undefined if the host needs logits, or the device cannot. */
  onDevice(requests: readonly Request[], executor: Executor): DeviceSampling[] | undefined {
    if (this.#logits || !executor.canSample) return undefined;
    const all: DeviceSampling[] = [];
    for (const request of requests) {
      const { answer, sampler } = this.#of(request);
      const sampling = sampler.onDevice(answer.length);
      if (!sampling || !executor.canSample(sampling)) return undefined;
      all.push(sampling);
    }
    return all;
  }

  /**
   * The next output token of a sequence.
   *
   * @param output logits, or the token that the device sampled; undefined: the logits stored for the prompt are sampled
   */
  next(sequence: Sequence, output: Float32Array | number | undefined): NextToken {
    const { request } = sequence;
    const { answer, sampler } = this.#of(request);
    const behind = output ?? this.#stored(request);
    if (typeof output === "object" && answer.length === 0) this.#store(request, output);
    const known = this.#forced(request, answer.length) ?? (typeof behind === "number" ? behind : undefined);
    if (known !== undefined) sampler.accept(known);
    const sampled = known === undefined ? sampler.sample(behind as Float32Array) : { token: known };
    answer.push(sampled.token);
    return { ...sampled, isLast: this.#isLast(request, sampled, answer.length) };
  }

  #isLast(request: Request, sampled: SampledToken, length: number): boolean {
    const { endTokens, endsWith } = this.#choice;
    if (!endTokens) return length >= request.outputTokens;
    const ends = endsWith?.(request, sampled) ?? false;
    return ends || endTokens.includes(sampled.token) || length >= request.maxOutputTokens;
  }

  /** It ended or was refused, and has written so many tokens. */
  ended(id: number): number {
    const count = this.#running.get(id)?.answer.length ?? 0;
    this.#running.delete(id);
    return count;
  }

  #of(request: Request): Written {
    let written = this.#running.get(request.id);
    if (!written) {
      const { fold, sampling, seedOf } = this.#choice;
      const prompt = promptTokens(this.#trace, request.row, this.#vocabulary, fold ? { fold } : {});
      const seed = seedOf?.(request) ?? (sampling?.seed ?? 0) + request.id;
      written = { request, prompt, answer: [], sampler: new Sampler({ ...sampling, seed }, prompt) };
      this.#running.set(request.id, written);
    }
    return written;
  }

  /** What the trace says was written. */
  #forced({ row }: Request, at: number): number | undefined {
    const { generatedKeys, generatedStart } = this.#trace.optional;
    if (!generatedKeys || !generatedStart || this.decideEnds) return undefined;
    const place = generatedStart[row] + at;
    if (place >= generatedStart[row + 1]) return undefined;
    const token = generatedKeys[place];
    return this.#choice.fold ? token % this.#vocabulary : token;
  }

  #stored(request: Request): Float32Array {
    const found = this.#logits?.get(endOf(request));
    assert(found !== undefined, `request ${request.id} computes nothing, and no logits are stored for its prompt`);
    return found.logits;
  }

  #store(request: Request, logits: Float32Array): void {
    if (!this.#logits || request.promptBlocks === 0) return;
    this.#logits.set(endOf(request), { request, logits: logits.slice() });
    if (this.#logits.size <= this.#mostStored) return;
    // Who runs may be about to store its prompt: in the step under way, or again after a preemption.
    const running = new Set(Array.from(this.#running.values(), (written) => endOf(written.request)));
    for (const [end, { request: other }] of this.#logits) {
      if (running.has(end)) continue;
      const isCached = this.#cache.cachedTokens(new Sequence(other)) === other.inputTokens;
      if (!isCached) this.#logits.delete(end);
    }
    this.#mostStored = Math.max(fewStored, 2 * this.#logits.size);
  }
}

/** Content id of a prompt's end, which stands for all of it. */
const endOf = ({ keys, keyStart, promptBlocks }: Request) => keys[keyStart + promptBlocks - 1];
