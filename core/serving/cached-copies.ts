import type { Arrivals, TraceBatch } from "./arrivals.ts";
import type { TimedReplica } from "./timed-replica.ts";

/**
 * The share of cached prompt blocks that are copies. A prompt's blocks can be cached only on replicas that served a request with
 * the same prefix, so matching every prompt on its own replica finds all of them.
 */
export function copyRatio(replicas: readonly TimedReplica[], { batches }: Arrivals): number {
  if (replicas.length === 1) return 0;
  const contents = Math.max(0, ...batches.map(({ columns }) => columns!.distinct));
  const onAnyReplica = new Uint8Array(contents);
  let cached = 0;
  let distinct = 0;
  for (const { number, cache } of replicas) {
    const onThisReplica = new Uint8Array(contents);
    let table = new Int32Array(64);
    const found = { blocks: 0, absent: 0, evicted: 0 };
    const count = ({ columns }: TraceBatch, row: number): void => {
      const { keys, start, promptBlocks } = columns!;
      if (promptBlocks[row] > table.length) table = new Int32Array(promptBlocks[row] * 2);
      cache.index.match(keys, start[row], promptBlocks[row], table, found);
      for (let at = start[row]; at < start[row] + found.blocks; at++) {
        const key = keys[at];
        if (onThisReplica[key] === 1) continue;
        onThisReplica[key] = 1;
        cached++;
        if (onAnyReplica[key] === 0) distinct++;
        onAnyReplica[key] = 1;
      }
    };
    for (const batch of batches)
      for (let row = 0; row < batch.outcomes.refused.length; row++)
        if (batch.outcomes.replica[row] === number && batch.outcomes.refused[row] === 0) count(batch, row);
  }
  return cached === 0 ? 0 : (cached - distinct) / cached;
}
