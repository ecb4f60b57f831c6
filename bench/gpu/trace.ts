import { readTrace } from "../../core/trace/trace.ts";
import type { Input } from "../../lab/input.ts";
import { chatSource } from "../../traces/generators/chat.ts";

/** Tokens of a content id of `conversations`. */
export const unitTokens = 4;

/** A generated trace of short conversations with shared system prompts. */
export async function conversations(requests: number): Promise<Input> {
  const trace = await readTrace(
    chatSource({
      ...{ requests, seed: 1, unitTokens, systemPrompts: 4, systemTokens: 40, turns: 4 },
      ...{ userTokens: 12, outputTokens: 8, sessionsPerS: 40, thinkS: 0.1, outputTokensPerS: 1000 },
    }),
  );
  const sum = (column: Uint32Array) => column.reduce((total, tokens) => total + tokens, 0);
  const lengths = { inputTokens: sum(trace.inputTokens), outputTokens: sum(trace.outputTokens) };
  return { name: "conversations", files: [], format: "generated", trace, ...lengths };
}

/** The block size of a preset, or the unit of the trace if it is not a multiple of that. */
export const blockSizeFor = (presetTokens: number, most: number): number =>
  presetTokens % unitTokens === 0 ? Math.min(presetTokens, most) : unitTokens;
