import { isDeepStrictEqual } from "node:util";
import { ChunkTable } from "../../core/serving/chunk-table.ts";
import { StepTable } from "../../core/serving/step-table.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { Engine, type EngineConfig } from "../../engine/engine.ts";
import type { TokenChoice } from "../../engine/tokens.ts";
import { type Decisions, type Divergence, firstDivergence } from "../compare/decisions.ts";
import { type OperationResult, OperationsPlayer } from "../run/operations-file.ts";
import { type Engines, SeededClock } from "./engines.ts";
import type { FuzzCase, Trouble } from "./kinds.ts";
import type { configOf, Setup } from "./setup.ts";

/** What one side of a comparison came to. */
export interface Side extends Decisions {
  readonly operations: readonly OperationResult[];
}

export interface ServedCase extends Side {
  readonly steps: StepTable;
}

/** Serves a case with the tiny model, with every audit on. @throws InputError if no engine takes the configuration */
export async function onEngine(
  { trace, operations }: FuzzCase,
  { hostBlocks, loop, clock }: Pick<Setup, "hostBlocks" | "loop" | "clock">,
  config: ReturnType<typeof configOf>,
  columns: BlockColumns,
  engines: Engines,
  own: Pick<EngineConfig, "choice" | "onToken">,
): Promise<ServedCase> {
  const chunks = new ChunkTable();
  const steps = new StepTable();
  const player = new OperationsPlayer(operations, trace, columns);
  const engine = new Engine(trace, columns, {
    ...config,
    ...own,
    hostBlocks,
    arrivals: { loop },
    executor: await engines.executor(config.blockTokens),
    clock: new SeededClock(clock),
    vocabulary: engines.vocabulary,
    observers: [steps, chunks],
    before: (...args) => player.before(...args),
    audit: true,
    events: true,
  });
  await engine.run();
  const { outcomes } = engine.arrivals.batches[0];
  return { log: engine.replica.log!, chunks, outcomes, steps, operations: player.results };
}

/**
 * What ends an output. Where the trace has generated keys, or unknown tails are stored, end tokens cannot decide.
 */
export function choiceOf({ answers, rules }: Setup, { optional }: Trace, { endTokens }: Engines): TokenChoice {
  const isKnown = optional.generatedKeys !== undefined || rules["store-tail"] === "true";
  return answers === "free" && !isKnown ? { endTokens } : {};
}

/** Where two sides part, in a sentence. */
export function divergenceOf(names: readonly [string, string], a: Side, b: Side): Trouble | undefined {
  const sides = (side: (of: Side) => unknown) => `${names[0]} ${side(a)}, ${names[1]} ${side(b)}`;
  const parting = firstDivergence(a, b);
  if (parting) return { sort: "parting", message: textOf(parting, sides) };
  const at = a.operations.findIndex((operation, i) => !isDeepStrictEqual(operation, b.operations[i]));
  if (at < 0 && a.operations.length === b.operations.length) return undefined;
  const message = `operation ${at}: ${sides(({ operations }) => JSON.stringify(operations[at]))}`;
  return { sort: "operation", message };
}

/** Both sides of the first difference. */
function textOf(parting: Divergence, sides: (side: (of: Decisions) => unknown) => string): string {
  if (parting.what === "outcome") {
    const { request, name } = parting;
    return `${name} of request ${request}: ${sides(({ outcomes }) => outcomes[name][request])}`;
  }
  const where = `after ${parting.steps} steps and ${parting.events} events: `;
  if (parting.what === "event")
    return where + sides(({ log }) => (parting.events < log.count ? `"${log.line(parting.events)}"` : "nothing more"));
  const { chunk } = parting;
  return (
    where +
    sides(({ chunks }) =>
      chunk < chunks.step.length
        ? `computes ${chunks.tokens[chunk]} tokens of request ${chunks.request[chunk]} from ${chunks.from[chunk]} on`
        : "computes nothing more",
    )
  );
}
