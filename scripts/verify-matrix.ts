// Every preset with every eviction policy and scheduler, on an engine and in the simulator with the measured step times.

import { InputError } from "../core/errors.ts";
import { seededRandom } from "../core/random.ts";
import { CacheReplay } from "../core/replica/replay.ts";
import { readTrace, type Trace, TraceBuilder } from "../core/trace/trace.ts";
import { defaultBackend } from "../engine/backends.ts";
import { type DecisionCounts, type Divergence, decisionCounts } from "../lab/compare/decisions.ts";
import {
  blockTokensFor,
  deviceOf,
  type Parts,
  partsOf,
  type RunConfig,
  schedulerOptionsOn,
} from "../lab/run/configuration.ts";
import { engineFrom } from "../lab/run/real-engine.ts";
import { verifyDecisions } from "../lab/verify/verification.ts";
import type { Preset } from "../policies/preset.ts";
import { evictionRegistry, presetRegistry, schedulerRegistry } from "../policies/registry.ts";
import { chatSource } from "../traces/generators/chat.ts";

/** A trace and the cache that it is served with. */
export interface Workload {
  readonly name: string;
  readonly about: string;
  readonly trace: Trace;
  /** Cache size. */
  readonly tokens: number;
  /** Undefined: the block size of the preset, if the trace allows it. */
  readonly blockTokens?: number;
  /** All requests arrive at time 0. */
  readonly atOnce?: true;
  /** Factor by which arrivals are faster than recorded. */
  readonly speed?: number;
}

/** "own": that of the preset. */
export const evictions = ["own", "fifo", "lru", "lfu"] as const;
export const schedulers = ["own", "fcfs-chunked", "lpm", "prefix-groups", "efficient-router"] as const;

export interface Combination {
  readonly preset: Preset;
  readonly eviction: (typeof evictions)[number];
  readonly scheduler: (typeof schedulers)[number];
}

export function combinations(): Combination[] {
  return presetRegistry.all.flatMap((preset) =>
    evictions.flatMap((eviction) => schedulers.map((scheduler) => ({ preset, eviction, scheduler }))),
  );
}

/** The same combination with "own" replaced by the preset's plug-in, if the lists contain it; undefined if they do not. */
export function sameAs({ preset, eviction, scheduler }: Combination): Combination | undefined {
  const listed = <Name extends string>(names: readonly Name[], name: string) => names.find((one) => one === name);
  const presetEviction = eviction === "own" ? listed(evictions, preset.eviction.name) : undefined;
  const presetScheduler = scheduler === "own" ? listed(schedulers, preset.scheduler) : undefined;
  if (!presetEviction && !presetScheduler) return undefined;
  return { preset, eviction: presetEviction ?? eviction, scheduler: presetScheduler ?? scheduler };
}

export interface Verified {
  readonly steps: number;
  readonly counts: DecisionCounts;
  readonly divergence: Divergence | undefined;
}

/** The reason why a combination is refused: one plug-in is incompatible with another. */
export interface Refused {
  readonly refused: string;
}

/** Serves a workload with a tiny model on the engine and in the simulator, and compares the decisions. */
export async function verifyOne(workload: Workload, combination: Combination): Promise<Verified | Refused> {
  const { trace, tokens, atOnce, speed } = workload;
  try {
    const parts = configFor(workload, combination);
    const pace = atOnce ? "none" : "busy";
    const engine = engineFrom({ model: "random:tiny", threads: 1, pace, ...(speed !== undefined && { speed }) }, trace);
    const config = { ...parts, schedulerOptions: schedulerOptionsOn(parts, deviceOf(undefined, engine)) };
    const blocks = CacheReplay.blockKeys(config, trace);
    const sized = { ...config, blocks: Math.floor(tokens / config.blockTokens) };
    const { engine: decisions, steps, divergence } = await verifyDecisions(trace, blocks, sized, engine);
    return { steps: steps.durationNs.length, counts: decisionCounts(decisions), divergence };
  } catch (error) {
    if (error instanceof InputError) return { refused: error.message };
    throw error;
  }
}

function configFor({ trace, blockTokens }: Workload, { preset, eviction, scheduler }: Combination): Parts & RunConfig {
  const parts = partsOf(
    {
      preset,
      index: preset.index,
      eviction: eviction === "own" ? preset.eviction : evictionRegistry.get(eviction),
      ...(scheduler !== "own" && { scheduler: schedulerRegistry.get(scheduler) }),
    },
    {},
    defaultBackend.name,
  );
  return { ...parts, blockTokens: blockTokensFor(trace, blockTokens, preset), blocks: undefined, seed: 1 };
}

/** Three generated workloads of `requests` requests each. */
export async function generated(requests: number): Promise<Workload[]> {
  const chat = {
    ...{ requests, seed: 1, unitTokens: 4, systemPrompts: 6, systemTokens: 40, turns: 4 },
    ...{ userTokens: 12, outputTokens: 10, sessionsPerS: 40, thinkS: 0.1, outputTokensPerS: 1000 },
  };
  const burst = conversations(requests, 2);
  return [
    {
      name: "chat",
      about: "sessions with system prompts, content ids of 4 tokens; a third of the contents fits in the cache",
      trace: await readTrace(chatSource(chat)),
      tokens: 512,
    },
    {
      name: "tokens",
      about: "token ids, recorded outputs that later turns repeat, priorities; the preset's block size",
      trace: conversations(requests, 1),
      tokens: 768,
    },
    {
      name: "burst",
      about: "all requests at once, long outputs, a cache for a tenth of the tokens that they need",
      trace: burst,
      tokens: Math.floor(neededTokens(burst) / 10),
      blockTokens: 4,
      atOnce: true,
    },
  ];
}

/** Tokens of all requests at their ends, without sharing. */
const neededTokens = ({ inputTokens, outputTokens }: Trace) =>
  inputTokens.reduce((sum, tokens, row) => sum + tokens + outputTokens[row], 0);

/** Token sequences: a prompt is new, continues an earlier request, is a prefix of one, or repeats one. */
function conversations(requests: number, seed: number): Trace {
  const random = seededRandom(seed);
  const own = (count: number) => Array.from({ length: count }, () => random.below(512));
  const builder = new TraceBuilder(1);
  const systems = [own(22), own(33)];
  const earlier: number[][] = [own(30)];
  let arrivalNs = 0;
  for (let i = 0; i < requests; i++) {
    const before = earlier[random.below(earlier.length)];
    const kind = random.below(4);
    const keys =
      kind === 0
        ? [...systems[random.below(2)], ...own(1 + random.below(30))]
        : kind === 1
          ? [...before, ...own(1 + random.below(12))].slice(0, 120)
          : kind === 2
            ? before.slice(0, 1 + random.below(before.length))
            : before;
    const output = own(1 + random.below(40));
    earlier.push([...keys, ...output]);
    builder.add({
      arrivalNs,
      inputTokens: keys.length,
      outputTokens: output.length,
      maxOutputTokens: output.length + random.below(4),
      keys,
      generatedKeys: output,
      session: 1 + random.below(8),
      priority: random.below(3),
      markedTokens: Math.min(16, keys.length),
    });
    if (random.below(3) === 0) arrivalNs += random.below(8_000_000);
  }
  return builder.take();
}
