import { InputError } from "../../core/errors.ts";
import type { EventLog } from "../../core/log/event-log.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import { prefillLoad } from "../../core/serving/step-load.ts";
import type { LogStores } from "../output/log-store.ts";
import { effectiveRules, type RunConfig } from "../run/configuration.ts";
import { simulationConfig } from "../run/simulation.ts";
import type { TraceRunOptions } from "../run/trace-run.ts";
import { type ExplainChoice, type Explained, explained, type ReplicaEvents } from "./explain.ts";
import type { RequestFacts } from "./request-facts.ts";

type ExplainOptions = Pick<TraceRunOptions, "explain" | "explainTop" | "residency">;

/** Whether the options need the event log of the run. */
export const needsLog = ({ explain, explainTop, residency }: ExplainOptions): boolean =>
  explain !== undefined || explainTop !== undefined || residency === true;

/**
 * Whether an event log of a cache with these rules states the missed tokens of every block. A last token that is cached and never
 * a hit looks like one that no block has, if parts of blocks may be hits.
 */
export const isExplainable = (rules: Rules): boolean =>
  rules["full-hit"] !== "rewrite-miss" || rules.partial === "none";

/** The first given option of these, for messages. */
export const explainOption = ({ explain, explainTop }: ExplainOptions): string =>
  explain !== undefined ? "--explain" : explainTop !== undefined ? "--explain-top" : "--residency";

/** @throws InputError if the trace has lengths only */
export function checkContent(options: ExplainOptions, lengthsOnly: boolean): void {
  if (lengthsOnly && needsLog(options))
    throw new InputError(
      `${explainOption(options)} does not support traces of lengths: their prompts have no content that hits or misses`,
    );
}

/** @throws InputError if the log of this configuration cannot be explained */
export function checkExplainable(options: ExplainOptions, config: RunConfig): void {
  const rules = effectiveRules(config);
  if (!needsLog(options) || isExplainable(rules)) return;
  throw new InputError(
    `${explainOption(options)} does not support the rules full-hit=rewrite-miss and partial=${rules.partial} together: the event log does not state which part of the last block was a hit`,
  );
}

/** @throws InputError if the trace has no request of this number */
export function checkRequests({ explain = [] }: ExplainOptions, requestCount: number): void {
  const missing = explain.find((request) => request >= requestCount);
  if (missing !== undefined)
    throw new InputError(`--explain is ${missing}, the trace has ${requestCount} requests, from 0`);
}

/** The explanations of a run that has ended. */
export async function explanationsOf(
  config: RunConfig,
  { facts, stores, logs }: { facts: RequestFacts; stores: LogStores; logs: readonly EventLog[] },
  options: ExplainOptions,
): Promise<Explained> {
  const { explain, explainTop, residency } = options;
  const choice: ExplainChoice | undefined =
    explain === undefined && explainTop === undefined ? undefined : { requests: explain ?? [], top: explainTop ?? 0 };
  const replicas = await replicasOf(config, facts, stores, logs);
  const all = explained(replicas, choice);
  return { explanation: all.explanation, ...(residency && { residency: all.residency }) };
}

async function replicasOf(
  config: RunConfig,
  facts: RequestFacts,
  stores: LogStores,
  logs: readonly EventLog[],
): Promise<ReplicaEvents[]> {
  const { simulated, engine, blockTokens, warmup = 0 } = config;
  const rules = effectiveRules(config);
  const prefillReplicas = simulated?.disaggregation?.prefillReplicas ?? Number.POSITIVE_INFINITY;
  const recomputeNs = await recomputationOf(config);
  return stores.complete(logs).map((store, replica) => ({
    replica,
    facts,
    lookups: {
      blockTokens,
      warmup,
      isCounted: replica < prefillReplicas,
      missesLast: rules["full-hit"] === "rewrite-miss",
    },
    hasClock: simulated !== undefined || engine !== undefined,
    measuredFrom: logs[replica].measuredFrom,
    leavesOnly: rules.victims === "leaf",
    recomputeNs,
    pieces: () => store.pieces(),
  }));
}

/** Duration of a step that computes tokens `[from, to)` of a prompt; undefined without a cost model that depends on the tokens alone. */
async function recomputationOf(config: RunConfig): Promise<ReplicaEvents["recomputeNs"]> {
  if (!config.simulated) return undefined;
  const cost = (await simulationConfig(config, config.simulated)).cost(0);
  if (cost.inOrder || cost.calls) return undefined;
  return (from, to) => cost.stepNs(prefillLoad(from, to, cost.windowTokens));
}
