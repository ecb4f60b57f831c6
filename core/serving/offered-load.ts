import { type AdmissionLimit, admissionLimits } from "../plugins/scheduler.ts";
import { measuredRequests, type Served, type ServedReplica } from "./measured-requests.ts";

/** The limit that binds: a limit of admissions, the device (`compute`), or none of them (`load`). */
export type Limit = AdmissionLimit | "compute" | "load";

/**
 * The offered load and whether the run reaches a steady state under it. The window is the time from the first arrival to the
 * last one, the drain the time after it until the last request ends. Rates are null if all requests arrive at once.
 */
export interface OfferedLoad {
  readonly windowMs: number;
  readonly drainMs: number;
  /** Arriving requests and their prompt and output tokens, refused requests included, per second of the window. */
  readonly offeredRequestsPerS: number | null;
  readonly offeredTokensPerS: number | null;
  /** Requests that finish in the window, and their output tokens, per second of the window. */
  readonly servedRequestsPerS: number | null;
  readonly servedOutputTokensPerS: number | null;
  /** Requests that finish in the window after its ramp, which is as long as the drain. */
  readonly steadyRequests: number;
  /** The drain is at most `longestDrain` of the window, and `steadyRequests` at least `fewestSteady`. */
  readonly steady: boolean;
  readonly limitedBy: Limit;
  /** Share of the time in which requests arrive or wait, by the limit that the waiting ones are subject to. */
  readonly waiting: Readonly<Record<AdmissionLimit, number>>;
}

/** Longest drain of a steady run, as a share of the window: with a longer one, latencies grow with the length of the trace. */
export const longestDrain = 0.25;
/** Fewest requests that a steady run finishes between its ramp and its drain. */
export const fewestSteady = 100;
/** Share of the time in which requests wait, from which a limit of admissions binds. */
const waitingShare = 0.5;
/** Share of the time in which a step runs, from which the device binds. */
const busyShare = 0.95;

/** The offered load of the requests that have ended, without the first `warmup` requests of the trace. */
export function offeredLoad(run: Served, warmup = 0): OfferedLoad {
  const times = arrivalTimes(run, warmup);
  const { firstNs, lastNs, endNs } = times;
  const windowNs = lastNs - firstNs;
  const drainNs = endNs - lastNs;
  const served = servedIn(run, warmup, firstNs + drainNs, lastNs);
  const perS = (count: number) => (windowNs === 0 ? null : count / (windowNs / 1e9));
  const waiting = waitingShares(run.replicas, firstNs, lastNs);
  return {
    windowMs: windowNs / 1e6,
    drainMs: drainNs / 1e6,
    offeredRequestsPerS: perS(times.requests),
    offeredTokensPerS: perS(times.tokens),
    servedRequestsPerS: perS(served.requests),
    servedOutputTokensPerS: perS(served.outputTokens),
    steadyRequests: served.afterRamp,
    steady: drainNs <= longestDrain * windowNs && served.afterRamp >= fewestSteady,
    // A request is refused if the cache is too small for it.
    limitedBy: 2 * times.refused > times.requests ? "blocks" : limitOf(run.replicas, waiting, windowNs, drainNs),
    waiting,
  };
}

/** First and last arrival and last end of the measured requests, their number, those that were refused, and their tokens. */
function arrivalTimes(run: Served, warmup: number) {
  let firstNs = Number.POSITIVE_INFINITY;
  let lastNs = 0;
  let endNs = 0;
  let requests = 0;
  let refused = 0;
  let tokens = 0;
  for (const { outcomes, row } of measuredRequests(run, warmup)) {
    const { arrivalNs, finishedNs, inputTokens, outputTokens } = outcomes;
    firstNs = Math.min(firstNs, arrivalNs[row]);
    lastNs = Math.max(lastNs, arrivalNs[row]);
    endNs = Math.max(endNs, finishedNs[row]);
    requests++;
    refused += outcomes.refused[row];
    tokens += inputTokens[row] + outputTokens[row];
  }
  return { firstNs: requests === 0 ? 0 : firstNs, lastNs, endNs, requests, refused, tokens };
}

/** Requests that were served until the end of the window, and those of them that finished after the ramp. */
function servedIn(run: Served, warmup: number, rampEndNs: number, windowEndNs: number) {
  let requests = 0;
  let outputTokens = 0;
  let afterRamp = 0;
  for (const { outcomes, row } of measuredRequests(run, warmup)) {
    const finishedNs = outcomes.finishedNs[row];
    if (outcomes.refused[row] === 1 || finishedNs > windowEndNs) continue;
    requests++;
    outputTokens += outcomes.outputTokens[row];
    if (finishedNs > rampEndNs) afterRamp++;
  }
  return { requests, outputTokens, afterRamp };
}

/** Waiting time by limit, as shares of the time from the first arrival until no request arrives or waits any more. */
function waitingShares(
  replicas: readonly ServedReplica[],
  firstNs: number,
  lastNs: number,
): Record<AdmissionLimit, number> {
  const loadedNs = replicas.reduce((end, { lastWaitNs }) => Math.max(end, lastWaitNs), lastNs) - firstNs;
  const share = (limit: AdmissionLimit) => {
    const waitNs = replicas.reduce((sum, { waitNs }) => sum + waitNs[limit], 0);
    return loadedNs <= 0 ? 0 : Math.min(1, waitNs / (loadedNs * replicas.length));
  };
  return {
    "max-num-seqs": share("max-num-seqs"),
    "token-budget": share("token-budget"),
    blocks: share("blocks"),
    scheduler: share("scheduler"),
  };
}

/**
 * Where requests wait most of the time, the limit that they wait for longest. Otherwise the device, if it is always busy and the
 * drain shows that it is slower than the arrivals.
 */
function limitOf(
  replicas: readonly ServedReplica[],
  waiting: Readonly<Record<AdmissionLimit, number>>,
  windowNs: number,
  drainNs: number,
): Limit {
  const total = admissionLimits.reduce((sum, limit) => sum + waiting[limit], 0);
  if (total >= waitingShare)
    return admissionLimits.reduce((most, limit) => (waiting[limit] > waiting[most] ? limit : most));
  const busyNs = replicas.reduce((sum, each) => sum + each.busyNs, 0) / replicas.length;
  const isBusy = busyNs >= busyShare * (windowNs + drainNs);
  return isBusy && drainNs > longestDrain * windowNs ? "compute" : "load";
}
