import { audit } from "../../core/cache/audit.ts";
import type { KvCache } from "../../core/cache/kv-cache.ts";
import { Request } from "../../core/cache/request.ts";
import { EventLog } from "../../core/log/event-log.ts";
import { EventKind } from "../../core/log/events.ts";
import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { blockKeysFor, type CacheConfig, createCache, createScheduler } from "../../core/replica/compose.ts";
import { Replica } from "../../core/replica/replica.ts";
import type { StepPlan } from "../../core/replica/step.ts";
import { TraceBuilder } from "../../core/trace/trace.ts";
import type { Preset } from "../../policies/preset.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry, schedulerRegistry } from "../../policies/registry.ts";

/** A request as a test writes it; they must come in order of arrival. Times are steps, lengths tokens. */
export interface SteppedRequest {
  readonly arrival?: number;
  readonly input: number;
  readonly output: number;
  readonly maxOutput?: number;
  /** Its first so many tokens are those of everybody who names the same prefix; the others are its own. */
  readonly prefix?: readonly [name: string, tokens: number];
  /** All tokens of its prompt, instead. */
  readonly keys?: readonly number[];
  readonly priority?: number;
  readonly session?: number;
  /** Length of the prefix that its user has marked. */
  readonly marked?: number;
}

/** What is not said: a hash table under LRU, blocks of 4 tokens, nothing on the host. */
export interface SteppedConfig {
  readonly scheduler: string | SchedulerPlugin;
  readonly options?: Readonly<Record<string, number>>;
  readonly blocks: number | undefined;
  readonly blockTokens?: number;
  readonly hostBlocks?: number;
  /** Index, eviction, allocator and rules of a real system. */
  readonly preset?: Preset;
  readonly rules?: CacheConfig["rules"];
  readonly index?: string;
  readonly eviction?: string;
  readonly seed?: number;
  readonly requests: readonly SteppedRequest[];
  /** How long a step lasts; 1 by default. */
  readonly duration?: (plan: StepPlan) => number;
  /** Steps that repeat themselves are done at once. */
  readonly repeats?: boolean;
  /** Called after every arrival. */
  readonly submitted?: () => void;
  /** Sees every step after it was planned, before it runs. */
  readonly planned?: (plan: StepPlan, replica: Replica, now: number) => void;
  /** Sees every commit, or repetition. */
  readonly committed?: (replica: Replica, now: number, repeated: number) => void;
  /** More steps than this are taken for an endless loop. */
  readonly mostSteps?: number;
}

export interface SteppedRun {
  /** The time at which a step begins, what is in it, and who came or went before it: "3: A prefill 0–512, B decode". */
  readonly steps: readonly string[];
  /** Names in the order in which they ended. */
  readonly finished: readonly string[];
  /** The time at which each of them ended. */
  readonly ends: Readonly<Record<string, number>>;
  /** Why, by name. */
  readonly refused: Readonly<Record<string, string>>;
  /** Times at which somebody waited or ran, and the step was empty. */
  readonly stalls: readonly number[];
  /** Tokens that each one's answer had, also of those refused. */
  readonly generated: readonly number[];
  readonly log: EventLog;
  readonly replica: Replica;
  readonly cache: KvCache;
}

/** Requests are called A, B, C … in the order in which they come. */
export const nameOf = (id: number): string => (id < 26 ? String.fromCharCode(65 + id) : `R${id}`);

/**
 * A replica step by step, in a time that counts steps. Every invariant of the cache is checked after every plan and
 * every commit.
 */
