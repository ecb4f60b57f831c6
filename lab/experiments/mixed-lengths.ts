import { seededRandom } from "../../core/random.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { type Prompt, traceOf } from "./requests.ts";

const requests = 500;
/** LightLLM's server of 2023 takes prompts of up to 2,048 tokens and answers of up to 1,024. */
const longestPrompt = 2048;
const longestAnswer = 1024;

/** Every fifth prompt is long, and so is every fifth answer; clients ask for the longest answer. */
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
        outputTokens: length(longestAnswer),
        maxOutputTokens: longestAnswer,
      }),
    ),
  );
}

export const mixedLengthsText =
  `${requests} requests at once, four fifths of the prompts of 16 to 127 tokens and one fifth of ${longestPrompt / 2 + 1} to ${longestPrompt}, ` +
  `four fifths of the answers of 16 to 127 and one fifth of ${longestAnswer / 2 + 1} to ${longestAnswer}; clients ask for ${longestAnswer} tokens.`;
