import { cacheReport } from "../../core/cache/report.ts";
import type { BlockBatches } from "../run/block-stream.ts";
import type { RunConfig } from "../run/configuration.ts";
import { runReplay } from "../run/run.ts";
import { discarded } from "../run/run-sink.ts";

/** The results of a replay at one size. */
export interface ReplayedSize {
  readonly report: ReturnType<typeof cacheReport>;
  /** By request: its hits; only if they are kept. */
  readonly hits: { readonly blocks: Uint32Array; readonly tokens: Uint32Array } | undefined;
}

export interface ReplaySizeOptions {
  readonly advance: (requests: number) => void;
  readonly signal?: AbortSignal | undefined;
  readonly keepsHits: boolean;
}

/** Replays a trace in a cache of one size. @throws Interrupted, and PolicyError naming a plug-in file */
export async function replaySize(
  input: BlockBatches,
  config: RunConfig,
  { keepsHits, advance, signal }: ReplaySizeOptions,
): Promise<ReplayedSize> {
  const blocks: number[] = [];
  const tokens: number[] = [];
  const kept = {
    ...discarded,
    addRequests(results: { readonly hitBlocks: Uint32Array; readonly hitTokens: Uint32Array }) {
      for (const hits of results.hitBlocks) blocks.push(hits);
      for (const hits of results.hitTokens) tokens.push(hits);
    },
  };
  const { result } = await runReplay(input, config, { advance, signal, sink: keepsHits ? kept : discarded });
  const hits = keepsHits ? { blocks: Uint32Array.from(blocks), tokens: Uint32Array.from(tokens) } : undefined;
  return { report: cacheReport(result.counters), hits };
}
