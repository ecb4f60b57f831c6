import { blockKeysFor } from "../../core/replica/compose.ts";
import { defaultBackend } from "../../engine/backends.ts";
import { decisionCounts } from "../compare/decisions.ts";
import { OperationsPlayer } from "../run/operations-file.ts";
import { copyOutputLengths, decisionsWith, simulatedLengths } from "../verify/verification.ts";
import type { Engines } from "./engines.ts";
import type { Checked, Failure, FuzzCase, FuzzKind } from "./kinds.ts";
import { choiceOf, divergenceOf, onEngine, type ServedCase } from "./serving.ts";
import { configOf, type FuzzParts, policyOptions, type Setup } from "./setup.ts";

/**
 * Compares the engine with the simulator, which uses the engine's step durations, with all audits; and the contents of the engine's
 * pool with recomputed ones.
 */
export const simEngine = (engines: Engines): FuzzKind => ({
  name: "sim-engine",
  property:
    "simulator and engine make the same decisions at the same times, with the contents of a run without a cache",
  check: (one, parts) => compared(one, parts, engines),
  command: (...args) => verifyCommand(engines, ...args),
});

async function compared(one: FuzzCase, parts: FuzzParts, engines: Engines): Promise<Checked> {
  const { trace, setup, operations } = one;
  const config = configOf(setup, parts);
  const columns = blockKeysFor(config, trace.unitTokens).of(trace);
  const choice = choiceOf(setup, trace, engines);
  // Otherwise blocks have the contents of the cases before, which may by chance be the right ones.
  await engines.fillWithNoise(setup.blockTokens);
  const engine = await onEngine(one, setup, config, columns, engines, { choice });
  const { steps, outcomes } = engine;
  const written = { ...trace, outputTokens: simulatedLengths(trace, outcomes) };
  const player = new OperationsPlayer(operations, trace, columns);
  const simulated = await decisionsWith(steps, written, columns, {
    ...config,
    hostBlocks: setup.hostBlocks,
    arrivals: { loop: setup.loop },
    audit: true,
    before: (...args) => player.before(...args),
  });
  copyOutputLengths(simulated, outcomes);
  const simulator = { ...simulated, operations: player.results };
  const failure = divergenceOf(["engine", "simulator"], engine, simulator) ?? contentsFailure(engine);
  return { decisions: decisionCounts(engine), failure };
}

function contentsFailure({ difference }: ServedCase): Failure | undefined {
  if (!difference) return undefined;
  const { what, request, token, step, at } = difference;
  const place = at ? ` in layer ${at.layer}, block ${at.block}` : "";
  const message = `after step ${step} the ${what} of token ${token} of request ${request}${place} differ from recomputed ones`;
  return { category: "contents", message };
}

/** `verify` measures step durations instead of drawing them, so its decisions may differ. */
function verifyCommand({ backend, tokenBytes }: Engines, setup: Setup, file: string, operationsFile?: string): string {
  const bytes = tokenBytes * setup.blockTokens * setup.hostBlocks;
  return [
    `kvlab verify ${file} --model random:tiny`,
    ...(backend.name === defaultBackend.name ? [] : [`--target ${backend.name}`]),
    policyOptions(setup, operationsFile),
    `--swap-space ${bytes / 1024}KiB`,
    ...(setup.loop === "closed" ? ["--loop closed"] : []),
    ...(setup.answers === "free" ? ["--output-lengths free"] : []),
    "--contents --contents-share 100%",
  ].join(" ");
}
