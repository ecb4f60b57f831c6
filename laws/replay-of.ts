import { type ReplayConfig, type ReplayResult, replayTrace } from "../core/replica/replay.ts";
import type { PluginSet } from "./plugin-set.ts";
import type { ScenarioConfig } from "./scenario.ts";
import { traceOf, type Workload } from "./workloads.ts";

/** Runs a clock-free replay of the workload. */
export function replayOf(
  workload: Workload,
  { blockUnits, ...config }: ScenarioConfig,
  { reference: known }: Pick<PluginSet, "reference">,
  own: Partial<ReplayConfig> = {},
): ReplayResult {
  const [trace] = traceOf(workload);
  const blockTokens = workload.unitTokens * blockUnits;
  return replayTrace(trace, { scheduler: known.scheduler, ...config, blockTokens, ...own });
}

export const sum = (numbers: Iterable<number>) => [...numbers].reduce((total, n) => total + n, 0);

/** Hit blocks of each request. */
export const hitsOf = ({ requests }: ReplayResult) => [...requests.hitBlocks];
