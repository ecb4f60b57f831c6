import { audit } from "../../core/cache/audit.ts";
import type { BlockCopy } from "../../core/cache/block-refs.ts";
import type { KvCache } from "../../core/cache/kv-cache.ts";
import { Request, Sequence } from "../../core/cache/request.ts";
import { EventLog } from "../../core/log/event-log.ts";
import { EventKind } from "../../core/log/events.ts";
import type { EvictionPlugin, IndexPlugin, SchedulerContext } from "../../core/plugins/index.ts";
import { blockKeysFor, type CacheConfig, createCache } from "../../core/replica/compose.ts";
import { Replica } from "../../core/replica/replica.ts";
import type { BlockKeys } from "../../core/trace/content.ts";
import { TraceBuilder, type TraceRow } from "../../core/trace/trace.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry, presetRegistry } from "../../policies/registry.ts";

/** Settings that differ from the default: hash table, LRU, 16 blocks of 4 tokens. Plug-ins by name or as objects. */
export interface LiveConfig {
  readonly index?: string | IndexPlugin;
  readonly eviction?: string | EvictionPlugin;
  readonly allocator?: string;
  readonly blockTokens?: number;
  readonly blocks?: number | undefined;
  readonly rules?: CacheConfig["rules"];
  readonly hash?: NonNullable<CacheConfig["hash"]>;
  /** Letters per content id; 1: the trace has token ids. */
  readonly unitTokens?: number;
  /** Every request has a namespace, 0 by default. */
  readonly namespaces?: boolean;
}

/** Fields of a request besides its prompt. */
export type RequestOptions = Partial<
  Pick<TraceRow, "namespace" | "session" | "markedTokens" | "priority" | "retentionNs" | "maxOutputTokens"> &
    Pick<TraceRow, "tool" | "nextUseSteps" | "keepNs" | "sessionEnd">
> & {
  /** Its output; a letter is a token. */
  readonly output?: string;
};

/** A replica with its cache, driven step by step by a test. A letter is a token. */
export class LiveCache {
  readonly cache: KvCache;
  readonly replica: Replica;
  readonly log = new EventLog();
  now = 0;
  readonly #keys: BlockKeys;
  readonly #builder: TraceBuilder;
  readonly #spaces: boolean;
  readonly #units = new Map<string, number>();
  readonly #textOf = new Map<number, string>();
  #schedule: (context: SchedulerContext) => void = scheduleAll;
  #requestCount = 0;

  constructor(own: LiveConfig = {}) {
    const { index = "hash-table", eviction = "lru", unitTokens = 1, namespaces = false, rules = {} } = own;
    const config: CacheConfig = {
      index: typeof index === "string" ? indexRegistry.get(index) : index,
      eviction: typeof eviction === "string" ? evictionRegistry.get(eviction) : eviction,
      allocator: allocatorRegistry.get(own.allocator ?? "block"),
      blockTokens: own.blockTokens ?? 4,
      blocks: "blocks" in own ? own.blocks : 16,
      rules,
      seed: 1,
      namespaces,
      ...(own.hash && { hash: own.hash }),
    };
    this.#keys = blockKeysFor(config, unitTokens);
    this.#builder = new TraceBuilder(unitTokens);
    this.#spaces = namespaces;
    this.cache = createCache(config, this.log);
    const plan = (context: SchedulerContext) => this.#schedule(context);
    this.replica = new Replica({ cache: this.cache, log: this.log, generation: "step", scheduler: { plan } });
  }

  /** A request that is in no queue yet. */
  request(prompt: string, { output = ".", ...options }: RequestOptions = {}): Request {
    const { namespace = 0 } = options;
    const isTokens = this.#builder.unitTokens === 1;
    this.#builder.add({
      arrivalNs: this.now,
      inputTokens: prompt.length,
      outputTokens: output.length,
      keys: isTokens ? codes(prompt) : this.#contentIds(prompt),
      ...(isTokens && { generatedKeys: codes(output) }),
      ...options,
      ...(this.#spaces && { namespace }),
    });
    const trace = this.#builder.take();
    const request = new Request(this.#requestCount++, trace, 0, this.#keys.of(trace));
    const wholeText = prompt + output;
    for (let i = 0; i < request.knownBlocks; i++) {
      const end = (i + 1) * this.cache.blockTokens;
      const text = wholeText.slice(0, i < request.promptBlocks ? Math.min(end, prompt.length) : end);
      this.#textOf.set(request.keys[request.keyStart + i], this.#spaces ? `${namespace}:${text}` : text);
    }
    return request;
  }

