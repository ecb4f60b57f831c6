import { isDeepStrictEqual } from "node:util";
import { expect } from "vitest";
import { audit } from "../../core/cache/audit.ts";
import type { KvCache } from "../../core/cache/kv-cache.ts";
import { deletePrefix, evict, pin, reset, unpin } from "../../core/cache/operations.ts";
import { BlockState } from "../../core/cache/pool.ts";
import { Request, Sequence } from "../../core/cache/request.ts";
import { EventLog } from "../../core/log/event-log.ts";
import { KvEventReader } from "../../core/log/kv-events.ts";
import type { SchedulerContext } from "../../core/plugins/index.ts";
import { blockKeysFor, createCache } from "../../core/replica/compose.ts";
import { Replica } from "../../core/replica/replica.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import { type CheckedPolicy, checkedPolicy } from "../../laws/checked-policy.ts";
import type { ScenarioConfig } from "../../laws/scenario.ts";
import { traceOf, type Workload } from "../../laws/workloads.ts";
import { KvMirror } from "./kv-mirror.ts";

/** A workload, of which the last rows are prefixes for operator-initiated operations, and a script of random decisions. */
export interface Operated {
  /** The first `requests` of its requests are served; the others are prefixes. */
  readonly workload: Workload;
  readonly requests: number;
  readonly config: ScenarioConfig;
  /** Each number is one decision. */
  readonly script: readonly number[];
}

const duringSteps = ["arrive", "unpin", "delete", "evict", "reset"];
const operations = ["step", "step", "step", "arrive", "arrive", "pin", "pin", "unpin", "delete", "evict", "reset"];

/**
 * A cache that serves requests and executes operator-initiated operations in an order given by a script, beside a naive
 * model of it: rows of content ids, and the cached blocks as the KV events state them.
 */
export class OperatedCache {
  readonly cache: KvCache;
  readonly replica: Replica;
  readonly operations: string[] = [];
  readonly #operated: Operated;
  readonly #log = new EventLog();
  readonly #columns: BlockColumns;
  readonly #requests: readonly Request[];
  readonly #policy: CheckedPolicy;
  readonly #mirror: KvMirror;
  /** By pinned prefix: its blocks. */
  readonly #pinned = new Map<Sequence, number[]>();
  #at = 0;
  #arrived = 0;
  #now = 0;