export function stepped(config: SteppedConfig): SteppedRun {
  const { blockTokens = 4, requests, preset, seed = 1, duration = () => 1, mostSteps = 20_000 } = config;
  const cacheConfig: CacheConfig = {
    index: config.index === undefined && preset ? preset.index : indexRegistry.get(config.index ?? "hash-table"),
    eviction:
      config.eviction === undefined && preset ? preset.eviction : evictionRegistry.get(config.eviction ?? "lru"),
    allocator: preset?.allocator ?? allocatorRegistry.get("block"),
    blockTokens,
    blocks: config.blocks,
    rules: { ...preset?.rules, ...config.rules },
    seed,
  };
  const trace = traceOf(requests);
  const columns = blockKeysFor(cacheConfig, 1).of(trace);
  const log = new EventLog();
  const cache = createCache(cacheConfig, log);
  const plugin = typeof config.scheduler === "string" ? schedulerRegistry.get(config.scheduler) : config.scheduler;
  const finished: string[] = [];
  const ends: Record<string, number> = {};
  const refused: Record<string, string> = {};
  const generated = requests.map(() => 0);
  const replica = new Replica({
    cache,
    scheduler: createScheduler({ scheduler: plugin, schedulerOptions: config.options, seed }, cache.rules),
    log,
    generation: "step",
    hostBlocks: config.hostBlocks ?? 0,
    listener: {
      finished({ request, generatedTokens }, now) {
        finished.push(nameOf(request.id));
        ends[nameOf(request.id)] = now;
        generated[request.id] = generatedTokens;
      },
      refused({ request, generatedTokens }, why) {
        refused[nameOf(request.id)] = why;
        generated[request.id] = generatedTokens;
      },
    },
  });

  const steps: string[] = [];
  const stalls: number[] = [];
  const run = { steps, stalls, finished, ends, refused, generated, log, replica, cache };
  let now = 0;
  let told = 0;
  const asBefore = (count: number) => {
    const last = steps[steps.length - 1].replace(/^\d+: /, "").replace(/ · .*$/, "");
    for (let i = 0; i < count; i++) steps.push(`${now + i}: ${last}`);
  };
  for (let next = 0, count = 0; ; count++) {
    if (count > mostSteps) throw new Error(`no end after ${mostSteps} steps:\n${steps.slice(-20).join("\n")}`);
    for (; next < requests.length && trace.arrivalNs[next] <= now; next++) {
      replica.submit(new Request(next, trace, next, columns), now);
      config.submitted?.();
    }
    const plan = replica.plan(now);
    audit(cache, replica.running);
    const events = happened(log, told);
    told = log.count;
    if (plan.isEmpty) {
      if (events !== "") steps.push(`${now}: nothing${events}`);
      if (!replica.isIdle) stalls.push(now);
      if (next < requests.length) {
        now = Math.max(now + 1, trace.arrivalNs[next]);
        continue;
      }
      if (replica.isIdle) return run;
      throw new Error(`nobody runs at ${now}, and somebody waits:\n${steps.slice(-20).join("\n")}`);
    }
    steps.push(`${now}: ${inWords(plan)}${events}`);
    config.planned?.(plan, replica, now);
    const lasts = duration(plan);
    now += lasts;
    replica.commit(plan, { durationNs: lasts }, now);
    audit(cache, replica.running);
    told = log.count;
    config.committed?.(replica, now, 0);
    if (!config.repeats) continue;
    const until = next < requests.length ? Math.max(0, trace.arrivalNs[next] - now) : Number.POSITIVE_INFINITY;
    const repeated = Math.min(replica.repeatableSteps(), Math.ceil(until / lasts));
    if (repeated === 0) continue;
    const endsNs = Float64Array.from({ length: repeated }, (_, i) => now + (i + 1) * lasts);
    asBefore(repeated);
    replica.repeat(repeated, endsNs);
    now = endsNs[repeated - 1];
    audit(cache, replica.running);
    told = log.count;
    config.committed?.(replica, now, repeated);
  }
}

function inWords(plan: StepPlan): string {
  const items = plan.items.slice(0, plan.count).map(({ sequence, from, tokens, prefill }) => {
    const name = nameOf(sequence.request.id);
    return prefill ? `${name} prefill ${from}–${from + tokens}` : `${name} decode`;
  });
  return items.join(", ");
}

const eventWords = new Map<number, string>([
  [EventKind.preempt, "preempts"],
  [EventKind.swapOut, "swaps out"],
  [EventKind.swapIn, "swaps in"],
  [EventKind.refuse, "refuses"],
]);

/** Who was sent back or away, or came back from the host, since this event. */
function happened(log: EventLog, since: number): string {
  const { kind, request } = log.columns();
  let words = "";
  for (let at = since; at < kind.length; at++) {
    const word = eventWords.get(kind[at]);
    if (word) words += ` · ${word} ${nameOf(request[at])}`;
  }
  return words;
}

/** The requests as a trace of token ids. */
function traceOf(requests: readonly SteppedRequest[]) {
  const builder = new TraceBuilder(1);
  const tokens = new Map<string, number>();
  const token = (of: string, i: number): number => {
    const name = `${of} ${i}`;
    if (!tokens.has(name)) tokens.set(name, tokens.size);
    return tokens.get(name)!;
  };
  requests.forEach(({ arrival = 0, input, output, ...request }, id) => {
    const { prefix: [name, shared] = ["", 0], keys, maxOutput, priority, session, marked } = request;
    const own = (i: number) => token(nameOf(id), i);
    builder.add({
      arrivalNs: arrival,
      inputTokens: input,
      outputTokens: output,
      maxOutputTokens: maxOutput ?? output,
      keys: keys ?? Array.from({ length: input }, (_, i) => (i < shared ? token(name, i) : own(i))),
      generatedKeys: Array.from({ length: output }, (_, i) => own(input + i)),
      ...(priority !== undefined && { priority }),
      ...(session !== undefined && { session }),
      ...(marked !== undefined && { markedTokens: marked }),
    });
  });
  return builder.take();
}
