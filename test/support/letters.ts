import { cacheReport } from "../../core/cache/report.ts";
import type { ReplayResult } from "../../core/replica/replay.ts";
import { type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import { type OwnConfig, replayed } from "./replays.ts";

export const blockTokens = 16;

/** Requests as words: each letter is a block of 16 tokens, named by its content with all that precedes it. */
export function words(prompts: readonly string[], { lastTokens = blockTokens, outputTokens = 1 } = {}): Trace {
  const builder = new TraceBuilder(blockTokens);
  prompts.forEach((prompt, r) => {
    builder.add({
      arrivalNs: r,
      inputTokens: (prompt.length - 1) * blockTokens + lastTokens,
      outputTokens,
      keys: [...prompt].map((letter) => letter.charCodeAt(0) - 65),
    });
  });
  return builder.take();
}

/** Letters of the blocks that the cache holds, in order of the alphabet. */
export function lettersIn({ cache }: ReplayResult): string {
  const { index, entries } = cache;
  return [...index.blocks()]
    .map((block) => String.fromCharCode(65 + entries.columns.key[index.entryOf(block)]))
    .sort()
    .join("");
}

/** What is in the cache after these requests, one at a time, and what each of them hit, in blocks. */
export function served(prompts: readonly string[], own: OwnConfig = {}) {
  const result = replayed(words(prompts), own);
  return {
    letters: lettersIn(result),
    hits: [...result.requests.hitBlocks],
    report: cacheReport(result.cache.counters),
    result,
  };
}
