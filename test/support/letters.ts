import { cacheReport } from "../../core/cache/report.ts";
import type { ReplayResult } from "../../core/replica/replay.ts";
import { type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import { type OwnConfig, replayed } from "./replays.ts";

export const blockTokens = 16;

/** A trace of prompts written as words: each letter is the content id of a block of 16 tokens. */
export function letterTrace(prompts: readonly string[], { lastTokens = blockTokens, outputTokens = 1 } = {}): Trace {
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

/** Letters of the cached blocks, in alphabetical order. */
export function cachedLetters({ cache }: ReplayResult): string {
  const { index, entries } = cache;
  return [...index.blocks()]
    .map((block) => String.fromCharCode(65 + entries.columns.key[index.entryOf(block)]))
    .sort()
    .join("");
}

/** Serves the prompts one at a time; returns the cached blocks afterwards and the hit blocks of each request. */
export function served(prompts: readonly string[], own: OwnConfig = {}) {
  const result = replayed(letterTrace(prompts), own);
  return {
    letters: cachedLetters(result),
    hits: [...result.requests.hitBlocks],
    report: cacheReport(result.cache.counters),
    result,
  };
}
