import type { BatchResult, BatchStep, BlockData, Executor, PoolType } from "../executor.ts";
import type { BlockCopy, LoadRequest } from "./protocol.ts";
import type { Remote } from "./remote.ts";

/** An executor whose calls run in a worker thread. */
export abstract class RemoteExecutor implements Executor {
  abstract readonly backend: string;
  abstract readonly poolType: PoolType;
  readonly blockCount: number;
  readonly blockTokens: number;
  readonly #remote: Remote<LoadRequest>;

  constructor(remote: Remote<LoadRequest>, { blockCount, blockTokens }: Pick<Executor, "blockCount" | "blockTokens">) {
    this.#remote = remote;
    this.blockCount = blockCount;
    this.blockTokens = blockTokens;
  }

  executeStep(step: BatchStep): Promise<BatchResult> {
    return this.#remote.call({ kind: "step", step });
  }

  copyBlocks(pairs: readonly BlockCopy[]): Promise<void> {
    return this.#remote.call({ kind: "copy", pairs: pairs.map(({ source, target }) => ({ source, target })) });
  }

  readBlocks(blocks: readonly number[]): Promise<BlockData[]> {
    return this.#remote.call({ kind: "read", blocks });
  }

  writeBlocks(blocks: readonly number[], data: readonly BlockData[]): Promise<void> {
    return this.#remote.call({ kind: "write", blocks, data });
  }

  close(): Promise<void> {
    return this.#remote.close();
  }
}
