import { InputError } from "../../core/errors.ts";
import type { WeightBits } from "../../engine/backend.ts";
import { type BackendName, backendNamed, defaultBackend } from "../../engine/backends.ts";
import { type LoadedModel, loadModel } from "../../engine/model/load.ts";
import type { TextCodec } from "../../engine/model/tokenizer.ts";
import { checkSampling, type SampledToken, type SamplingOptions } from "../../engine/sampling.ts";
import { type Control, throwIfInterrupted } from "../control.ts";
import { version } from "../package.ts";
import { modelOptionsOf } from "../run/real-engine.ts";
import { generateAll, type TimedCompletion } from "./generate-all.ts";

/** The model, the sampling options and the stop conditions. Omitted options have the defaults of `kvlab generate`. */
export interface GenerateOptions extends Pick<Control, "signal"> {
  /** A folder in the Hugging Face layout, or random:NAME. */
  readonly model?: string;
  /** The engine backend; by default the one on the CPU. */
  readonly backend?: BackendName;
  /** Bits per weight: 32, 8 or 4 on the CPU. */
  readonly bits?: WeightBits;
  /** Prompts are messages of a user, formatted with the model's chat template; `system` is the message before them. */
  readonly chat?: boolean;
  readonly system?: string;
  /** Maximum number of output tokens per prompt. */
  readonly maxTokens?: number;
  /** Number of threads of the operators. */
  readonly threads?: number;
  /** 0 = always the most likely token. */
  readonly temperature?: number;
  /** Samples from the K most likely tokens; 0 = all. */
  readonly topK?: number;
  /** Samples from the most likely tokens with this total probability. */
  readonly topP?: number;
  /** Minimum probability of a sampled token, relative to that of the most likely one. */
  readonly minP?: number;
  readonly repetitionPenalty?: number;
  readonly presencePenalty?: number;
  readonly frequencyPenalty?: number;
  readonly logitBias?: ReadonlyMap<number, number>;
  /** Seeds of the first prompts; the last one is also that of all further prompts. */
  readonly seed?: readonly number[];
  /** Alternatives per token whose log-probabilities are reported, beside that of the token itself. */
  readonly logprobs?: number;
  /** Texts that end an output. */
  readonly stop?: readonly string[];
  /** Token ids that end an output. */
  readonly stopToken?: readonly number[];
  /** Generation continues after the model's end tokens. */
  readonly ignoreEos?: boolean;
  /** Called with the text of the outputs as it is generated. */
  readonly onText?: ((text: string) => void) | undefined;
  /** Called with each output that has ended. */
  readonly onOutput?: ((output: TimedCompletion, codec: TextCodec) => void) | undefined;
}

const defaults = {
  ...{ backend: defaultBackend.name, model: "random:tiny", maxTokens: 64, seed: [1] as readonly number[] },
  ...{ temperature: 0, topK: 0, topP: 1, minP: 0, repetitionPenalty: 1, presencePenalty: 0, frequencyPenalty: 0 },
} as const;

type Resolved = GenerateOptions & { readonly [Name in keyof typeof defaults]: NonNullable<GenerateOptions[Name]> };

/** The result of `generate`. */
export interface Generated {
  /** The document that `kvlab generate --json` prints: schema generate/1. */
  readonly report: ReturnType<typeof generationDocument>;
  readonly outputs: readonly TimedCompletion[];
  /** Outputs that the signal ended. */
  readonly interrupted: readonly TimedCompletion[];
}

/**
 * Generates an output for each prompt, one after the other; each prompt reuses the prefix that it shares with earlier ones.
 * If the signal is aborted, the report has the partial outputs.
 *
 * @param prompts the prompts, or a function that reads them, called after the options have been checked
 * @throws InputError, ExecutorError
 */
export async function generate(
  prompts: readonly string[] | (() => Promise<readonly string[]>),
  given: GenerateOptions = {},
): Promise<Generated> {
  const options: Resolved = { ...defaults, ...given };
  if (options.system !== undefined && !options.chat) throw new InputError("--system needs --chat");
  const sampling = samplingOf(options);
  const backend = backendNamed(options.backend);
  const modelOptions = modelOptionsOf(backend, options);
  throwIfInterrupted(options.signal);
  const model = loadModel(options.model);
  try {
    checkTokens(options, model.config.vocabulary);
    const codec = await model.tokenizer();
    await checkStops(options, codec);
    const texts = typeof prompts === "function" ? await prompts() : prompts;
    const tokens = await encoded(texts, codec, model, options);
    const { maxTokens, seed, onText, onOutput, signal } = options;
    const endTokens = options.ignoreEos ? [] : model.config.endTokens;
    const outputs = await generateAll({
      ...{ backend, model, codec, prompts: tokens, maxTokens, ...modelOptions, sampling, seeds: seed },
      ends: { stops: options.stop ?? [], stopTokens: options.stopToken ?? [], endTokens },
      shown: (text) => onText?.(text),
      ended: (output) => onOutput?.(output, codec),
      signal,
    });
    const interrupted = outputs.filter(({ completion }) => completion.finish === "interrupted");
    for (const output of interrupted) if (output.completion.tokens.length > 0) onOutput?.(output, codec);
    return {
      report: generationDocument({ ...options, ...modelOptions }, texts, tokens, outputs, codec),
      outputs,
      interrupted,
    };
  } finally {
    model.close();
  }
}

