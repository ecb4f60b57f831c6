import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { optionsOf } from "../../core/replica/compose.ts";
import type { WindowLoad } from "../../sim/cost/kv-bytes.ts";

/** Options of schedulers that limit the running sequences, and the tokens of a step. */
const sequenceLimits = ["max-num-seqs", "max-running-requests", "running-max-req-size", "max-batch-size", "batch-size"];
const tokenLimits = ["max-num-batched-tokens", "max-prefill-tokens", "max-prefill-length", "max-batch-prefill-tokens"];

/** Limits where a scheduler has none. */
const defaults = { sequences: 256, stepTokens: 8192 };

/** The option of a scheduler that limits its running sequences, if it has one that is set. */
export const sequenceLimitOf = (options: Readonly<Record<string, number>>): string | undefined =>
  sequenceLimits.find((name) => (options[name] ?? 0) > 0);

/** The most running sequences and tokens per step that a scheduler plans, by its options. */
export function windowLoadOf(
  scheduler: SchedulerPlugin,
  schedulerOptions: Readonly<Record<string, number>> | undefined,
  blockTokens: number,
): WindowLoad {
  const options = optionsOf("scheduler", scheduler, schedulerOptions);
  const limit = (names: readonly string[], otherwise: number) => {
    const given = names.map((name) => options[name]).find((value) => value !== undefined);
    // 0 stands for no limit.
    return given === undefined || given === 0 ? otherwise : given;
  };
  return {
    sequences: scheduler.name === "naive" ? 1 : limit(sequenceLimits, defaults.sequences),
    stepTokens: limit(tokenLimits, defaults.stepTokens),
    blockTokens,
  };
}
