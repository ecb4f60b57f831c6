import { z } from "zod";
import type { SamplingOptions } from "../../engine/sampling.ts";
import { ApiError } from "./api-error.ts";
import type { PromptText } from "./text-service.ts";

/** Most outputs of one HTTP request, over all of its prompts. */
const mostOutputs = 128;
/** Most alternatives of a token with log probabilities. */
const mostLogprobs = 20;
const mostStops = 16;

/** A request for outputs, of either API. Undefined options have the model's or the server's defaults. */
export interface ApiRequest {
  readonly isChat: boolean;
  /** Texts, conversations or token ids. */
  readonly prompts: readonly (PromptText | Int32Array)[];
  readonly model: string | undefined;
  readonly maxTokens: number | undefined;
  /** Outputs that are returned and generated for each prompt. */
  readonly n: number;
  readonly bestOf: number;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly sampling: Omit<SamplingOptions, "seed">;
  readonly seed: number | undefined;
  readonly stops: readonly string[];
  readonly stopTokens: readonly number[];
  readonly ignoreEos: boolean;
  /** Requests of different salts share no cached prefix. */
  readonly cacheSalt: string | undefined;
  readonly priority: number | undefined;
  /** A stateful session, which continues after this request. */
  readonly session: string | undefined;
}

const whole = z.int();
const option = <Schema extends z.ZodType>(schema: Schema) => schema.nullish().transform((value) => value ?? undefined);
const text = z.string();
const tokens = z.array(whole.min(0).max(2 ** 31 - 1)).min(1);

const shared = {
  model: option(text),
  n: option(whole.min(1).max(mostOutputs)),
  stream: option(z.boolean()),
  stream_options: option(z.object({ include_usage: option(z.boolean()) })),
  max_tokens: option(whole.min(1)),
  temperature: option(z.number().min(0).max(100)),
  top_p: option(z.number().gt(0).max(1)),
  top_k: option(whole.min(-1)),
  min_p: option(z.number().min(0).max(1)),
  presence_penalty: option(z.number().min(-2).max(2)),
  frequency_penalty: option(z.number().min(-2).max(2)),
  repetition_penalty: option(z.number().gt(0).max(100)),
  logit_bias: option(z.record(z.string().regex(/^\d{1,9}$/), z.number().min(-100).max(100))),
  seed: option(whole),
  stop: option(z.union([text.min(1), z.array(text.min(1)).max(mostStops)])),
  stop_token_ids: option(z.array(whole.min(0)).max(mostStops)),
  ignore_eos: option(z.boolean()),
  cache_salt: option(text.min(1).max(1024)),
  priority: option(whole.min(-(2 ** 31)).max(2 ** 31 - 1)),
  session_id: option(text.min(1).max(1024)),
  user: option(text),
};

const completionBody = z.object({
  ...shared,
  prompt: z.union([text, tokens, z.array(text).min(1), z.array(tokens).min(1)], {
    error: "expected text, token ids, or a list of either",
  }),
  best_of: option(whole.min(1).max(mostOutputs)),
  logprobs: option(whole.min(0).max(mostLogprobs)),
  echo: option(z.literal(false, { error: "echo is not supported" })),
  suffix: option(z.literal("", { error: "suffix is not supported" })),
});

const unsupported = (name: string) => option(z.undefined({ error: `${name} is not supported` }));
const parts = z.array(z.object({ type: z.literal("text", { error: "only text is supported" }), text: z.string() }));
const chatBody = z.object({
  ...shared,
  messages: z
    .array(
      z.object({
        role: z.enum(["system", "developer", "user", "assistant"]),
        content: z.union([text, parts], { error: "expected text, or a list of parts of text" }),
      }),
    )
    .min(1),
  max_completion_tokens: option(whole.min(1)),
  logprobs: option(z.boolean()),
  top_logprobs: option(whole.min(0).max(mostLogprobs)),
  tools: option(z.array(z.never({ error: "tools are not supported" }))),
  functions: unsupported("functions"),
  audio: unsupported("audio"),
  response_format: option(z.object({ type: z.literal("text", { error: "only text is supported" }) })),
});