  constructor(operated: Operated) {
    this.#operated = operated;
    const { workload, config } = operated;
    const blockTokens = workload.unitTokens * config.blockUnits;
    const [trace] = traceOf(workload);
    this.#columns = blockKeysFor({ ...config, blockTokens }, workload.unitTokens).of(trace);
    this.#requests = workload.requests.map(({ id }) => new Request(id, trace, id, this.#columns));
    this.#policy = checkedPolicy(config.eviction);
    const namespaces = this.#columns.plainKeys !== undefined;
    const future = {
      blocks: this.#columns,
      requestCount: trace.requestCount,
      usableBlocks: this.#columns.promptBlocks,
    };
    const eviction = this.#policy.plugin;
    this.cache = createCache({ ...config, blockTokens, eviction, namespaces }, this.#log, future);
    // The model looks up requests that have not arrived yet.
    this.cache.expectKeys(this.#columns.distinct);
    const plan = (context: SchedulerContext) => this.#plan(context);
    this.replica = new Replica({ cache: this.cache, scheduler: { plan }, log: this.#log, generation: "step" });
    this.#mirror = new KvMirror(this.cache, new KvEventReader(this.#log), this.#requests);
  }

  /** Executes the whole script; requests may still be running afterwards. */
  run(): this {
    while (this.#at < this.#operated.script.length) this.#execute(operations[this.#choose(operations.length)]);
    return this;
  }

  /** Runs until all requests have finished, and unpins all prefixes. */
  finishAll(): this {
    while (this.#arrived < this.#operated.requests || !this.replica.isIdle) {
      if (this.#arrived < this.#operated.requests) this.#execute("arrive");
      this.#execute("step");
    }
    for (const prefix of [...this.#pinned.keys()]) this.#unpin(prefix);
    return this;
  }

  /** All blocks in the order in which a request without hits is allocated them. */
  drain(atOnce: boolean): number[] {
    const { cache } = this;
    const last = this.replica.submit(this.#requests[this.#requests.length - 1], this.#now);
    const blocks = cache.totalBlocks!;
    const first = atOnce ? blocks : 1;
    expect(cache.admit(last, first * cache.blockTokens, this.#now)).toBe(true);
    for (let n = first + 1; n <= blocks; n++) expect(cache.extend(last, n * cache.blockTokens, this.#now)).toBe(true);
    return [...last.table.subarray(0, blocks)];
  }

  /** Resets a cache without referenced blocks. */
  reset(): void {
    this.#record("reset");
    expect(reset(this.cache, this.#now)).toBe(true);
    expect([...this.cache.index.blocks()]).toEqual([]);
    if (this.cache.totalBlocks !== undefined) expect(this.cache.freeBlocks).toBe(this.cache.totalBlocks);
    expect(this.cache.freeBlocks).toBe(this.cache.pool.blockCount);
    for (const request of this.#requests) expect(this.cache.cachedTokens(new Sequence(request))).toBe(0);
    this.#check();
  }

  /** Configuration, requests and operations so far, for failure messages. */
  description(): string[] {
    const { workload, config } = this.#operated;
    const { index, eviction, allocator, blocks, blockUnits, rules } = config;
    const parts = [
      index.name,
      eviction.name,
      allocator.name,
      `${blocks} blocks of ${blockUnits} x ${workload.unitTokens}`,
    ];
    const requests = workload.requests.map(
      ({ id, namespace, prompt, output, markedTokens }) =>
        `${id}: ${prompt.join("")} > ${output.join("")}, namespace ${namespace}, ${markedTokens} marked`,
    );
    return [parts.join(", "), JSON.stringify(rules), ...requests, ...this.operations];
  }

  #execute(what: string): void {
    this.#now++;
    switch (what) {
      case "arrive":
        if (this.#arrived < this.#operated.requests) this.replica.submit(this.#requests[this.#arrived++], this.#now);
        return;
      case "step":
        this.#step();
        return;
      case "pin":
        this.#pin();
        return;
      case "unpin": {
        const prefixes = [...this.#pinned.keys()];
        if (prefixes.length > 0) this.#unpin(prefixes[this.#choose(prefixes.length)]);
        return;
      }
      case "delete":
        this.#delete();
        return;
      case "evict":
        this.#evict(this.#choose(5));
        return;
      case "reset":
        if (this.#isIdle) this.reset();
        else this.#changesNothing(() => expect(reset(this.cache, this.#now)).toBe(false));
    }
  }

  get #isIdle(): boolean {
    return this.cache.pool.words.every((_, block) => this.cache.pool.refCountOf(block) === 0);
  }

  #step(): void {
    const plan = this.replica.plan(this.#now);
    this.#check();
    if (plan.isEmpty) return;
    // An operation between the plan of a step and its commit.
    if (this.#choose(4) === 1) this.#execute(duringSteps[this.#choose(duringSteps.length)]);
    const runs = this.#choose(7) !== 1;
    this.#record(`step of ${plan.count}${runs ? "" : ", which does not run"}`);
    if (runs) this.replica.commit(plan, { durationNs: 1 }, this.#now);
    else this.replica.rollback(plan, this.#now);
    this.#check();
  }

  #plan(context: SchedulerContext): void {
    for (const sequence of [...context.running] as Sequence[]) {
      if (!this.replica.running.includes(sequence) || this.#choose(6) === 1) continue;
      if (!context.schedule(sequence, this.#choose(3) === 1 ? 2 : undefined)) this.#preemptOrRefuse(sequence);
    }
    while (context.firstWaiting !== undefined && this.#choose(4) !== 1) {
      if (context.admit(context.firstWaiting, this.#choose(3) === 1 ? 3 : undefined)) continue;
      // No request runs: it can never fit, or pinned blocks take the space.
      if (context.running.length === 0) context.refuse(context.firstWaiting, "it does not fit");
      else break;
    }
  }

  /** A running request without blocks is preempted or, after the end of the script, refused. */
  #preemptOrRefuse(sequence: Sequence): void {
    if (this.#at < this.#operated.script.length) this.replica.preempt(sequence, "recompute");
    else this.replica.refuse(sequence, "it does not fit");
  }

  #pin(): void {
    const prefix = this.#prefix();
    const blocks = this.#mirror.found(prefix.request);
    const all = new Set([...this.#pinned.values(), blocks ?? []].flat());
    const expected =
      blocks === undefined ? "not cached" : all.size > this.cache.rules["pin-blocks"] ? "over budget" : "pinned";
    this.#record(`pin ${prefix.request.id}: ${expected}`);
    const act = () => expect(pin(this.cache, prefix, this.#now)).toBe(expected);
    if (expected !== "pinned") {
      this.#changesNothing(act);
      return;
    }
    act();
    this.#pinned.set(prefix, blocks!);
    this.#check();
  }

  #unpin(prefix: Sequence): void {
    this.#record(`unpin ${prefix.request.id}`);
    expect(unpin(this.cache, prefix, this.#now)).toBe(true);
    this.#pinned.delete(prefix);
    this.#check();
    this.#changesNothing(() => expect(unpin(this.cache, prefix, this.#now)).toBe(false));
  }

  #delete(): void {
    const prefix = this.#prefix();
    const blocks = this.#mirror.found(prefix.request);
    const isReferenced = (block: number) => this.cache.pool.refCountOf(block) > 0;
    const ends =
      blocks && (this.#mirror.storesWholePrompts ? blocks : this.#mirror.blocksWithSameContent(blocks.at(-1)!));
    const expected = ends === undefined ? "not cached" : ends.some(isReferenced) ? "in use" : "deleted";
    this.#record(`delete ${prefix.request.id}: ${expected}`);
    const act = () => expect(deletePrefix(this.cache, prefix, this.#now)).toBe(expected);
    if (expected !== "deleted") {
      this.#changesNothing(act);
      return;
    }
    const expectedBlocks = this.#mirror.blocksDeletedWith(prefix.request, blocks!, isReferenced);
    const before = new Set(this.cache.index.blocks());
    act();
    const lost = [...before].filter((block) => !new Set(this.cache.index.blocks()).has(block));
    expect(sorted(lost), "blocks that are deleted").toEqual(sorted(expectedBlocks));
    this.#check();
    expect(this.#mirror.found(prefix.request), "a deleted prefix is not matched").toBe(undefined);
  }

  #evict(count: number): void {
    const { cache } = this;
    const before = cache.freeBlocks;
    const referenced = [...cache.pool.words.keys()].filter((block) => cache.pool.refCountOf(block) > 0);
    const words = referenced.map((block) => cache.pool.words[block]);
    const freed = evict(cache, count, this.#now);
    this.#record(`evict ${count}: ${freed}`);
    expect(cache.freeBlocks - before, "number of blocks that became free").toBe(freed);
    if (cache.totalBlocks === undefined) expect(freed).toBe(0);
    else if (freed < count)
      expect(cache.index.evictableBlocks, "fewer blocks are freed only if no entry is evictable").toBe(0);
    if (count === 0) expect(freed).toBe(0);
    expect(
      referenced.map((block) => cache.pool.words[block]),
      "referenced blocks are unchanged",
    ).toEqual(words);
    this.#check();
  }

  /** A random prefix of the workload, as a new sequence. */
  #prefix(): Sequence {
    const { workload, requests } = this.#operated;
    // The last row is for `drain`.
    const rows = workload.requests.length - 1 - requests;
    return new Sequence(this.#requests[requests + this.#choose(rows)]);
  }

  #changesNothing(act: () => void): void {
    const before = this.#digest();
    act();
    expect(isDeepStrictEqual(this.#digest(), before), "a refused operation changes nothing").toBe(true);
    this.#check();
  }

  #digest(): unknown {
    const { pool, index } = this.cache;
    return {
      words: pool.words.slice(),
      free: [...this.cache.freeList()],
      stored: sorted(index.blocks()),
      entries: index.entryCount,
      evictable: index.evictableBlocks,
      victim: this.cache.totalBlocks !== undefined && this.#policy.victim(),
      events: this.#log.count,
    };
  }

  #check(): void {
    const { cache } = this;
    audit(cache, this.replica.running);
    this.#mirror.readEvents();
    this.#mirror.compareWithIndex();
    for (const [prefix, blocks] of this.#pinned) {
      expect(this.#mirror.found(prefix.request)?.length, `blocks of prefix ${prefix.request.id}, pinned`).toBe(
        blocks.length,
      );
      for (const block of blocks) {
        expect(cache.pool.stateOf(block), `state of block ${block}, pinned`).toBe(BlockState.published);
        expect(cache.pool.refCountOf(block)).toBeGreaterThan(0);
      }
    }
    const all = new Set([...this.#pinned.values()].flat());
    expect(all.size).toBeLessThanOrEqual(cache.rules["pin-blocks"]);
  }

  #record(what: string): void {
    this.operations.push(`${this.#now}: ${what}`);
  }

  /** The next decision, from 0 to n − 1. */
  #choose(n: number): number {
    const { script } = this.#operated;
    return this.#at < script.length ? script[this.#at++] % n : n - 1;
  }
}

const sorted = (blocks: Iterable<number>) => [...blocks].sort((a, b) => a - b);
