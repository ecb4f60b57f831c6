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

/** A request in the short form of a test, in order of arrival. Times in steps, lengths in tokens. */
export interface SteppedRequest {
  readonly arrival?: number;
  readonly input: number;
  readonly output: number;
  readonly maxOutput?: number;
  /** The first `tokens` tokens are shared by all requests with the same prefix name; the others are unique. */
  readonly prefix?: readonly [name: string, tokens: number];
  /** All token ids of the prompt, instead of `prefix`. */
  readonly keys?: readonly number[];
  readonly priority?: number;
  readonly session?: number;
  /** Length of the marked prefix. */
  readonly marked?: number;
}

/** Defaults: hash table, LRU, blocks of 4 tokens, no host memory. */
export interface SteppedConfig {
  readonly scheduler: string | SchedulerPlugin;
  readonly options?: Readonly<Record<string, number>>;
  readonly blocks: number | undefined;
  readonly blockTokens?: number;
  readonly hostBlocks?: number;
  /** Sets index, eviction policy, allocator and rules. */
  readonly preset?: Preset;
  readonly rules?: CacheConfig["rules"];
  readonly index?: string;
  readonly eviction?: string;
  readonly seed?: number;
  readonly requests: readonly SteppedRequest[];
  /** Duration of a step; 1 by default. */
  readonly duration?: (plan: StepPlan) => number;
  /** Steps with the same plan are run by `Replica.repeat`. */
  readonly repeats?: boolean;
  /** Called after every arrival. */
  readonly submitted?: () => void;
  /** Called with every step after its plan, before it runs. */
  readonly planned?: (plan: StepPlan, replica: Replica, now: number) => void;
  /** Called after every commit and every repetition. */
  readonly committed?: (replica: Replica, now: number, repeated: number) => void;
  /** A run of more steps fails as an endless loop. */
  readonly mostSteps?: number;
}

export interface SteppedRun {
  /** Start time, items and preemptions, swaps and refusals of each step: "3: A prefill 0–512, B decode · preempts C". */
  readonly steps: readonly string[];
  /** Names of finished requests, in order of their ends. */
  readonly finished: readonly string[];
  /** End time of each finished request. */
  readonly ends: Readonly<Record<string, number>>;
  /** By name of a refused request: the reason. */
  readonly refused: Readonly<Record<string, string>>;
  /** Times of empty steps although requests waited or ran. */
  readonly stalls: readonly number[];
  /** By request: number of output tokens, also of refused ones. */
  readonly generated: readonly number[];
  readonly log: EventLog;
  readonly replica: Replica;
  readonly cache: KvCache;
}

/** Requests are named A, B, C … in order of arrival. */
export const nameOf = (id: number): string => (id < 26 ? String.fromCharCode(65 + id) : `R${id}`);

/** Runs a replica step by step; time is a count of steps. The cache is audited after every plan and every commit. */
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
  let loggedTo = 0;
  const repeatLast = (count: number) => {
    const last = steps[steps.length - 1].replace(/^\d+: /, "").replace(/ · .*$/, "");
    for (let i = 0; i < count; i++) steps.push(`${now + i}: ${last}`);
  };
  for (let next = 0, count = 0; ; count++) {
    if (count > mostSteps)
      throw new Error(`requests have not finished after ${mostSteps} steps:\n${steps.slice(-20).join("\n")}`);
    for (; next < requests.length && trace.arrivalNs[next] <= now; next++) {
      replica.submit(new Request(next, trace, next, columns), now);
      config.submitted?.();
    }
    const plan = replica.plan(now);
    audit(cache, replica.running);
    const events = schedulingEvents(log, loggedTo);
    loggedTo = log.count;
    if (plan.isEmpty) {
      if (events !== "") steps.push(`${now}: nothing${events}`);
      if (!replica.isIdle) stalls.push(now);
      if (next < requests.length) {
        now = Math.max(now + 1, trace.arrivalNs[next]);
        continue;
      }
      if (replica.isIdle) return run;
      throw new Error(`no request runs at ${now}, although requests wait:\n${steps.slice(-20).join("\n")}`);
    }
    steps.push(`${now}: ${itemsOf(plan)}${events}`);
    config.planned?.(plan, replica, now);
    const lasts = duration(plan);
    now += lasts;
    replica.commit(plan, { durationNs: lasts }, now);
    audit(cache, replica.running);
    loggedTo = log.count;
    config.committed?.(replica, now, 0);
    if (!config.repeats) continue;
    const until = next < requests.length ? Math.max(0, trace.arrivalNs[next] - now) : Number.POSITIVE_INFINITY;
    const repeated = Math.min(replica.repeatableSteps(), Math.ceil(until / lasts));
    if (repeated === 0) continue;
    const endsNs = Float64Array.from({ length: repeated }, (_, i) => now + (i + 1) * lasts);
    repeatLast(repeated);
    replica.repeat(repeated, endsNs);
    now = endsNs[repeated - 1];
    audit(cache, replica.running);
    loggedTo = log.count;
    config.committed?.(replica, now, repeated);
  }
}

function itemsOf(plan: StepPlan): string {
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

/** Preemptions, swaps and refusals since this event. */
function schedulingEvents(log: EventLog, since: number): string {
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
