import type { Trace } from "../../core/trace/trace.ts";
import { ContentsCheck, type ContentsCheckOptions } from "../../engine/contents/contents-check.ts";
import type { RunConfig } from "../run/configuration.ts";
import type { RealEngine } from "../run/real-engine.ts";

export type ContentsOptions = Pick<ContentsCheckOptions, "share">;

/** Compares the contents of an engine's pool with those recomputed in `scratch`. */
export function contentsCheck(
  trace: Trace,
  { seed }: RunConfig,
  { backend, loaded, fold }: RealEngine,
  own: Pick<ContentsCheckOptions, "pool" | "scratch" | "share">,
): ContentsCheck {
  const { layers, vocabulary } = loaded.config;
  return new ContentsCheck({ ...own, trace, layers, vocabulary, fold, seed, tolerance: backend.contentsTolerance });
}

/** Blocks of the longest sequence of a trace that fits in the cache. */
export function blocksOfLongest(
  { inputTokens, outputTokens, maxOutputTokens }: Trace,
  blockTokens: number,
  { outputLengths }: RealEngine,
  blockCount: number,
): number {
  const outputs = outputLengths === "free" ? maxOutputTokens : outputTokens;
  const longest = inputTokens.reduce((most, tokens, row) => Math.max(most, tokens + outputs[row]), 0);
  return Math.min(blockCount, Math.ceil(longest / blockTokens));
}