/** @throws ApiError that names the first invalid field */
export function completionRequest(body: unknown): ApiRequest {
  const given = parsed(completionBody, body);
  const { prompt, logprobs, n = 1, best_of: bestOf = n } = given;
  const prompts = promptsOf(prompt);
  if (bestOf < n) throw invalid("best_of", `best_of is ${bestOf}, expected at least n, which is ${n}`);
  if (bestOf > n && given.stream)
    throw invalid(
      "best_of",
      "best_of above n cannot be streamed: all outputs are compared before the first is returned",
    );
  if (bestOf * prompts.length > mostOutputs)
    throw invalid("n", `${bestOf * prompts.length} outputs, expected at most ${mostOutputs}`);
  return {
    ...common(given, logprobs),
    ...{ isChat: false, prompts, n, bestOf, maxTokens: given.max_tokens ?? 16 },
  };
}

/** @throws as `completionRequest` */
export function chatRequest(body: unknown): ApiRequest {
  const given = parsed(chatBody, body);
  const { messages, n = 1, logprobs = false, top_logprobs: top } = given;
  if (top !== undefined && !logprobs) throw invalid("top_logprobs", "top_logprobs needs logprobs to be true");
  const conversation = messages.map(({ role, content }) => ({
    role: role === "developer" ? ("system" as const) : role,
    content: typeof content === "string" ? content : content.map((part) => part.text).join(""),
  }));
  return {
    ...common(given, logprobs ? (top ?? 0) : undefined),
    ...{ isChat: true, prompts: [conversation], n, bestOf: n },
    maxTokens: given.max_completion_tokens ?? given.max_tokens,
  };
}

const invalid = (param: string, message: string) => new ApiError(400, message, { param });

function parsed<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  if (typeof body !== "object" || body === null || Array.isArray(body))
    throw new ApiError(400, "the body is not a JSON object");
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const [{ path, message }] = result.error.issues;
  const param = path.join(".");
  throw new ApiError(400, param === "" ? message : `${param}: ${message}`, { param: param || null });
}

type Common = z.output<z.ZodObject<typeof shared>>;

function common(given: Common, logprobs: number | undefined) {
  const { stop, top_k: topK, stream = false } = given;
  if (given.stream_options && !stream) throw invalid("stream_options", "stream_options needs stream to be true");
  const bias = given.logit_bias;
  return {
    model: given.model,
    stream,
    includeUsage: given.stream_options?.include_usage ?? false,
    sampling: {
      temperature: given.temperature ?? 1,
      topP: given.top_p ?? 1,
      topK: topK === undefined || topK === -1 ? 0 : topK,
      minP: given.min_p ?? 0,
      presencePenalty: given.presence_penalty ?? 0,
      frequencyPenalty: given.frequency_penalty ?? 0,
      repetitionPenalty: given.repetition_penalty ?? 1,
      ...(bias && { logitBias: new Map(Object.entries(bias).map(([token, value]) => [Number(token), value])) }),
      ...(logprobs !== undefined && { logprobs }),
    },
    seed: given.seed,
    stops: stop === undefined ? [] : typeof stop === "string" ? [stop] : stop,
    stopTokens: given.stop_token_ids ?? [],
    ignoreEos: given.ignore_eos ?? false,
    cacheSalt: given.cache_salt,
    priority: given.priority,
    session: given.session_id,
  };
}

function promptsOf(prompt: string | number[] | string[] | number[][]): ApiRequest["prompts"] {
  if (typeof prompt === "string") return [prompt];
  if (typeof prompt[0] === "number") return [Int32Array.from(prompt as number[])];
  return (prompt as (string | number[])[]).map((one) => (typeof one === "string" ? one : Int32Array.from(one)));
}