/** @throws InputError if a stop text cannot occur in the text of an output */
async function checkStops({ stop = [] }: Resolved, codec: TextCodec): Promise<void> {
  for (const text of stop) {
    const tokens = await codec.encode(text);
    if (text.trim() !== "" && codec.decode(tokens) === "")
      throw new InputError(
        `--stop "${text}" is a special token, which is not in the text of an output; give --stop-token ${tokens.at(-1)}`,
      );
  }
}

/** @throws InputError naming the prompt that is empty or too long */
async function encoded(
  texts: readonly string[],
  codec: TextCodec,
  { config: { maxPositions } }: LoadedModel,
  { chat, system, maxTokens }: Resolved,
): Promise<Int32Array[]> {
  const prompts: Int32Array[] = [];
  for (const [i, text] of texts.entries()) {
    const messages = [
      ...(system === undefined ? [] : [{ role: "system" as const, content: system }]),
      { role: "user" as const, content: text },
    ];
    const tokens = await (chat ? codec.encodeChat(messages) : codec.encode(text));
    const name = texts.length === 1 ? "the prompt" : `prompt ${i + 1}`;
    if (tokens.length === 0) throw new InputError(`${name} is empty, expected text`);
    if (tokens.length + maxTokens > maxPositions)
      throw new InputError(
        `${name} has ${tokens.length} tokens, which with ${maxTokens} output tokens exceed the model's ${maxPositions} positions`,
      );
    prompts.push(tokens);
  }
  return prompts;
}

/** @throws InputError naming the option that is out of its range */
function samplingOf(resolved: Resolved): SamplingOptions {
  const { temperature, topK, topP, minP, repetitionPenalty, presencePenalty, frequencyPenalty } = resolved;
  const { logitBias, logprobs } = resolved;
  const options: SamplingOptions = {
    ...{ temperature, topK, topP, minP, repetitionPenalty, presencePenalty, frequencyPenalty },
    ...(logitBias && { logitBias }),
    ...(logprobs !== undefined && { logprobs }),
  };
  try {
    checkSampling(options);
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    // The message begins with the name of a field.
    throw new InputError(
      error.message.replace(/^\w+/, (name) => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`),
    );
  }
  return options;
}

/** @throws InputError if an option names a token outside the model's vocabulary */
function checkTokens({ logitBias, stopToken = [], logprobs = 0 }: Resolved, vocabulary: number): void {
  const check = (option: string, token: number) => {
    if (token < vocabulary) return;
    throw new InputError(`${option} has token ${token}, expected one below ${vocabulary}, the model's vocabulary`);
  };
  for (const token of logitBias?.keys() ?? []) check("--logit-bias", token);
  for (const token of stopToken) check("--stop-token", token);
  if (logprobs > vocabulary)
    throw new InputError(`--logprobs is ${logprobs}, expected at most ${vocabulary}, the model's vocabulary`);
}

/** The document that `kvlab generate --json` prints: schema generate/1. Fields may be added, none renamed. */
function generationDocument(
  options: Omit<Resolved, "bits" | "threads"> & ReturnType<typeof modelOptionsOf>,
  texts: readonly string[],
  prompts: readonly Int32Array[],
  outputs: readonly TimedCompletion[],
  codec: TextCodec,
) {
  const { model, backend, bits, threads, chat = false, system = null, maxTokens, logitBias, seed } = options;
  const { temperature, topK, topP, minP, repetitionPenalty, presencePenalty, frequencyPenalty } = options;
  return {
    schema: "generate/1",
    kvlab: version,
    backend: backendNamed(backend).reportName,
    ...{ model, bits, threads: threads ?? null, chat, system, maxTokens },
    sampling: {
      ...{ temperature, topK, topP, minP, repetitionPenalty, presencePenalty, frequencyPenalty },
      logitBias: Object.fromEntries(logitBias ?? []),
    },
    stop: options.stop ?? [],
    stopTokens: options.stopToken ?? [],
    ignoreEos: options.ignoreEos === true,
    answers: outputs.map(({ row, completion, cachedTokens, ttftMs, tokensPerS }) => ({
      prompt: texts[row],
      promptTokens: Array.from(prompts[row]),
      seed: seed[Math.min(row, seed.length - 1)],
      cachedTokens,
      text: completion.text,
      tokens: completion.tokens.map(({ token }) => token),
      finish: completion.finish,
      stop: completion.stop ?? null,
      ttftMs: ttftMs ?? null,
      tokensPerS: tokensPerS ?? null,
      logprobs: options.logprobs === undefined ? null : completion.tokens.map((token) => logprobsOf(token, codec)),
    })),
  };
}

function logprobsOf({ token, logprob, top = [] }: SampledToken, codec: TextCodec) {
  const withText = (one: { readonly token: number; readonly logprob: number }) => ({
    token: one.token,
    text: codec.decode([one.token]),
    logprob: one.logprob,
  });
  return { ...withText({ token, logprob: logprob! }), top: top.map(withText) };
}
