import { noLoad } from "../../core/serving/step-load.ts";
import type { RunConfig } from "../run/configuration.ts";
import { simulationConfig } from "../run/simulation.ts";
import type { Measured } from "./measure.ts";

/** Tokens of a step from which the rate of matrices is derived. */
const stepTokens = [512, 1024, 2048, 4096, 8192];
/** For steps of other sizes, which may be slightly faster. */
const margin = 0.9;

/** The prompts of a trace, for `fewestReplicas`. */
export interface PromptLoad {
  /** Prompt tokens of all requests, longest first. */
  readonly longest: Float64Array;
  /** From the first to the last arrival; undefined if arrivals depend on the cluster. */
  readonly windowS: number | undefined;
}

/**
 * A lower bound on the number of replicas. Until the limit of TTFT after the last arrival, all prompt tokens must have been computed
 * that even an unlimited cache misses, apart from those of the requests that the percentile leaves out; a replica computes them no faster
 * than in steps of nothing but prefill without attention.
 */
export async function fewestReplicas(config: RunConfig, unloaded: Measured, prompts: PromptLoad): Promise<number> {
  const { simulated } = config;
  const { windowS, longest } = prompts;
  const percentile = simulated?.slo?.percentiles?.ttftMs;
  const limitMs = simulated?.slo?.ttftMs;
  if (windowS === undefined || percentile === undefined || limitMs === undefined || (config.warmup ?? 0) > 0) return 1;
  const { cost } = await simulationConfig(config, simulated!);
  const model = cost(0);
  if (model.inOrder) return 1;
  const tokenNs = Math.min(
    ...stepTokens.map(
      (tokens) => model.stepNs({ ...noLoad(), sequences: 1, prefillSequences: 1, prefillTokens: tokens }) / tokens,
    ),
  );
  const leftOut = Math.ceil(longest.length * (1 - percentile / 100));
  let tokens = unloaded.computedPromptTokens;
  for (let i = 0; i < leftOut; i++) tokens -= longest[i];
  return Math.max(1, Math.ceil((margin * tokens * tokenNs) / 1e9 / (windowS + limitMs / 1e3)));
}