  /** A prefix for an operator-initiated operation; it is marked, for indexes that store only marked prefixes. */
  prefix(text: string, options: RequestOptions = {}): Sequence {
    return new Sequence(this.request(text, { markedTokens: text.length, ...options }));
  }

  /** Appends a request to the waiting queue. The sequence is reused for another request once it has finished. */
  arrive(prompt: string, options?: RequestOptions): Sequence {
    return this.replica.submit(this.request(prompt, options), this.now);
  }

  /** Serves a request until it finishes; returns its hit tokens. */
  run(prompt: string, options?: RequestOptions): number {
    const sequence = this.arrive(prompt, options);
    this.step();
    const { cachedTokens } = sequence;
    this.finish();
    return cachedTokens;
  }

  /** Plans and commits one step, of all requests unless `schedule` is given; returns the block copies before the step. */
  step(schedule?: (context: SchedulerContext) => void): BlockCopy[] {
    const plan = this.plan(schedule);
    const copies = [...plan.copies];
    this.replica.commit(plan, { durationNs: 1 }, this.now);
    this.audit();
    return copies;
  }

  /** Plans a step without running it. */
  plan(schedule: (context: SchedulerContext) => void = scheduleAll) {
    this.#schedule = schedule;
    const plan = this.replica.plan(++this.now);
    this.audit();
    return plan;
  }

  /** Runs steps until no request waits or runs. */
  finish(): void {
    for (let steps = 0; !this.replica.isIdle; steps++) {
      if (steps > 10_000)
        throw new Error("requests do not finish: a waiting request needs more blocks than the cache has");
      this.step();
    }
  }

  /** Hit tokens that an admission of this prompt would have. */
  hits(prompt: string, options?: RequestOptions): number {
    return this.replica.cachedTokens(this.request(prompt, options));
  }

  audit(): void {
    audit(this.cache, this.replica.running);
  }

  /** For each cached block, in order of block numbers, the text up to its end, from the event log. */
  cachedTexts(): string[] {
    const inBlock = new Map<number, string>();
    for (const { block, key } of this.published()) inBlock.set(block, this.#textOf.get(key)!);
    return [...this.cache.index.blocks()].sort((a, b) => a - b).map((block) => inBlock.get(block)!);
  }

  /** All publications so far. */
  *published(): Iterable<{ readonly request: number; readonly block: number; readonly key: number }> {
    const { kind, request, block, key } = this.log.columns();
    for (let at = 0; at < kind.length; at++)
      if (kind[at] === EventKind.publish) yield { request: request[at], block: block[at], key: key[at] };
  }

  /** The text up to the end of the block with this content id. */
  textOf(key: number): string {
    return this.#textOf.get(key)!;
  }

  /** States and reference counts of all blocks, the free list and the cached blocks: unchanged by a refused operation. */
  state(): unknown {
    const { cache } = this;
    return {
      words: [...cache.pool.words],
      free: [...cache.freeList()],
      stored: [...cache.index.blocks()].sort((a, b) => a - b),
      evictable: cache.index.evictableBlocks,
      entries: cache.index.entryCount,
    };
  }

  /** Content ids of the prompt: one for each distinct prefix of whole units. */
  #contentIds(prompt: string): number[] {
    const { unitTokens } = this.#builder;
    const ids: number[] = [];
    for (let end = unitTokens; end < prompt.length + unitTokens; end += unitTokens) {
      const prefix = prompt.slice(0, end);
      if (!this.#units.has(prefix)) this.#units.set(prefix, this.#units.size);
      ids.push(this.#units.get(prefix)!);
    }
    return ids;
  }
}

/** The cache of a preset with blocks of 4 tokens, and settings that differ from the preset. */
export function liveAs(system: string, own: LiveConfig = {}): LiveCache {
  const { index, eviction, allocator, rules } = presetRegistry.get(system);
  return new LiveCache({ index, eviction, allocator: allocator.name, ...own, rules: { ...rules, ...own.rules } });
}

const codes = (text: string) => [...text].map((letter) => letter.charCodeAt(0));

/** Schedules all running requests, then admits in order; without blocks the last running request is preempted. */
function scheduleAll(context: SchedulerContext): void {
  for (const running of [...context.running]) {
    if (!context.running.includes(running) || running.inStep || context.schedule(running)) continue;
    for (let last = context.running.at(-1); last !== undefined; last = context.running.at(-1)) {
      context.preempt(last, "recompute");
      if (last === running || context.schedule(running)) break;
    }
  }
  while (context.firstWaiting !== undefined && context.admit(context.firstWaiting));
}
