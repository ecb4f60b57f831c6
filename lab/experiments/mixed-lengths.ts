import { seededRandom } from "../../core/random.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { type Prompt, traceOf } from "./requests.ts";

const requests = 500;
/** LightLLM's server of 2023 accepts prompts of up to 2,048 tokens and outputs of up to 1,024. */
const longestPrompt = 2048;
const longestOutput = 1024;

/** One fifth of the prompts and one fifth of the outputs are long; maxOutputTokens is the longest output. */
export function mixedLengths(seed: number, sharedTokens = 0): Trace {
  const random = seededRandom(seed);
  const length = (most: number) =>
    random.below(5) === 0 ? most / 2 + 1 + random.below(most / 2) : 16 + random.below(112);
  return traceOf(
    Array.from(
      { length: requests },
      (): Prompt => ({
        ...(sharedTokens > 0 && { prefix: { id: 0, tokens: sharedTokens } }),
        ownTokens: length(longestPrompt),
        outputTokens: length(longestOutput),
        maxOutputTokens: longestOutput,
      }),
    ),
  );
}

export const mixedLengthsText =
  `${requests} requests at once; four fifths of the prompts have 16 to 127 tokens and one fifth ${longestPrompt / 2 + 1} to ${longestPrompt}; ` +
  `four fifths of the outputs have 16 to 127 tokens and one fifth ${longestOutput / 2 + 1} to ${longestOutput}; maxOutputTokens is ${longestOutput}.`;
