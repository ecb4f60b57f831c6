import { availableParallelism } from "node:os";
import type { Worker } from "node:worker_threads";
import { InputError } from "../../core/errors.ts";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import { newThread, programOf } from "../../engine/worker/thread.ts";
import { stoppingAt, throwIfInterrupted } from "../control.ts";
import type { BlockBatch, BlockBatches } from "../run/block-stream.ts";
import type { PartNames, Parts, RunConfig } from "../run/configuration.ts";
import { blockReferences } from "../run/run.ts";
import { isUserPlugin } from "../user-plugins/user-plugin.ts";
import { type ReplayedSize, type ReplaySizeOptions, replaySize } from "./replay-size.ts";

/** A replay at one size, of plug-ins that another thread finds by name. */
export interface ReplayTask {
  readonly parts: Omit<PartNames, "preset">;
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

/** From a thread: requests that it has replayed since the last message, the result of its task, or its error. */
export type ReplayMessage =
  | { readonly requests: number }
  | { readonly replayed: ReplayedSize }
  | { readonly error: { readonly name: string; readonly message: string } };

/** The names of a configuration's plug-ins; undefined if one is a user's, whose code runs in the main thread. */
function namesOf({ index, eviction, allocator, scheduler }: Parts): ReplayTask["parts"] | undefined {
  if ([index, eviction, allocator, scheduler].some(isUserPlugin)) return undefined;
  return { index: index.name, eviction: eviction.name, allocator: allocator.name, scheduler: scheduler.name };
}

/**
 * A copy of all batches that threads share; undefined if they are larger than `mostBytes`, or have contents of blocks, which
 * cannot be shared. Keys of the trace are left out: a replay reads those of the blocks.
 */
async function sharedBatches(input: BlockBatches, mostBytes: number): Promise<BlockBatch[] | undefined> {
  const shared: BlockBatch[] = [];
  let bytes = 0;
  for await (const { trace, blocks } of input.batches()) {
    if (blocks.contents !== undefined) return undefined;
    const { generatedKeys: _, generatedStart: __, ...optional } = trace.optional;
    const columns = { ...trace, keys: new Uint32Array(0), keyStart: new Float64Array(0), optional };
    bytes += bytesOf(columns) + bytesOf(optional) + bytesOf(blocks);
    if (bytes > mostBytes) return undefined;
    shared.push({ trace: { ...inShared(columns), optional: inShared(optional) }, blocks: inShared(blocks) });
  }
  return shared;
}

const bytesOf = (columns: object): number =>
  Object.values(columns).reduce((sum, column) => sum + (ArrayBuffer.isView(column) ? column.byteLength : 0), 0);

/** The typed arrays copied to shared memory. */
function inShared<Columns extends object>(columns: Columns): Columns {
  const copy = (column: unknown) => {
    if (!ArrayBuffer.isView(column)) return column;
    const array = column as Uint32Array;
    const Type = array.constructor as new (buffer: SharedArrayBuffer) => Uint32Array;
    const shared = new Type(new SharedArrayBuffer(array.byteLength));
    shared.set(array);
    return shared;
  };
  return Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, copy(column)])) as Columns;
}

/** A configuration and a size. */
type SizedRun = Pick<RunConfig, "blockTokens" | "seed"> & {
  readonly parts: Parts;
  readonly blocks: number;
  readonly warmup: number;
};

/** Fewer block references than this are replayed in the main thread: a thread takes about a second to start in a checkout. */
const leastReferences = 30_000_000;
/** A trace with larger columns is replayed in the main thread, batch by batch. */
const mostSharedBytes = 2 ** 30;

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
    const names = namesOf(parts);
    return names === undefined ? [] : [{ parts: names, rules: parts.rules, ...sized }];
  });
  const count = Math.min(threads ?? availableParallelism(), runs.length);
  if (count > 1 && tasks.length === runs.length) {
    const isLong = async () => (await referencesOf(input)) * runs.length >= leastReferences;
    const batches = threads !== undefined || (await isLong()) ? await sharedBatches(input, mostSharedBytes) : undefined;
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
  threads: number,
  { advance, signal, keepsHits }: ReplaySizeOptions,
): Promise<ReplayedSize[]> {
  const data: ReplayThreadData = { batches, keepsHits };
  const workers: Worker[] = [];
  const end = () => void Promise.all(workers.map((worker) => worker.terminate()));
  const results: ReplayedSize[] = [];
  let next = 0;
  const serve = (worker: Worker) =>
    new Promise<void>((resolve, reject) => {
      let task = -1;
      const begin = () => {
        task = next++;
        if (task >= tasks.length) resolve();
        else worker.postMessage(tasks[task]);
      };
      worker.on("message", (message: ReplayMessage) => {
        if ("requests" in message) advance(message.requests);
        else if ("error" in message) reject(errorOf(message.error));
        else {
          results[task] = message.replayed;
          begin();
        }
      });
      worker.on("error", reject);
      worker.on("exit", (code) => reject(new Error(`a replay thread exited with code ${code}`)));
      begin();
    });
  try {
    await stoppingAt(signal, end, async () => {
      for (let i = 0; i < threads; i++) workers.push(newThread(programOf(import.meta.url, "replay-worker"), data));
      await Promise.all(workers.map(serve));
    });
  } catch (error) {
    throwIfInterrupted(signal);
    throw error;
  } finally {
    end();
  }
  return results;
}

const errorOf = ({ name, message }: { readonly name: string; readonly message: string }): Error =>
  name === "InputError" ? new InputError(message) : new Error(message);
