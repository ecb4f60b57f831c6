import { InputError } from "../../core/errors.ts";
import type { ReplayConfig } from "../../core/replica/replay.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import { stopwatch } from "../../engine/clock.ts";
import { type Control, counting, yieldToEvents } from "../control.ts";
import { type Input, opened, type TraceChoice, type TraceReading } from "../input.ts";
import { distinctPromptBlocks } from "../run/block-stream.ts";
import { blocksOf, type Capacity } from "../run/capacity.ts";
import { blockTokensFor, checkMemory } from "../run/configuration.ts";
import { sliceMs, withFile } from "../run/slices.ts";
import { combinations, type PartLists, SharedBlockKeys } from "./combinations.ts";
import { defaultShares } from "./comparison.ts";
import { type ComparedAt, type DifferenceDocument, differenceDocument } from "./difference-document.ts";
import { Lockstep, sameContents } from "./lockstep.ts";

/** The combinations, of which the first one is compared with all others. */
export interface DifferenceOptions extends TraceReading, PartLists, Control {
  /** Sizes of the cache; by default 1, 5, 10, 25 and 50 % of the distinct blocks. */
  readonly blocks?: readonly Capacity[];
  /** Tokens of a block, a multiple of the trace's unit. */
  readonly blockSize?: number;
  /** Random seed of the policies. */
  readonly seed?: number;
  /** Checks every invariant after every step. */
  readonly audit?: boolean;
}

/** The result of `firstDifference`. */
export interface FirstDifferences {
  /** The document that `kvlab compare --first-difference --json` prints: schema first-difference/1. */
  readonly report: DifferenceDocument;
  readonly input: Input;
}

/**
 * Runs the trace in all configurations in lockstep and finds, for each size, the first decision in which each of them differs
 * from the first configuration.
 *
 * @throws InputError if the configurations cannot be compared, and Interrupted
 */
export async function firstDifference(source: TraceChoice, options: DifferenceOptions): Promise<FirstDifferences> {
  const configurations = await combinations(options);
  if (configurations.length < 2)
    throw new InputError("--first-difference compares two combinations or more, such as --eviction lru,fifo");
  const input = await opened(source, options);
  const { trace } = input;
  const { seed = 1, audit = false, blocks: capacities = defaultShares, signal } = options;
  const keys = new SharedBlockKeys(input);
  const sizes = configurations.map(({ blocksOf: preset }) => blockTokensFor(trace, options.blockSize, preset));
  const [blockTokens] = sizes;
  const other = sizes.find((size) => size !== blockTokens);
  if (other !== undefined)
    throw new InputError(`--first-difference needs one block size, not ${blockTokens} and ${other}; give --block-size`);
  const blocks = configurations.map(({ parts }) => keys.of(parts, blockTokens));
  checkContents(blocks);
  const distinctBlocks = distinctPromptBlocks(blocks[0]);
  for (const capacity of capacities) checkMemory(blocksOf(capacity, distinctBlocks));
  const advance = counting(options, "comparing", trace.requestCount * capacities.length);
  const results: ComparedAt[] = [];
  for (const capacity of capacities) {
    const size = blocksOf(capacity, distinctBlocks);
    const configs = configurations.map(({ parts }) => ({ ...parts, blockTokens, blocks: size, seed, audit }));
    const lockstep = new Lockstep(trace, configs, blocks);
    await run(lockstep, configs, advance, signal);
    results.push({ capacity, configs, compared: lockstep.compared });
  }
  return { report: differenceDocument(input, blocks[0], configurations, results), input };
}

/** @throws Interrupted, and PolicyError naming a plug-in file. */
async function run(
  lockstep: Lockstep,
  configs: readonly ReplayConfig[],
  advance: (requests: number) => void,
  signal: AbortSignal | undefined,
) {
  try {
    while (!lockstep.done) {
      const elapsedMs = stopwatch();
      let requests = 0;
      for (; !lockstep.done && elapsedMs() < sliceMs; requests++) lockstep.serve();
      advance(requests);
      await yieldToEvents(signal);
    }
  } catch (error) {
    throw withFile(error, configs[lockstep.serving]);
  }
}

/** @throws InputError if configurations assign different ids to the same content. */
function checkContents(blocks: readonly BlockColumns[]): void {
  if (blocks.every((columns) => sameContents(blocks[0], columns))) return;
  throw new InputError(
    "--first-difference compares content ids, which depend on the rules cache-generated, partial, store-tail and share, and differ in a prompt table; give each rule one value",
  );
}
