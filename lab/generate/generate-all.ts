import { InputError } from "../../core/errors.ts";
import { blockKeysFor } from "../../core/replica/compose.ts";
import { type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import { tokensThatFit } from "../../engine/backend.ts";
import { defaultBackend } from "../../engine/backends.ts";
import { WallClock } from "../../engine/clock.ts";
import { Engine } from "../../engine/engine.ts";
import type { DecoderConfig } from "../../engine/model/decoder.ts";
import type { LoadedModel } from "../../engine/model/load.ts";
import type { TextCodec } from "../../engine/model/tokenizer.ts";
import type { WeightBits } from "../../engine/onnx/quantized.ts";
import type { SamplingOptions } from "../../engine/sampling.ts";
import { stoppingAt, throwIfInterrupted } from "../control.ts";
import { partsOf } from "../run/configuration.ts";
import { Completion, type StopConditions } from "./completion.ts";

/** Prompts and how they are to be answered. */
export interface GenerationOptions {
  readonly model: LoadedModel;
  readonly codec: TextCodec;
  readonly prompts: readonly Int32Array[];
  readonly maxTokens: number;
  readonly bits: WeightBits;
  readonly threads: number;
  readonly sampling: SamplingOptions;
  /** Of the first prompts; the last one holds for all further ones, too. */
  readonly seeds: readonly number[];
  readonly ends: StopConditions;
  /** Called with text as it is generated, one completion after the other. */
  readonly shown: (text: string) => void;
  /** Called with each completion that has finished. */
  readonly ended: (answer: TimedCompletion) => void;
  readonly signal?: AbortSignal | undefined;
}

export interface TimedCompletion {
  readonly row: number;
  readonly answer: Completion;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  /** From the admission of the prompt to its first token; undefined without one. */
  readonly ttftMs: number | undefined;
  /** Of the tokens after the first; undefined without any. */
  readonly tokensPerS: number | undefined;
}

const { memory } = defaultBackend;
const blockTokens = 16;

/**
 * Answers prompts one after the other; each finds in the cache what it shares with those before it. A signal ends it with what
 * has been written.
 *
 * @returns all answers, also those that were not begun
 * @throws InputError if a prompt does not fit
 */
export async function generateAll(work: GenerationOptions): Promise<readonly TimedCompletion[]> {
  const { model, codec, prompts, maxTokens, bits, threads, seeds, ends, shown } = work;
  const { vocabulary } = model.config;
  const trace = traceOf(prompts, maxTokens);
  const blocks = blockCountFor(work);
  const config = { ...partsOf({}, { "match-limit": "l-1" }), blockTokens, blocks, seed: 1 };
  const answers = prompts.map(() => new Completion(codec, ends));
  throwIfInterrupted(work.signal);
  const executor = await defaultBackend.open({ model, blockCount: blocks, blockTokens, threads, bits });
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
          shown(answers[row].add(sampled));
          return answers[row].stop !== undefined;
        },
      },
      onToken({ row }, _token, isLast) {
        if (isLast) shown(`${answers[row].end("length")}\n`);
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
    const timed = (row: number) => timedAnswer(engine, row, answers[row]);
    await stoppingAt(
      work.signal,
      () => engine.stop(),
      () => engine.run(),
    );
    for (const answer of answers)
      if (answer.finish === undefined) {
        const rest = answer.end("interrupted");
        if (answer.tokens.length > 0) shown(`${rest}\n`);
      }
    return answers.map((_, row) => timed(row));
  } finally {
    await executor.close();
  }
}

/** All at once; the scheduler serves them one after the other. */
function traceOf(prompts: readonly Int32Array[], maxTokens: number): Trace {
  const builder = new TraceBuilder(1);
  for (const keys of prompts)
    builder.add({ arrivalNs: 0, inputTokens: keys.length, outputTokens: maxTokens, maxOutputTokens: maxTokens, keys });
  return builder.take();
}

/** Blocks for all prompts and answers, or as many as fit into memory, but never fewer than the longest needs. */
function blockCountFor({ prompts, maxTokens, model: { config }, bits }: GenerationOptions): number {
  const blocks = prompts.map(({ length }) => Math.ceil((length + maxTokens) / blockTokens));
  const all = blocks.reduce((sum, count) => sum + count, 0);
  const longest = blocks.reduce((most, count) => Math.max(most, count), 0);
  return Math.max(longest, Math.min(all, Math.floor(poolTokens(config, bits) / blockTokens)));
}

/** Half of what fits: the rest is for what a step needs, and for others. */
const poolTokens = (config: DecoderConfig, bits: WeightBits) =>
  tokensThatFit(memory, config, bits, memory.availableBytes()) / 2;

function timedAnswer(engine: Engine, row: number, answer: Completion): TimedCompletion {
  const { firstTokenNs, finishedNs, admittedNs, hitTokens, inputTokens } = engine.arrivals.batches[0].outcomes;
  const more = answer.tokens.length - 1;
  const hasFirst = firstTokenNs[row] >= 0;
  return {
    row,
    answer,
    promptTokens: inputTokens[row],
    cachedTokens: hitTokens[row],
    ttftMs: hasFirst ? (firstTokenNs[row] - admittedNs[row]) / 1e6 : undefined,
    tokensPerS: more > 0 && finishedNs[row] >= 0 ? more / ((finishedNs[row] - firstTokenNs[row]) / 1e9) : undefined,
  };
}
