import { InputError } from "../../core/errors.ts";
import type { ReplayConfig } from "../../core/replica/replay.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import { KeysOnce } from "../../lab/compare/combinations.ts";
import type { Configuration } from "../../lab/compare/comparison.ts";
import { type ComparedAt, differenceDocument } from "../../lab/compare/difference-document.ts";
import { Lockstep, sameContents } from "../../lab/compare/lockstep.ts";
import { breathe } from "../../lab/control.ts";
import type { TraceReading } from "../../lab/input.ts";
import { readInput } from "../../lab/input.ts";
import { blocksOf, type Capacity } from "../../lab/run/capacity.ts";
import { blockTokensFor, checkMemory } from "../../lab/run/configuration.ts";
import { distinctPromptBlocks } from "../../lab/run/run.ts";
import { sliceMs, withFile } from "../../lab/run/slices.ts";
import { interruption } from "../interrupt.ts";
import { print } from "../output/print.ts";
import { Progress } from "../output/progress.ts";
import { differenceTable } from "./difference-table.ts";

interface DifferenceOptions extends TraceReading {
  readonly blocks: readonly Capacity[];
  readonly blockSize?: number;
  readonly seed: number;
  readonly audit?: boolean;
  readonly json?: boolean;
}

/** Exit code of a check that failed. */
const parted = 1;

/**
 * `compare --first-difference`: serves the trace in all configurations at once and shows, for each size, where the
 * first one and another part, or that they decide the same.
 */
export async function firstDifferences(
  files: readonly string[],
  options: DifferenceOptions,
  configurations: readonly Configuration[],
): Promise<void> {
  if (configurations.length < 2)
    throw new InputError("--first-difference compares two combinations or more, such as --eviction lru,fifo");
  const progress = new Progress();
  try {
    const input = await readInput(files, options, progress, interruption);
    const { trace } = input;
    const { seed, audit = false } = options;
    const keys = new KeysOnce(input);
    const sizes = configurations.map(({ blocksOf: preset }) => blockTokensFor(trace, options.blockSize, preset));
    const [blockTokens] = sizes;
    const other = sizes.find((size) => size !== blockTokens);
    if (other !== undefined)
      throw new InputError(
        `--first-difference compares blocks of one size, not ${blockTokens} and ${other}: --block-size`,
      );
    const blocks = configurations.map(({ parts }) => keys.of(parts, blockTokens));
    checkContents(blocks);
    const distinctBlocks = distinctPromptBlocks(blocks[0]);
    for (const capacity of options.blocks) checkMemory(blocksOf(capacity, distinctBlocks));
    progress.start("comparing", trace.requestCount * options.blocks.length);
    const results: ComparedAt[] = [];
    for (const capacity of options.blocks) {
      const size = blocksOf(capacity, distinctBlocks);
      const configs = configurations.map(({ parts }) => ({ ...parts, blockTokens, blocks: size, seed, audit }));
      const lockstep = new Lockstep(trace, configs, blocks);
      await run(lockstep, configs, (requests) => progress.advance(requests));
      results.push({ capacity, configs, compared: lockstep.compared });
    }
    progress.done();
    const document = differenceDocument(input, blocks[0], configurations, results);
    print(`${options.json ? JSON.stringify(document, undefined, 2) : differenceTable(input, document)}\n`);
    if (!document.identical) process.exitCode = parted;
  } finally {
    progress.done();
  }
}

/** @throws Interrupted, and PolicyError naming a user's file. */
async function run(lockstep: Lockstep, configs: readonly ReplayConfig[], advance: (requests: number) => void) {
  try {
    while (!lockstep.done) {
      const start = performance.now();
      let requests = 0;
      for (; !lockstep.done && performance.now() - start < sliceMs; requests++) lockstep.serve();
      advance(requests);
      await breathe(interruption);
    }
  } catch (error) {
    throw withFile(error, configs[lockstep.serving]);
  }
}

/** @throws InputError if the configurations do not name equal contents equally. */
function checkContents(blocks: readonly BlockColumns[]): void {
  if (blocks.every((columns) => sameContents(blocks[0], columns))) return;
  throw new InputError(
    "--first-difference compares contents, which the rules cache-generated, partial, store-tail and share, and a prompt table, number anew; give each rule one value",
  );
}
