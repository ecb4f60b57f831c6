import { counted } from "../../core/counted.ts";
import type { TextCodec } from "../../engine/model/tokenizer.ts";
import type { SampledToken } from "../../engine/sampling.ts";
import type { TimedCompletion } from "../../lab/generate/generate-all.ts";
import { duration } from "../../lab/output/numbers.ts";
import { aligned } from "../output/table.ts";

/** The status line of a finished output. */
export function statusLine({ promptTokens, cachedTokens, ttftMs, tokensPerS, completion }: TimedCompletion): string {
  const first = ttftMs === undefined ? "" : `; first token after ${duration(ttftMs)}`;
  const more = tokensPerS === undefined ? "" : `, then ${tokensPerS.toFixed(0)} tokens/s`;
  const stop = completion.finish === "interrupted" ? "; interrupted" : "";
  return `${counted(promptTokens, "prompt token")}, ${cachedTokens} of them cached${first}${more}${stop}`;
}

/** A row for each token, if logprobs were requested. */
export function logprobTable(tokens: readonly SampledToken[], codec: TextCodec): string | undefined {
  if (tokens[0]?.logprob === undefined) return undefined;
  const shown = (token: number) => JSON.stringify(codec.decode([token]));
  const rows = tokens.map(({ token, logprob, top = [] }) => [
    ...[String(token), shown(token), logprob!.toFixed(3)],
    top.map((one) => `${shown(one.token)} ${one.logprob.toFixed(3)}`).join("  "),
  ]);
  return aligned([["token", "text", "logprob", tokens[0].top?.length ? "most likely" : ""], ...rows], "rlrl");
}
