import { InputError } from "../../core/errors.ts";
import type { Trace } from "../../core/trace/trace.ts";
import type { Executor } from "../../engine/executor.ts";
import { poolParts } from "../../engine/pool-parts.ts";
import type { CalibrationDesign } from "../calibrate/measured-engine.ts";
import type { RunConfig } from "../run/configuration.ts";
import type { RealEngine } from "../run/real-engine.ts";
import { openPool } from "../run/run-engine.ts";
import { blocksOfLongest, type ContentsOptions } from "./contents.ts";

/** The engines of a verification. */
interface PoolDemand {
  /** Blocks of the engine that serves the trace. */
  readonly blockCount: number;
  /** A calibration runs two further engines: one with designed steps, one that serves the trace again. */
  readonly design?: CalibrationDesign | undefined;
  /** Contents are recomputed in blocks of their own. */
  readonly contents?: ContentsOptions | undefined;
}

/** Parts of one block pool; parts without a use have no blocks. */
interface Pools {
  readonly first: Executor;
  readonly second: Executor;
  readonly designed: Executor;
  readonly scratch: Executor;
}

/**
 * Opens one pool and divides it into parts, which share the weights (docs/decisions.md, "Calibration and verify").
 *
 * @throws InputError if they do not fit in memory
 */
export async function withPools<Result>(
  { blockCount, design, contents }: PoolDemand,
  trace: Trace,
  { blockTokens }: RunConfig,
  engine: RealEngine,
  act: (pools: Pools) => Promise<Result>,
): Promise<Result> {
  const scratchBlocks = contents ? blocksOfLongest(trace, blockTokens, engine, blockCount) : 0;
  const blockCounts = [design?.blocks ?? 0, blockCount, design ? blockCount : 0, scratchBlocks];
  const total = blockCounts.reduce((sum, blocks) => sum + blocks, 0);
  const all = await openPool(engine, total, blockTokens).catch((error) => {
    if (!(error instanceof InputError)) throw error;
    const reasons = [
      ...(design ? ["three engines take turns"] : []),
      ...(contents ? ["--contents recomputes in further blocks"] : []),
    ];
    const sizes = blockCounts.filter((blocks) => blocks > 0).join(" + ");
    throw new InputError(`${error.message} (${reasons.join(", ")}: ${sizes} blocks)`);
  });
  try {
    const [designed, first, second, scratch] = poolParts(all, blockCounts);
    return await act({ designed, first, second, scratch });
  } finally {
    await all.close();
  }
}
