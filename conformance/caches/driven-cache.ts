import type { KvCache } from "../../core/cache/kv-cache.ts";
import { evict } from "../../core/cache/operations.ts";
import { Request, Sequence } from "../../core/cache/request.ts";
import { EventLog } from "../../core/log/event-log.ts";
import { EventKind } from "../../core/log/events.ts";
import type { AllocatorPlugin, BlockId, EvictionPlugin, IndexPlugin } from "../../core/plugins/index.ts";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import { blockKeysFor, createCache } from "../../core/replica/compose.ts";
import type { BlockKeys } from "../../core/trace/content.ts";
import { TraceBuilder } from "../../core/trace/trace.ts";
import type { Preset } from "../../policies/preset.ts";
import { name, Unsupported } from "../values.ts";

/** The plug-ins and sizes of a system's cache. */
export interface CacheParts {
  readonly index: IndexPlugin;
  readonly eviction: EvictionPlugin;
  readonly allocator: AllocatorPlugin;
  readonly rules: Partial<Record<RuleName, RuleValue>>;
  readonly blockTokens: number;
  readonly blocks: number;
}

/** A preset, changed by the settings of a case. */
export function likePreset(
  { index, eviction, allocator, rules }: Preset,
  own: Partial<CacheParts> & Pick<CacheParts, "blockTokens" | "blocks">,
): CacheParts {
  return { index, eviction, allocator, ...own, rules: { ...rules, ...own.rules } };
}

/** A request of a case. */
export interface RequestSpec {
  readonly prompt: readonly number[];
  /** Tokens that are appended later, so that their blocks have content ids. */
  readonly output?: readonly number[];
  /** Tenant or adapter, by its name in the case; undefined or null = none. */
  readonly namespace?: unknown;
  readonly markedTokens?: number;
  readonly maxOutputTokens?: number;
}

const maxBlocks = 2 ** 22;
const maxBlockTokens = 2 ** 15;

/** A KvCache driven by single calls, without a replica. */
export class DrivenCache {
  readonly cache: KvCache;
  readonly log = new EventLog();
  readonly blockTokens: number;
  readonly #keys: BlockKeys;
  readonly #rows = new TraceBuilder(1);
  readonly #namespaces = new Map<string, number>();
  #now = 0;
  #requestCount = 0;

  /** @throws Unsupported for sizes that no case has. */
  constructor(parts: CacheParts) {
    if (parts.blocks > maxBlocks) throw new Unsupported(`a cache of ${parts.blocks} blocks`);
    if (parts.blocks < 1) throw new Unsupported("a cache without blocks");
    if (parts.blockTokens > maxBlockTokens) throw new Unsupported(`blocks of ${parts.blockTokens} tokens`);
    this.blockTokens = parts.blockTokens;
    this.#keys = blockKeysFor(parts, 1);
    this.cache = createCache({ ...parts, seed: 1, namespaces: true }, this.log);
  }

  get now(): number {
    return ++this.#now;
  }

  /** A request that has arrived and has no blocks yet. */
  arrive({ prompt, output = [], namespace, markedTokens = 0, maxOutputTokens }: RequestSpec): Sequence {
    this.#rows.add({
      arrivalNs: 0,
      inputTokens: prompt.length,
      // The last output token is never computed.
      outputTokens: output.length + 1,
      ...(maxOutputTokens !== undefined && { maxOutputTokens }),
      keys: prompt,
      generatedKeys: output,
      namespace: this.#numberOf(namespace),
      markedTokens,
    });
    const trace = this.#rows.take();
    const blocks = this.#keys.of(trace);
    this.cache.expectKeys(blocks.distinct);
    return new Sequence(new Request(this.#requestCount++, trace, 0, blocks));
  }

  /** Schedules the sequence's tokens before `end`, whose blocks are allocated, in the next step. */
  schedule(sequence: Sequence, end: number): void {
    sequence.stepTokens = Math.max(0, end - sequence.computedTokens);
    sequence.inStep = true;
    this.cache.scheduled(sequence, this.now);
  }

  /** Commits the step. */
  computed(sequence: Sequence): void {
    this.cache.computed(sequence, sequence.generatedTokens === 0, this.now);
    this.cache.copies.length = 0;
  }

  /** Computes all of the sequence's tokens before `end` in a separate step. */
  compute(sequence: Sequence, end = sequence.knownTokens): void {
    this.schedule(sequence, end);
    this.computed(sequence);
  }

  /** Finishes the sequence: publishes its blocks under the rules and releases all of them. */
  finish(sequence: Sequence): void {
    sequence.inStep = false;
    sequence.stepTokens = 0;
    this.cache.finish(sequence, this.now);
  }

  /** Blocks of a sequence, in order. */
  blocksOf(sequence: Sequence): BlockId[] {
    return [...sequence.table.subarray(0, sequence.blockCount)];
  }

  /** Evicts at least `count` blocks; returns them in order of eviction, each entry from its beginning. */
  evict(blocks: number): BlockId[][] {
    const { index } = this.cache;
    const entryOf = new Map([...index.blocks()].map((block) => [block, index.entryOf(block)]));
    const victims: BlockId[][] = [];
    let last: number | undefined;
    for (const block of this.#evictedDuring(() => evict(this.cache, blocks, this.now))) {
      const entry = entryOf.get(block);
      if (entry !== last) victims.push([]);
      last = entry;
      victims.at(-1)!.push(block);
    }
    // An entry is evicted from its end.
    for (const victim of victims) victim.reverse();
    return victims;
  }

  #evictedDuring(act: () => void): BlockId[] {
    const from = this.log.count;
    act();
    const { kind, block } = this.log.columns();
    return [...block.subarray(from)].filter((_, i) => kind[from + i] === EventKind.evict);
  }

  #numberOf(namespace: unknown): number {
    if (namespace === undefined || namespace === null) return 0;
    const label = name(namespace, "a namespace");
    const known = this.#namespaces.get(label) ?? this.#namespaces.size + 1;
    this.#namespaces.set(label, known);
    return known;
  }
}
