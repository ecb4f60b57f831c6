import type { ShardResult } from "../shard.ts";

/** A shard to run: its text, a name that is unique in the sweep, and the number of its configurations. */
export interface ShardTask {
  readonly name: string;
  readonly text: string;
  readonly count: number;
}

/** How a shard ended: with results, or without, because its worker ended or could not run it. */
export type Outcome =
  /** `reports`: the folder of reports that the results do not have; they are moved out of it. */
  | { readonly result: ShardResult; readonly reports?: string }
  /** `isFinal`: it would end in the same way again. */
  | { readonly lost: string; readonly isFinal?: boolean };

export interface RunControl<Task extends ShardTask> {
  readonly signal: AbortSignal;
  /** Called once for each shard, in any order. If it rejects, the call of `run` stops and rejects. */
  ended(task: Task, outcome: Outcome): Promise<void>;
  note(text: string): void;
}

/** Where shards run. */
export interface ShardRunner {
  /** Such as "2 local workers". */
  readonly label: string;
  /** Configurations in a shard, of `count` in all, unless the user chose a number. */
  shardSize(count: number): number;
  /** Runs every shard. @throws Interrupted once the signal is aborted; InputError if nothing can run */
  run<Task extends ShardTask>(tasks: readonly Task[], control: RunControl<Task>): Promise<void>;
  close(): Promise<void>;
}

/** Small enough that a lost shard costs little, large enough that a shard's own cost does not count. */
export const smallShards = (count: number): number => Math.min(16, Math.max(1, Math.ceil(count / 256)));
