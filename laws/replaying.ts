import { type ReplayConfig, type ReplayResult, replayTrace } from "../core/replica/replay.ts";
import type { Parts } from "./parts.ts";
import type { ScenarioConfig } from "./scenario.ts";
import { traceOf, type World } from "./worlds.ts";

/** A whole replay, as users run it. */
export function replayOf(
  world: World,
  { blockUnits, ...config }: ScenarioConfig,
  { known }: Pick<Parts, "known">,
  own: Partial<ReplayConfig> = {},
): ReplayResult {
  const [trace] = traceOf(world);
  const blockTokens = world.unitTokens * blockUnits;
  return replayTrace(trace, { scheduler: known.scheduler, ...config, blockTokens, ...own });
}

export const sum = (numbers: Iterable<number>) => [...numbers].reduce((total, n) => total + n, 0);

/** Blocks that each request hits. */
export const hitsOf = ({ requests }: ReplayResult) => [...requests.hitBlocks];
