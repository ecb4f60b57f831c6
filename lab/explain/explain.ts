import type { EventColumns } from "../../core/log/event-log.ts";
import { EventRecord } from "../../core/log/event-record.ts";
import type { EvictionBatch, Explanation, RequestExplanation, Residency } from "./explanation.ts";
import { LogReading, type ReplicaLog } from "./log-reading.ts";
import { LookupReader } from "./lookup-reader.ts";
import { NextUses } from "./next-uses.ts";
import type { RequestFacts } from "./request-facts.ts";
import { ResidencyCounts } from "./residency.ts";

/** The log of one replica, which is read more than once. */
export interface ReplicaEvents extends ReplicaLog {
  pieces(): Iterable<EventColumns>;
}

/** The requests to explain. */
export interface ExplainChoice {
  readonly requests: readonly number[];
  /** In addition, this number of requests with the most missed tokens that had been cached. */
  readonly top: number;
}

/** Fields of a report: those that the options of the run ask for. */
export interface Explained {
  readonly residency?: Residency | undefined;
  readonly explanation?: Explanation | undefined;
}

/** Most eviction batches that are listed for chosen requests. */
const fewBatches = 10;

/**
 * Reads the logs of a run that has ended: once for the residency of blocks; with a `choice`, once more in advance for the next use
 * of every block.
 */
export function explained(
  replicas: readonly ReplicaEvents[],
  choice?: ExplainChoice,
): Explained & { readonly residency: Residency } {
  const [{ facts, hasClock }] = replicas;
  const ageUnit = hasClock ? "ns" : "requests";
  const residency = new ResidencyCounts();
  const future = choice && futureOf(replicas, facts);
  const requests = new Set(choice && [...choice.requests, ...topOf(future!.evictedTokens, choice.top)]);
  const readings = replicas.map((replica, i) => {
    const counterfactual = future && { uses: future.uses[i], requests };
    const reading = new LogReading(replica, residency, counterfactual);
    for (const piece of replica.pieces()) reading.read(piece);
    reading.end();
    return reading;
  });
  const report = residency.report(ageUnit);
  if (choice === undefined) return { residency: report };
  const costs = readings.map((reading) => reading.costs);
  const total = (of: "rightBlocks" | "missedBlocks" | "avoidableTokens") =>
    costs.reduce((sum, cost) => sum + cost[of], 0);
  return {
    residency: report,
    explanation: {
      ageUnit,
      missedTokens: { ...residency.missedTokens, notStored: residency.notStoredTokens },
      evictions: {
        blocks: residency.removedBlocks.eviction,
        rightBlocks: total("rightBlocks"),
        missedBlocks: total("missedBlocks"),
        avoidableTokens: total("avoidableTokens"),
      },
      worst: worstOf(
        costs.flatMap(({ batches }) => [...batches]),
        choice.top || fewBatches,
      ),
      requests: [...requests].flatMap((request) => explanationsOf(request, readings, facts)),
    },
  };
}

interface Future {
  /** By replica. */
  readonly uses: readonly NextUses[];
  /** By request, the missed tokens with the reason `evicted`. */
  readonly evictedTokens: Float64Array;
}

/** The first pass over the logs. */
function futureOf(replicas: readonly ReplicaEvents[], facts: RequestFacts): Future {
  const evictedTokens = new Float64Array(facts.count);
  const record = new EventRecord();
  const uses = replicas.map((replica) => {
    const next = new NextUses();
    const lookups = new LookupReader(replica.lookups, facts);
    for (const { kind, timeNs, request, block, key, value } of replica.pieces())
      for (let i = 0; i < kind.length; i++) {
        const event = record.decode(i, kind[i], timeNs[i], request[i], block[i], key[i], value[i]);
        if (!lookups.apply(event)) continue;
        next.add(lookups.content, lookups.request);
        if (lookups.isCounted && lookups.reason === "evicted") evictedTokens[lookups.request] += lookups.missedTokens;
      }
    return next;
  });
  return { uses, evictedTokens };
}

/** The requests with the largest numbers above 0, largest first; of equal ones the earlier first. */
function topOf(numbers: Float64Array, count: number): number[] {
  const requests = Array.from(numbers.keys()).filter((request) => numbers[request] > 0);
  return requests.sort((a, b) => numbers[b] - numbers[a] || a - b).slice(0, count);
}

const worstOf = (batches: readonly EvictionBatch[], count: number): EvictionBatch[] =>
  [...batches].sort((a, b) => b.missedTokens - a.missedTokens || a.at - b.at || a.replica - b.replica).slice(0, count);

/** With separate replicas for prefill and decode, a request is looked up on two. */
function explanationsOf(request: number, readings: readonly LogReading[], facts: RequestFacts): RequestExplanation[] {
  const own = readings.flatMap(({ prompts }) => prompts.explanations.filter((each) => each.request === request));
  return own.length > 0 ? own : [notAdmitted(request, readings, facts)];
}

function notAdmitted(request: number, readings: readonly LogReading[], facts: RequestFacts): RequestExplanation {
  const replica = readings.findIndex(({ prompts }) => prompts.refused.has(request));
  return {
    request,
    ...(replica < 0 ? { replica: null, notAdmitted: "interrupted" } : { replica, notAdmitted: "refused" }),
    inputTokens: facts.inputTokens[request],
    ...{ hitTokens: 0, evictedTokens: 0, runs: [], sharedTokens: 0, sharedWith: null },
  };
}
