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

/** What differs from a hash table of 16 blocks of 4 tokens under LRU; parts by name or as they are. */
export interface LiveConfig {
  readonly index?: string | IndexPlugin;
  readonly eviction?: string | EvictionPlugin;
  readonly allocator?: string;
  readonly blockTokens?: number;
  readonly blocks?: number | undefined;
  readonly rules?: CacheConfig["rules"];
  readonly hash?: NonNullable<CacheConfig["hash"]>;
  /** Letters of a content id; 1: the trace has token ids. */
  readonly unitTokens?: number;
  /** Every request names a namespace, 0 by default. */
  readonly namespaces?: boolean;
}

/** What a request says besides its prompt. */
export type Asked = Partial<
  Pick<TraceRow, "namespace" | "session" | "markedTokens" | "priority" | "retentionNs" | "maxOutputTokens">
> & {
  /** What it generates; a letter is a token. */
  readonly answer?: string;
};

/** A cache with a replica around it, for requests and operators that do what a test says. A letter is a token. */
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
  #schedule: (context: SchedulerContext) => void = everybody;
  #asked = 0;

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
  request(prompt: string, { answer = ".", ...asked }: Asked = {}): Request {
    const { namespace = 0 } = asked;
    const isTokens = this.#builder.unitTokens === 1;
    this.#builder.add({
      arrivalNs: this.now,
      inputTokens: prompt.length,
      outputTokens: answer.length,
      keys: isTokens ? codes(prompt) : this.#contentIds(prompt),
      ...(isTokens && { generatedKeys: codes(answer) }),
      ...asked,
      ...(this.#spaces && { namespace }),
    });
    const trace = this.#builder.take();
    const request = new Request(this.#asked++, trace, 0, this.#keys.of(trace));
    const said = prompt + answer;
    for (let i = 0; i < request.knownBlocks; i++) {
      const end = (i + 1) * this.cache.blockTokens;
      const text = said.slice(0, i < request.promptBlocks ? Math.min(end, prompt.length) : end);
      this.#textOf.set(request.keys[request.keyStart + i], this.#spaces ? `${namespace}:${text}` : text);
    }
    return request;
  }

  /** The prefix as an operator names it; where only marked prefixes are stored, it is marked. */
  prefix(text: string, asked: Asked = {}): Sequence {
    return new Sequence(this.request(text, { markedTokens: text.length, ...asked }));
  }

  /** A request enters the queue. The object may be another request's after it has ended. */
  arrive(prompt: string, asked?: Asked): Sequence {
    return this.replica.submit(this.request(prompt, asked), this.now);
  }

  /** A request that is served to its end by itself; returns the tokens that it found cached. */
  run(prompt: string, asked?: Asked): number {
    const sequence = this.arrive(prompt, asked);
    this.step();
    const { cachedTokens } = sequence;
    this.finish();
    return cachedTokens;
  }

  /** One step, of everybody unless the test says otherwise; returns the copies that it begins with. */
  step(schedule?: (context: SchedulerContext) => void): BlockCopy[] {
    const plan = this.plan(schedule);
    const copies = [...plan.copies];
    this.replica.commit(plan, { durationNs: 1 }, this.now);
    this.audit();
    return copies;
  }

  /** A step that is planned and has not run. */
  plan(schedule: (context: SchedulerContext) => void = everybody) {
    this.#schedule = schedule;
    const plan = this.replica.plan(++this.now);
    this.audit();
    return plan;
  }

  /** Whatever waits or runs goes on until all have ended. */
  finish(): void {
    for (let steps = 0; !this.replica.isIdle; steps++) {
      if (steps > 10_000) throw new Error("requests do not end: what waits needs more blocks than there are");
      this.step();
    }
  }

  /** Tokens of a prompt that an admission would find. */
  hits(prompt: string, asked?: Asked): number {
    return this.replica.cachedTokens(this.request(prompt, asked));
  }

  audit(): void {
    audit(this.cache, this.replica.running);
  }

  /** What each stored block holds with all before it, by the log; in order of block ids. */
  stored(): string[] {
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

  /** The text that ends with a content. */
  textOf(key: number): string {
    return this.#textOf.get(key)!;
  }

  /** State and holders of every block, free count and what is stored: all that a refused operation must leave alone. */
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

  /** A number for each prefix that ends with a unit. */
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

/** The cache of a real system, by the name of its preset, with what differs from it; blocks of four tokens. */
export function liveAs(system: string, own: LiveConfig = {}): LiveCache {
  const { index, eviction, allocator, rules } = presetRegistry.get(system);
  return new LiveCache({ index, eviction, allocator: allocator.name, ...own, rules: { ...rules, ...own.rules } });
}

const codes = (text: string) => [...text].map((letter) => letter.charCodeAt(0));

/** Everybody runs; who cannot go on makes room. */
function everybody(context: SchedulerContext): void {
  for (const running of [...context.running]) {
    if (!context.running.includes(running) || running.inStep || context.schedule(running)) continue;
    for (let last = context.running.at(-1); last !== undefined; last = context.running.at(-1)) {
      context.preempt(last, "recompute");
      if (last === running || context.schedule(running)) break;
    }
  }
  while (context.firstWaiting !== undefined && context.admit(context.firstWaiting));
}
