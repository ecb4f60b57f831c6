import { isDeepStrictEqual } from "node:util";
import { ChunkTable } from "../../core/serving/chunk-table.ts";
import { StepTable } from "../../core/serving/step-table.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { ContentsCheck, type ContentsDifference } from "../../engine/contents/contents-check.ts";
import { Engine } from "../../engine/engine.ts";
import type { EngineConfig } from "../../engine/engine-loop.ts";
import type { TokenChoice } from "../../engine/tokens.ts";
import { type Decisions, type Divergence, firstDivergence } from "../compare/decisions.ts";
import { type OperationResult, OperationsPlayer } from "../run/operations-file.ts";
import { type Engines, SeededClock } from "./engines.ts";
import type { Failure, FuzzCase } from "./kinds.ts";
import type { configOf, Setup } from "./setup.ts";

/** The decisions of one side of a comparison, and the results of its operations. */
export interface Side extends Decisions {
  readonly operations: readonly OperationResult[];
}

export interface ServedCase extends Side {
  readonly steps: StepTable;
  /** Of the pool's contents and recomputed ones; undefined if they are identical or not compared. */
  readonly difference: ContentsDifference | undefined;
}

/**
 * Serves a case with the tiny model and all audits. Without `onToken` contents are compared, too.
 *
 * @throws InputError if the engine does not support the configuration
 */
export async function onEngine(
  { trace, operations }: FuzzCase,
  { hostBlocks, loop, clock, seed }: Pick<Setup, "hostBlocks" | "loop" | "clock" | "seed">,
  config: ReturnType<typeof configOf>,
  columns: BlockColumns,
  engines: Engines,
  own: Pick<EngineConfig, "choice" | "onToken">,
): Promise<ServedCase> {
  const chunks = new ChunkTable();
  const steps = new StepTable();
  const player = new OperationsPlayer(operations, trace, columns);
  const { layers, vocabulary, backend } = engines;
  const tolerance = backend.contentsTolerance;
  const [pool, scratch] = await engines.pools(config.blockTokens);
  const check = own.onToken
    ? undefined
    : new ContentsCheck({ trace, pool, scratch, layers, vocabulary, tolerance, seed, share: 1 });
  const engine = new Engine(trace, columns, {
    ...config,
    ...(check && { onToken: check.onToken, needsLogits: check.needsLogits }),
    ...own,
    hostBlocks,
    arrivals: { loop },
    executor: pool,
    clock: new SeededClock(clock),
    vocabulary,
    observers: [steps, chunks, ...(check ? [check] : [])],
    before: (...args) => player.before(...args),
    audit: true,
    events: true,
  });
  await engine.run(() => check?.afterStep() ?? Promise.resolve());
  const { outcomes } = engine.arrivals.batches[0];
  return {
    log: engine.replica.log!,
    chunks,
    outcomes,
    steps,
    operations: player.results,
    difference: check?.difference,
  };
}

/**
 * The end tokens of a case: none if the trace has generated keys, or tails of unknown content are stored.
 */
export function choiceOf({ answers, rules }: Setup, { optional }: Trace, { endTokens }: Engines): TokenChoice {
  const isKnown = optional.generatedKeys !== undefined || rules["store-tail"] === "true";
  return answers === "free" && !isKnown ? { endTokens } : {};
}

/** The first divergence of two sides, as a sentence. */
export function divergenceOf(names: readonly [string, string], a: Side, b: Side): Failure | undefined {
  const sides = (side: (of: Side) => unknown) => `${names[0]} ${side(a)}, ${names[1]} ${side(b)}`;
  const divergence = firstDivergence(a, b);
  if (divergence) return { category: "divergence", message: textOf(divergence, sides) };
  const at = a.operations.findIndex((operation, i) => !isDeepStrictEqual(operation, b.operations[i]));
  if (at < 0 && a.operations.length === b.operations.length) return undefined;
  const message = `operation ${at}: ${sides(({ operations }) => JSON.stringify(operations[at]))}`;
  return { category: "operation", message };
}

/** Both sides of the divergence. */
function textOf(divergence: Divergence, sides: (side: (of: Decisions) => unknown) => string): string {
  if (divergence.what === "outcome") {
    const { request, name } = divergence;
    return `${name} of request ${request}: ${sides(({ outcomes }) => outcomes[name][request])}`;
  }
  const where = `after ${divergence.steps} steps and ${divergence.events} events: `;
  if (divergence.what === "event")
    return (
      where + sides(({ log }) => (divergence.events < log.count ? `"${log.line(divergence.events)}"` : "nothing more"))
    );
  const { chunk } = divergence;
  return (
    where +
    sides(({ chunks }) =>
      chunk < chunks.step.length
        ? `computes ${chunks.tokens[chunk]} tokens of request ${chunks.request[chunk]} from ${chunks.from[chunk]} on`
        : "computes nothing more",
    )
  );
}
