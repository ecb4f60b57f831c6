import type { BlockCounts } from "../../core/log/cache-state.ts";
import { rowOf } from "../../core/log/event-record.ts";
import type { LoggedEvent } from "../../core/log/event-text.ts";
import type { ReplayConfig } from "../../core/replica/replay.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Input } from "../input.ts";
import { policyReport, traceReport } from "../output/report.ts";
import { version } from "../package.ts";
import type { Capacity } from "../run/capacity.ts";
import type { Configuration } from "./comparison.ts";
import { EventSentences } from "./event-sentences.ts";
import type { Compared, Difference, DifferenceSide } from "./lockstep.ts";
import { asides, type LogComparison } from "./log-comparison.ts";

/** The result at one cache size: the configurations, and the comparison of each but the first with the first. */
export interface ComparedAt {
  readonly capacity: Capacity;
  readonly configs: readonly ReplayConfig[];
  readonly compared: readonly Compared[];
}

/** Maximum number of listed contents that are cached on one side only. */
const shownContents = 5;

/**
 * The document that `compare --first-difference --json` prints: schema first-difference/1. Requests, blocks and configurations
 * count from 0. New versions may add fields, but do not rename any.
 */
export function differenceDocument(
  input: Input,
  blocks: BlockColumns,
  configurations: readonly Configuration[],
  results: readonly ComparedAt[],
) {
  const sentences = new EventSentences(input.trace, blocks);
  const names = namesOf(configurations);
  const [{ configs }] = results;
  const sizes = results.map((result) => {
    const pairs = result.compared.map((compared, i) => pairReport(compared, i + 1, result.configs, sentences, input));
    return {
      blocks: result.configs[0].blocks ?? null,
      share: result.capacity !== "unlimited" && "share" in result.capacity ? result.capacity.share : null,
      identical: pairs.every(({ verdict }) => verdict !== "different"),
      pairs,
    };
  });
  return {
    schema: "first-difference/1",
    kvlab: version,
    trace: traceReport(input),
    seed: configs[0].seed,
    identical: sizes.every(({ identical }) => identical),
    configurations: configs.map((config, i) => ({ name: names[i], ...policyReport(config) })),
    sizes,
  };
}
export type DifferenceDocument = ReturnType<typeof differenceDocument>;
export type PairReport = ReturnType<typeof pairReport>;
export type SideReport = ReturnType<typeof sideReport>;

/** Names of configurations: the plug-ins and rules in which they differ. */
function namesOf(configurations: readonly Configuration[]): string[] {
  const parts: ((configuration: Configuration) => string)[] = [
    ({ parts }) => parts.preset?.name ?? "",
    ({ indexLabel }) => indexLabel,
    ({ label }) => label,
    ({ parts }) => parts.allocator.name,
    ({ parts }) => parts.scheduler.name,
    ({ ruleTexts }) => ruleTexts.join(" "),
  ];
  const differing = parts.filter((name) => new Set(configurations.map(name)).size > 1);
  return configurations.map((configuration) => differing.map((name) => name(configuration)).join(" + "));
}

function pairReport(
  { comparison, difference }: Compared,
  second: number,
  configs: readonly ReplayConfig[],
  sentences: EventSentences,
  input: Input,
) {
  return {
    first: 0,
    second,
    verdict: verdictOf(comparison, difference),
    /** Counts up to the difference, if there is one. */
    compared: {
      requests: comparison.requests,
      events: comparison.events,
      hitBlocks: comparison.hitBlocks,
      evictedBlocks: comparison.evictedBlocks,
      refusedRequests: comparison.refusedRequests,
    },
    /** Differences that are not decisions. */
    asides: asides.map((aside) => {
      const noted = comparison.noted.get(aside);
      return { aside, firstRequest: noted?.first ?? null, requests: noted?.requests ?? 0 };
    }),
    difference: difference ? differenceReport(difference, [configs[0], configs[second]], sentences, input) : null,
  };
}

function verdictOf(comparison: LogComparison, difference: Difference | undefined) {
  if (difference) return "different";
  return comparison.noted.size > 0 ? "same-decisions" : "identical";
}

function differenceReport(
  { request, sides, context }: Difference,
  configs: readonly [ReplayConfig, ReplayConfig],
  sentences: EventSentences,
  { trace }: Input,
) {
  return {
    request: { id: request, inputTokens: trace.inputTokens[request], promptBlocks: sentences.promptBlocks(request) },
    context: context.map((event) => ({ ...eventReport(event), words: sentences.sentence(event) })),
    sides: sides.map((side, i) => sideReport(side, request, configs[i], sentences)),
  };
}

function sideReport(side: DifferenceSide, request: number, config: ReplayConfig, sentences: EventSentences) {
  const { logged, before, after, onlyHere, hitBlocks, refused } = side;
  return {
    event: logged ? eventReport(logged) : null,
    words: logged ? sentences.sentence(logged) : `request ${request} has no further event`,
    hitBlocks,
    refused,
    before: countsReport(before, config),
    after: countsReport(after, config),
    /** Contents that are cached only on this side after the request. */
    onlyHere: {
      count: onlyHere.length,
      first: onlyHere.slice(0, shownContents).map((content) => sentences.occurrence(content)),
    },
  };
}

const eventReport = ({ event, users }: LoggedEvent) => ({
  event: event.name,
  request: event.request,
  ...rowOf(event),
  cachedBy: users?.cachedBy ?? null,
  usedBy: users?.usedBy ?? null,
});

/** Numbers of blocks by state; `free` is null for an unlimited cache. */
function countsReport(counts: BlockCounts, { eviction, blocks }: ReplayConfig) {
  const { private: own, cachedHeld, cachedIdle } = counts;
  const free = eviction.unlimited || blocks === undefined ? null : blocks - own - cachedHeld - cachedIdle;
  return { free, private: own, cachedHeld, cachedIdle };
}
