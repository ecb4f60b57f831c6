import { blockKeysFor } from "../../core/compose.ts";
import { ChunkTable } from "../../core/serving/chunk-table.ts";
import { type Decisions, decisionCounts, firstParting, type Parting } from "../../core/serving/decisions.ts";
import { StepTable } from "../../core/serving/step-table.ts";
import { Engine } from "../../engine/engine.ts";
import { together } from "../served-result.ts";
import { askedTokens, decisionsWith, takeWritten } from "../verification.ts";
import { type Engines, SeededClock } from "./engines.ts";
import type { Checked, FuzzCase, FuzzKind } from "./kinds.ts";
import { configOf, type FuzzParts, type Setup } from "./setup.ts";

/** The simulator against the engine whose steps it is told the durations of, with every audit on. */
export const simEngine = (engines: Engines): FuzzKind => ({
  name: "sim-engine",
  says: "simulator and engine make the same decisions at the same times",
  check: (one, parts) => parted(one, parts, engines),
  command: (setup, file) => verifyCommand(setup, file, engines.tokenBytes),
});

async function parted({ trace, setup }: FuzzCase, parts: FuzzParts, engines: Engines): Promise<Checked> {
  const config = configOf(setup, parts);
  const columns = blockKeysFor(config, trace.unitTokens).of(trace);
  const rest = { hostBlocks: setup.hostBlocks, arrivals: { loop: setup.loop }, audit: true };
  const chunks = new ChunkTable();
  const steps = new StepTable();
  // Where the trace says what is written, end tokens cannot decide; nor is a tail stored whose end nobody knew.
  const isKnown = trace.optional.generatedKeys !== undefined || config.rules["store-tail"] === "true";
  const engine = new Engine(trace, columns, {
    ...config,
    ...rest,
    executor: await engines.executor(setup.blockTokens),
    clock: new SeededClock(setup.clock),
    vocabulary: engines.vocabulary,
    choice: setup.answers === "free" && !isKnown ? { endTokens: engines.endTokens } : {},
    observer: together([steps, chunks]),
    events: true,
  });
  await engine.run();
  const { outcomes } = engine.arrivals.batches[0];
  const decided: Decisions = { log: engine.replica.log!, chunks, outcomes };
  const written = { ...trace, outputTokens: askedTokens(trace, outcomes) };
  const simulated = await decisionsWith(steps, written, columns, { ...config, ...rest });
  takeWritten(simulated, outcomes);
  const parting = firstParting(decided, simulated);
  const trouble = parting && { sort: "parting", message: told(parting, decided, simulated) };
  return { decisions: decisionCounts(decided), trouble };
}

/** Both sides of the first difference, in a sentence. */
function told(parting: Parting, engine: Decisions, simulator: Decisions): string {
  const sides = (side: (of: Decisions) => unknown) => `engine ${side(engine)}, simulator ${side(simulator)}`;
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

/** Durations are then those of the machine. */
function verifyCommand(setup: Setup, file: string, tokenBytes: number): string {
  const bytes = tokenBytes * setup.blockTokens * setup.hostBlocks;
  return [
    `kvlab verify ${file} --model random:tiny`,
    `--index ${setup.index} --eviction ${setup.eviction} --allocator ${setup.allocator} --scheduler ${setup.scheduler}`,
    ...Object.entries(setup.schedulerOptions).map(([name, value]) => `--scheduler-option ${name}=${value}`),
    ...Object.entries(setup.rules).map(([name, value]) => `--rule ${name}=${value}`),
    `--block-size ${setup.blockTokens} --blocks ${setup.blocks} --swap-space ${bytes / 1024}KiB --seed ${setup.seed}`,
    ...(setup.loop === "closed" ? ["--loop closed"] : []),
    ...(setup.answers === "free" ? ["--answers free"] : []),
  ].join(" ");
}
