import { counted } from "../../core/counted.ts";
import type { TextCodec } from "../../engine/model/tokenizer.ts";
import type { SampledToken } from "../../engine/sampling.ts";
import type { TimedCompletion } from "../../lab/generate/generate-all.ts";
import { duration } from "../../lab/output/numbers.ts";
import { version } from "../../lab/package.ts";
import { aligned } from "../output/table.ts";
import type { GenerateOptions } from "./generate-options.ts";

/** What is said of an answer that has ended. */
export function answerLine({ promptTokens, cachedTokens, ttftMs, tokensPerS, answer }: TimedCompletion): string {
  const first = ttftMs === undefined ? "" : `; first token after ${duration(ttftMs)}`;
  const more = tokensPerS === undefined ? "" : `, then ${tokensPerS.toFixed(0)} tokens/s`;
  const stop = answer.finish === "interrupted" ? "; interrupted" : "";
  return `${counted(promptTokens, "prompt token")}, ${cachedTokens} of them cached${first}${more}${stop}`;
}

/** A row for each token, where it is known how likely it was. */
export function logprobTable(tokens: readonly SampledToken[], codec: TextCodec): string | undefined {
  if (tokens[0]?.logprob === undefined) return undefined;
  const shown = (token: number) => JSON.stringify(codec.decode([token]));
  const rows = tokens.map(({ token, logprob, top = [] }) => [
    ...[String(token), shown(token), logprob!.toFixed(3)],
    top.map((one) => `${shown(one.token)} ${one.logprob.toFixed(3)}`).join("  "),
  ]);
  return aligned([["token", "text", "logprob", tokens[0].top?.length ? "most likely" : ""], ...rows], "rlrl");
}

/** `generate/1`. */
export function generationDocument(
  options: GenerateOptions,
  texts: readonly string[],
  prompts: readonly Int32Array[],
  answers: readonly TimedCompletion[],
  codec: TextCodec,
) {
  const { model, bits = 32, threads, chat = false, system = null, maxTokens, logitBias, seed } = options;
  const { temperature, topK, topP, minP, repetitionPenalty, presencePenalty, frequencyPenalty } = options;
  return {
    schema: "generate/1",
    kvlab: version,
    ...{ model, bits, threads, chat, system, maxTokens },
    sampling: {
      ...{ temperature, topK, topP, minP, repetitionPenalty, presencePenalty, frequencyPenalty },
      logitBias: Object.fromEntries(logitBias ?? []),
    },
    stop: options.stop ?? [],
    stopTokens: options.stopToken ?? [],
    ignoreEos: options.ignoreEos === true,
    answers: answers.map(({ row, answer, cachedTokens, ttftMs, tokensPerS }) => ({
      prompt: texts[row],
      promptTokens: Array.from(prompts[row]),
      seed: seed[Math.min(row, seed.length - 1)],
      cachedTokens,
      text: answer.text,
      tokens: answer.tokens.map(({ token }) => token),
      finish: answer.finish,
      stop: answer.stop ?? null,
      ttftMs: ttftMs ?? null,
      tokensPerS: tokensPerS ?? null,
      logprobs: options.logprobs === undefined ? null : answer.tokens.map((token) => logprobsOf(token, codec)),
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
