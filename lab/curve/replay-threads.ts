import { availableParallelism } from "node:os";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import { programOf } from "../../engine/worker/thread.ts";
import type { BlockBatch, BlockBatches } from "../run/block-stream.ts";
import type { Parts, RunConfig } from "../run/configuration.ts";
import { blockReferences } from "../run/run.ts";
import { type PluginNames, pluginNames } from "../threads/plugin-names.ts";
import { sharedBatches } from "../threads/shared-batches.ts";
import { TaskThreads } from "../threads/task-threads.ts";
import { type ReplayedSize, type ReplaySizeOptions, replaySize } from "./replay-size.ts";

/** A replay at one size, of plug-ins that another thread finds by name. */
export interface ReplayTask {
  readonly parts: PluginNames;
  readonly rules: Partial<Record<RuleName, RuleValue>>;
  readonly blockTokens: number;
  readonly blocks: number;
  readonly seed: number;
  readonly warmup: number;
}

export interface ReplayThreadData {
  readonly batches: readonly BlockBatch[];
  readonly keepsHits: boolean;
}

/** A configuration and a size. */
type SizedRun = Pick<RunConfig, "blockTokens" | "seed"> & {
  readonly parts: Parts;
  readonly blocks: number;
  readonly warmup: number;
};

/** Fewer block references than this are replayed in the main thread: a thread takes about a second to start in a checkout. */
const leastReferences = 30_000_000;

/**
 * Replays a trace with each configuration and size, in threads if that is worth it and the plug-ins have names. Results are in the
 * order of the runs. @throws Interrupted, PolicyError naming a plug-in's file
 */
export async function replaySizes(
  input: BlockBatches,
  runs: readonly SizedRun[],
  { threads, ...options }: ReplaySizeOptions & { readonly threads: number | undefined },
): Promise<ReplayedSize[]> {
  const tasks = runs.flatMap(({ parts, ...sized }): ReplayTask[] => {
    const names = pluginNames(parts);
    return names === undefined ? [] : [{ parts: names, rules: parts.rules, ...sized }];
  });
  const count = Math.min(threads ?? availableParallelism(), runs.length);
  if (count > 1 && tasks.length === runs.length) {
    const isLong = async () => (await referencesOf(input)) * runs.length >= leastReferences;
    const batches = threads !== undefined || (await isLong()) ? await sharedBatches(input) : undefined;
    if (batches !== undefined) return await replayInThreads(tasks, batches, count, options);
  }
  const replayed: ReplayedSize[] = [];
  for (const { parts, ...sized } of runs) replayed.push(await replaySize(input, { ...parts, ...sized }, options));
  return replayed;
}

async function referencesOf(input: BlockBatches): Promise<number> {
  let references = 0;
  for await (const { blocks } of input.batches()) references += blockReferences(blocks);
  return references;
}

/** Replays all tasks in this number of threads; results are in the order of the tasks. @throws Interrupted, InputError */
async function replayInThreads(
  tasks: readonly ReplayTask[],
  batches: readonly BlockBatch[],
  count: number,
  { keepsHits, ...options }: ReplaySizeOptions,
): Promise<ReplayedSize[]> {
  const data: ReplayThreadData = { batches, keepsHits };
  const threads = new TaskThreads<ReplayTask, ReplayedSize>(programOf(import.meta.url, "replay-worker"), data, count);
  try {
    return await threads.run(tasks, options);
  } finally {
    threads.close();
  }
}
