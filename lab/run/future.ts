import { InputError } from "../../core/errors.ts";
import type { FutureView } from "../../core/plugins/index.ts";
import type { CacheConfig } from "../../core/replica/compose.ts";
import { usableBlocksOf } from "../../core/replica/replay.ts";
import { isOutOfMemory, memoryOptions } from "../out-of-memory.ts";
import type { BlockBatches } from "./block-stream.ts";

/**
 * The content ids of all prompts, for a policy that reads the future: 4 bytes per block and 16 per request. Undefined for a trace
 * in one batch, which the policy reads itself.
 *
 * @throws InputError if it does not fit into memory
 */
export async function futureOf(input: BlockBatches, config: CacheConfig): Promise<FutureView | undefined> {
  let batches = 0;
  let requests = 0;
  let blockCount = 0;
  for await (const { trace, blocks } of input.batches(true)) {
    batches++;
    requests += trace.requestCount;
    blockCount += blocks.start[trace.requestCount];
  }
  if (batches === 1) return undefined;
  try {
    const columns = {
      keys: new Uint32Array(blockCount),
      start: new Float64Array(requests + 1),
      promptBlocks: new Uint32Array(requests),
    };
    const usableBlocks = new Uint32Array(requests);
    let row = 0;
    let at = 0;
    let distinct = 0;
    for await (const { trace, blocks } of input.batches(true)) {
      const { requestCount } = trace;
      const count = blocks.start[requestCount];
      columns.keys.set(blocks.keys.subarray(0, count), at);
      for (let r = 0; r < requestCount; r++) columns.start[row + r + 1] = at + blocks.start[r + 1];
      columns.promptBlocks.set(blocks.promptBlocks, row);
      usableBlocks.set(usableBlocksOf(trace, blocks, config), row);
      ({ distinct } = blocks);
      row += requestCount;
      at += count;
    }
    const { blockTokens } = config;
    return { blocks: { blockTokens, ...columns, distinct }, requestCount: requests, usableBlocks };
  } catch (error) {
    if (!isOutOfMemory(error)) throw error;
    throw new InputError(
      `eviction ${config.eviction.name} reads the future: the content ids of ${blockCount} blocks do not fit into memory; ${memoryOptions}`,
    );
  }
}
