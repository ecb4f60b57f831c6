import { InputError } from "../../core/errors.ts";
import { blockKeysFor } from "../../core/replica/compose.ts";
import { type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import { type EngineBackend, tokensThatFit, type WeightBits } from "../../engine/backend.ts";
import { WallClock } from "../../engine/clock.ts";
import { Engine } from "../../engine/engine.ts";
import type { DecoderConfig } from "../../engine/model/decoder.ts";
import type { LoadedModel } from "../../engine/model/load.ts";
import type { TextCodec } from "../../engine/model/tokenizer.ts";
import type { SamplingOptions } from "../../engine/sampling.ts";
import { stoppingAt, throwIfInterrupted } from "../control.ts";
import { partsOf } from "../run/configuration.ts";
import { Completion, type StopConditions } from "./completion.ts";

/** Prompts, and the options of their outputs. */
export interface GenerationOptions {
  readonly backend: EngineBackend;
  readonly model: LoadedModel;
  readonly codec: TextCodec;
  readonly prompts: readonly Int32Array[];
  readonly maxTokens: number;
  readonly bits: WeightBits;
  readonly threads: number | undefined;
  readonly sampling: SamplingOptions;
  /** Seeds of the first prompts; the last one is also that of all further prompts. */
  readonly seeds: readonly number[];
  readonly ends: StopConditions;
  /** Called with text as it is generated, one completion after the other. */
  readonly shown: (text: string) => void;
  /** Called with each completion that has finished. */
  readonly ended: (output: TimedCompletion) => void;
  readonly signal?: AbortSignal | undefined;
}

/** An output with its times. */
export interface TimedCompletion {
  readonly row: number;
  readonly completion: Completion;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  /** From the admission of the prompt to its first output token; undefined without one. */
  readonly ttftMs: number | undefined;
  /** Rate of the tokens after the first; undefined without any. */
  readonly tokensPerS: number | undefined;
}

const blockTokens = 16;

/**
 * Generates an output for each prompt, one after the other; each prompt reuses the prefix that it shares with earlier ones. If the
 * signal is aborted, outputs are partial.
 *
 * @returns all outputs, also empty ones
 * @throws InputError if a prompt does not fit
 */
export async function generateAll(work: GenerationOptions): Promise<readonly TimedCompletion[]> {
  const { backend, model, codec, prompts, maxTokens, bits, threads, seeds, ends, shown } = work;
  const { vocabulary } = model.config;
  const trace = traceOf(prompts, maxTokens);
  const blocks = blockCountFor(work);
  const config = { ...partsOf({}, { "match-limit": "l-1" }), blockTokens, blocks, seed: 1 };
  const completions = prompts.map(() => new Completion(codec, ends));
  throwIfInterrupted(work.signal);
  const executor = await backend.open({ model, blockCount: blocks, blockTokens, bits, ...(threads && { threads }) });
  try {
    const engine = new Engine(trace, blockKeysFor(config, 1).of(trace), {
      ...config,
      executor,
      clock: new WallClock(),
      vocabulary,
      choice: {
        sampling: work.sampling,
        seedOf: ({ row }) => seeds[Math.min(row, seeds.length - 1)],
        endTokens: [...ends.stopTokens, ...ends.endTokens],
        isStop({ row }, sampled) {
          shown(completions[row].add(sampled));
          return completions[row].stop !== undefined;
        },
      },
      onToken({ row }, _token, isLast) {
        if (isLast) shown(`${completions[row].end("length")}\n`);
      },
      observers: [
        {
          ended({ request: { row } }, _replica, _nowNs, refused) {
            if (refused !== undefined) throw new InputError(`prompt ${row + 1} was refused: ${refused}`);
            work.ended(timed(row));
          },
        },
      ],
    });
    const timed = (row: number) => timedCompletion(engine, row, completions[row]);
    await stoppingAt(
      work.signal,
      () => engine.stop(),
      () => engine.run(),
    );
    for (const completion of completions)
      if (completion.finish === undefined) {
        const rest = completion.end("interrupted");
        if (completion.tokens.length > 0) shown(`${rest}\n`);
      }
    return completions.map((_, row) => timed(row));
  } finally {
    await executor.close();
  }
}

/** A trace of the prompts, all with arrival time 0. */
function traceOf(prompts: readonly Int32Array[], maxTokens: number): Trace {
  const builder = new TraceBuilder(1);
  for (const keys of prompts)
    builder.add({ arrivalNs: 0, inputTokens: keys.length, outputTokens: maxTokens, maxOutputTokens: maxTokens, keys });
  return builder.take();
}

/** Blocks for all prompts and outputs, or as many as fit into memory, but never fewer than the longest needs. */
function blockCountFor({ backend, prompts, maxTokens, model: { config }, bits }: GenerationOptions): number {
  const blocks = prompts.map(({ length }) => Math.ceil((length + maxTokens) / blockTokens));
  const all = blocks.reduce((sum, count) => sum + count, 0);
  const longest = blocks.reduce((most, count) => Math.max(most, count), 0);
  return Math.max(longest, Math.min(all, Math.floor(poolTokens(backend, config, bits) / blockTokens)));
}

/** Half of the tokens that fit: the rest of the memory is for the buffers of steps and for other programs. */
const poolTokens = ({ memory }: EngineBackend, config: DecoderConfig, bits: WeightBits) =>
  tokensThatFit(memory, config, bits, memory.availableBytes()) / 2;

function timedCompletion(engine: Engine, row: number, completion: Completion): TimedCompletion {
  const { firstTokenNs, finishedNs, admittedNs, hitTokens, inputTokens } = engine.arrivals.batches[0].outcomes;
  const more = completion.tokens.length - 1;
  const hasFirst = firstTokenNs[row] >= 0;
  return {
    row,
    completion,
    promptTokens: inputTokens[row],
    cachedTokens: hitTokens[row],
    ttftMs: hasFirst ? (firstTokenNs[row] - admittedNs[row]) / 1e6 : undefined,
    tokensPerS: more > 0 && finishedNs[row] >= 0 ? more / ((finishedNs[row] - firstTokenNs[row]) / 1e9) : undefined,
  };
}
