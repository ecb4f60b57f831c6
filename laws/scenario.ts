import { isDeepStrictEqual } from "node:util";
import { audit } from "../core/cache/audit.ts";
import type { KvCache } from "../core/cache/kv-cache.ts";
import { Request, type Sequence } from "../core/cache/request.ts";
import { EventLog } from "../core/log/events.ts";
import type { Scheduler, SchedulerContext, SequenceView } from "../core/plugins/index.ts";
import { blockKeysFor, type CacheConfig, createCache } from "../core/replica/compose.ts";
import { Replica } from "../core/replica/replica.ts";
import type { BlockColumns, ChainHash } from "../core/trace/content.ts";
import { addRemoveAlternate, conservation, noTrace, ownContent } from "./book.ts";
import { EntryBooks } from "./entries.ts";
import { KvMemory } from "./kv-memory.ts";
import { near, require, same, shown } from "./law.ts";
import { linesOf } from "./log-lines.ts";
import { type Expected, NaiveModel } from "./naive-model.ts";
import { type Recorded, recorded } from "./recorder.ts";
import { Recount } from "./recount.ts";
import { prefixOf, traceOf, type World, type WorldRequest } from "./worlds.ts";

export interface ScenarioConfig extends Omit<CacheConfig, "blockTokens"> {
  /** Units of the trace in a block. */
  readonly blockUnits: number;
  readonly hash?: ChainHash;
}

export interface Scenario {
  readonly world: World;
  readonly config: ScenarioConfig;
  /** Each number is one decision; when they are used up, what is left runs to its end. */
  readonly script: readonly number[];
  /** Ask for a failing admission this many times, which must make no difference. */
  readonly insist?: number;
  /** Whether to keep log and books and check everything; without them, entries are handled many at a time. */
  readonly checked?: boolean;
  /** Whether to ask for victims that are not needed, which draws on a random policy's chance. */
  readonly peek?: boolean;
}

/** What came of it, as text that can be compared. */
export interface Outcome {
  readonly decisions: readonly string[];
  readonly log: readonly string[];
  readonly counters: KvCache["counters"];
  /** Admissions for which there were not the blocks. */
  readonly failedAdmissions: number;
}

/** Overlapping requests, driven by decisions at random, with every law checked after every operation. */
export function play(scenario: Scenario): Outcome {
  const playing = new Play(scenario);
  try {
    return playing.run();
  } catch (error) {
    throw Object.assign(error as Error, { decisions: playing.decisions, log: playing.lines });
  }
}

class Play implements Scheduler {
  readonly #asks: readonly WorldRequest[];
  readonly #scenario: Scenario;
  readonly #checked: boolean;
  readonly #cache: KvCache;
  readonly #replica: Replica;
  readonly #requests: readonly Request[];
  readonly #model: NaiveModel;
  readonly #memory: KvMemory;
  readonly #log: EventLog | undefined;
  readonly #recount: Recount | undefined;
  readonly #entries: EntryBooks | undefined;
  readonly #policy: Recorded;
  /** For each block that was ever published, the request and place whose content it got. */
  readonly #contents = new Map<number, { ask: WorldRequest; place: number }>();
  readonly #decisions: string[] = [];
  readonly #inStep = new Set<number>();
  #failedAdmissions = 0;
  #arrived = 0;
  #at = 0;
  #now = 0;
  // The figures, counted a second time.
  readonly #sum = { lookups: 0, lookupBlocks: 0, lookupTokens: 0, hitBlocks: 0, hitTokens: 0, blocks: 0, tokens: 0 };
  readonly #seen = new Set<number>();

  constructor(scenario: Scenario) {
    const { world, config, checked = true } = scenario;
    this.#scenario = scenario;
    this.#checked = checked;
    this.#asks = world.asks;
    const blockTokens = world.unitTokens * config.blockUnits;
    const [trace] = traceOf(world);
    const blocks: BlockColumns = blockKeysFor({ ...config, blockTokens }, world.unitTokens).of(trace);
    this.#requests = world.asks.map(({ id }) => new Request(id, trace, id, blocks));
    this.#policy = recorded(config.eviction);
    this.#log = checked ? new EventLog() : undefined;
    this.#cache = createCache(
      {
        ...config,
        blockTokens,
        eviction: checked ? this.#policy.plugin : config.eviction,
        namespaces: blocks.plainKeys !== undefined,
      },
      this.#log,
      { blocks, requestCount: trace.requestCount, usableBlocks: blocks.promptBlocks },
    );
    this.#replica = new Replica({ cache: this.#cache, scheduler: this, log: this.#log, generation: "step" });
    this.#model = new NaiveModel(blockTokens, world.unitTokens, this.#cache.rules, config.index.unit);
    this.#memory = new KvMemory(blockTokens);
    if (this.#log === undefined) return;
    const { victims } = config.index.supports;
    const isTree = victims === "any" || victims?.includes("leaf") === true;
    const entries = new EntryBooks(this.#cache, this.#model, blocks, isTree);
    this.#entries = entries;
    this.#recount = new Recount(this.#log, {
      wiped: (block) => this.#memory.wipe(block),
      published: (request, block, place) => {
        this.#contents.set(block, { ask: this.#asks[request], place });
        entries.published(block, this.#asks[request], place);
      },
      hit: (block) => entries.hit(block),
      letGo: (block) => entries.letGo(block),
      gone: (block) => entries.gone(block),
    });
  }

  run(): Outcome {
    while (this.#arrived < this.#asks.length || !this.#replica.isIdle) {
      this.#now++;
      require(conservation, this.#now < 5000, "the scenario does not end");
      for (let n = this.#choose(3); n > 0 && this.#arrived < this.#asks.length; n--)
        this.#replica.submit(this.#requests[this.#arrived++], this.#now);
      this.#inStep.clear();
      const plan = this.#replica.plan(this.#now);
      this.#check();
      if (plan.isEmpty) {
        this.#memory.skip();
        continue;
      }
      if (this.#isScripted && this.#choose(6) === 1) {
        this.#decisions.push(`step ${this.#now}: it does not run`);
        this.#memory.skip();
        this.#replica.rollback(plan, this.#now);
      } else {
        if (this.#checked) this.#memory.run(plan, ({ request }) => this.#asks[request.id]);
        this.#replica.commit(plan, { durationNs: 1 }, this.#now);
      }
      this.#check();
      this.#checkStored();
    }
    this.#checkCounters();
    const { counters } = this.#cache;
    return { decisions: this.#decisions, log: this.lines, counters, failedAdmissions: this.#failedAdmissions };
  }

  get decisions(): readonly string[] {
    return this.#decisions;
  }
  get lines(): readonly string[] {
    return this.#log ? linesOf(this.#log) : [];
  }

  // What the scheduler does, by the script or, at its end, in order.

  plan(context: SchedulerContext): void {
    const isScripted = this.#isScripted;
    for (const sequence of [...context.running] as Sequence[]) {
      const choice = isScripted ? this.#choose(8) : 7;
      if (!this.#replica.running.includes(sequence)) continue;
      if (choice === 0) continue;
      if (choice === 1) this.#preempt(sequence);
      else if (!this.#schedule(sequence, choice < 4 ? choice : undefined) && isScripted && this.#choose(2) === 1)
        this.#preempt(sequence);
    }
    while (context.waitingCount > 0 && (!isScripted || this.#choose(4) !== 1)) {
      let sequence = context.firstWaiting as Sequence;
      if (isScripted && this.#choose(4) === 1 && sequence.next) sequence = sequence.next;
      const tokens = isScripted && this.#choose(2) === 1 ? 1 + this.#choose(4) : undefined;
      if (this.#admit(sequence, tokens)) continue;
      if (isScripted && this.#choose(6) === 1) this.#refuse(sequence);
      break;
    }
    if (isScripted && this.#choose(8) === 1 && context.running.length > 0) {
      this.#preempt(context.running[this.#choose(context.running.length)] as Sequence);
    }
    if (isScripted || this.#inStep.size > 0) return;
    // Nothing could go on: the request that came last makes room, or gives up.
    const last = context.running.at(-1) ?? context.firstWaiting;
    if (!last) return;
    if (context.running.length > 1) this.#preempt(last as Sequence);
    else this.#refuse(last as Sequence);
  }

  get #isScripted(): boolean {
    return this.#at < this.#scenario.script.length;
  }

  /** The next decision, from 0 to n − 1. */
  #choose(n: number): number {
    const { script } = this.#scenario;
    return this.#at < script.length ? script[this.#at++] % n : n - 1;
  }

  #admit(sequence: Sequence, tokens: number | undefined): boolean {
    const { id } = sequence.request;
    const ask = this.#asks[id];
    const generated = sequence.generatedTokens;
    const before = this.#digest();
    const allowed = this.#checked ? this.#allowed(ask, generated) : [];
    if (this.#checked) {
      const { hitTokens, partTokens } = this.#model.expected(ask, generated, this.#usable());
      const found = this.#replica.cachedTokens(sequence as SequenceView);
      const isLess = found < hitTokens + partTokens && found >= hitTokens + this.#leastPart(ask, generated);
      if (!isLess) same(ownContent, `tokens cached for request ${id}`, found, hitTokens + partTokens);
    }
    for (let n = 1; !this.#replica.admit(sequence, tokens); n++) {
      this.#failedAdmissions++;
      same(noTrace, "after a refused admission", this.#digest(), before);
      if (n >= (this.#scenario.insist ?? 1)) return false;
    }
    this.#inStep.add(id);
    this.#decide("admit", sequence);
    if (this.#checked) {
      const found = { hitBlocks: sequence.cachedBlocks, hitTokens: sequence.cachedTokens };
      require(ownContent, allowed.some((may) => isDeepStrictEqual(may, found)), () =>
        `request ${id} finds ${shown(found)}, expected ${allowed.map(shown).join(" or ")}`);
      this.#check();
      this.#lookedUp(ask, found.hitBlocks, found.hitTokens);
    }
    return true;
  }

  #schedule(sequence: Sequence, tokens: number | undefined): boolean {
    const before = this.#digest();
    if (!this.#replica.schedule(sequence, tokens)) {
      same(noTrace, "after a refused extension", this.#digest(), before);
      return false;
    }
    this.#inStep.add(sequence.request.id);
    this.#decide("schedule", sequence);
    this.#check();
    return true;
  }

  #preempt(sequence: Sequence): void {
    this.#decide("preempt", sequence);
    this.#replica.preempt(sequence, "recompute");
    this.#inStep.delete(sequence.request.id);
    this.#check();
  }

  #refuse(sequence: Sequence): void {
    this.#decide("refuse", sequence);
    this.#replica.refuse(sequence, "by the script");
    this.#check();
    if (!this.#seen.has(sequence.request.id)) this.#lookedUp(this.#asks[sequence.request.id], 0, 0);
  }

  #decide(what: string, sequence: Sequence): void {
    const { request, table, blockCount, computedTokens, stepTokens } = sequence;
    this.#decisions.push(
      `step ${this.#now}: ${what} request ${request.id}, ${computedTokens} tokens there, ${stepTokens} to compute, ` +
        `blocks ${table.subarray(0, blockCount).join(" ")}`,
    );
  }

  // The checks.

  /** Contents that the index could find now, each as its tokens. */
  #stored(): Set<string> {
    const stored = new Set<string>();
    if (!this.#checked) return stored;
    for (const block of this.#cache.index.blocks()) {
      const content = this.#contents.get(block);
      require(addRemoveAlternate, content !== undefined, () => `block ${block} is stored and was never published`);
      if (this.#model.isFound(content.ask, content.place))
        stored.add(this.#model.contentOf(content.ask, content.place));
    }
    return stored;
  }

  /** Of these, what an admission may use: with `same-step=recompute` nothing that the step under way is still to compute. */
  #usable(): Set<string> {
    const stored = this.#stored();
    if (!this.#checked || this.#model.rules["same-step"] === "hit") return stored;
    const computed = [...this.#cache.index.blocks()].filter((block) => this.#isComputed(block));
    return new Set(
      computed.map((block) => this.#contents.get(block)!).map(({ ask, place }) => this.#model.contentOf(ask, place)),
    );
  }

  /**
   * What an admission may find: one answer, nearly always. A last block that it would have to write into, and so to
   * copy, is of no use while this very step computes it, and may be left out if the step only writes it again.
   */
  #allowed(ask: WorldRequest, generated: number): Pick<Expected, "hitBlocks" | "hitTokens">[] {
    const { hitBlocks, hitTokens, partTokens } = this.#model.expected(ask, generated, this.#usable());
    const full = { hitBlocks, hitTokens };
    if (partTokens > 0) {
      const least = this.#leastPart(ask, generated);
      return Array.from({ length: partTokens - least + 1 }, (_, n) => ({
        hitBlocks,
        hitTokens: hitTokens + least + n,
      }));
    }
    if (hitBlocks === 0) return [full];
    const { rules, blockTokens } = this.#model;
    const less = { hitBlocks: hitBlocks - 1, hitTokens: (hitBlocks - 1) * blockTokens };
    const isFull = hitTokens === ask.prompt.length + generated;
    if (hitTokens % blockTokens === 0 && !(isFull && rules["full-hit"] === "recompute-last")) return [full];
    const content = this.#model.contentOf(ask, hitBlocks - 1);
    const same = [...this.#cache.index.blocks()].filter((block) => {
      const is = this.#contents.get(block)!;
      return this.#model.contentOf(is.ask, is.place) === content;
    });
    if (!same.some((block) => this.#isComputed(block))) return [less];
    return same.some((block) => this.#isWritten(block)) ? [full, less] : [full];
  }

  /** What parts of blocks are worth to a request without those that the step under way writes into. */
  #leastPart(ask: WorldRequest, generated: number): number {
    if (this.#model.rules.partial === "steal-only") return 0;
    const stored = this.#usable();
    const { matched, hitBlocks } = this.#model.expected(ask, generated, stored);
    const written = [...this.#cache.index.blocks()].filter((block) => this.#isWritten(block));
    const contents = written
      .map((block) => this.#contents.get(block)!)
      .map((is) => this.#model.contentOf(is.ask, is.place));
    // A block that matches whole, and is used in part because of the rules.
    if (hitBlocks < matched && contents.includes(this.#model.contentOf(ask, hitBlocks))) return 0;
    for (const content of contents) stored.delete(content);
    for (let i = 0; i < matched; i++) stored.add(this.#model.contentOf(ask, i));
    return this.#model.expected(ask, generated, stored).partTokens;
  }

  /** Whether the step under way writes into the block. */
  #isWritten(block: number): boolean {
    const { blockTokens } = this.#model;
    return this.#replica.running.some(({ table, computedTokens, stepTokens, copiedAt }) => {
      if (copiedAt >= 0 && table[copiedAt] === block) return true;
      const end = Math.ceil((computedTokens + stepTokens) / blockTokens);
      return stepTokens > 0 && table.subarray(Math.floor(computedTokens / blockTokens), end).includes(block);
    });
  }

  /** Whether a published block really holds what it is found as. */
  #isComputed(block: number): boolean {
    const { ask, place } = this.#contents.get(block)!;
    const begin = place * this.#model.blockTokens;
    for (let p = begin; p < this.#model.blockEnd(ask, place); p++)
      if (this.#memory.at(block, p - begin) !== prefixOf(ask, p + 1)) return false;
    return true;
  }

  /** All that a refused operation must leave as it is. */
  #digest(): unknown {
    if (!this.#checked) return undefined;
    const { pool, index } = this.#cache;
    return {
      blocks: pool.words.slice(),
      stored: [...index.blocks()].sort((a, b) => a - b),
      evictable: index.evictableBlocks,
      free: this.#cache.freeBlocks,
      victim: (this.#scenario.peek ?? true) && this.#cache.totalBlocks !== undefined && this.#policy.victim(),
      events: this.#log?.count,
    };
  }

  #check(): void {
    audit(this.#cache, this.#replica.running);
    if (!this.#checked) return;
    const { index } = this.#cache;
    const evictable = new Set<number>();
    for (const block of index.blocks()) {
      const entry = index.entryOf(block);
      if (index.isEvictable(entry)) evictable.add(entry);
    }
    if (this.#cache.totalBlocks !== undefined)
      same(addRemoveAlternate, "what the policy was told is evictable", sorted(this.#policy.added), sorted(evictable));
    this.#recount!.catchUp();
    this.#recount!.compare(this.#cache);
    this.#entries!.check();
  }

  /** Between two steps, all that can be found has been computed, and is what it is found as. */
  #checkStored(): void {
    if (!this.#checked) return;
    for (const block of this.#cache.index.blocks()) {
      const { ask, place } = this.#contents.get(block)!;
      require(ownContent, this.#isComputed(block), () =>
        `block ${block} is found as ${this.#model.contentOf(ask, place)}`);
    }
  }

  /** A request's first lookup enters the figures. */
  #lookedUp(ask: WorldRequest, hitBlocks: number, hitTokens: number): void {
    if (this.#seen.has(ask.id)) return;
    this.#seen.add(ask.id);
    const blocks = this.#model.promptBlocks(ask);
    this.#sum.lookups++;
    this.#sum.lookupBlocks += blocks;
    this.#sum.lookupTokens += ask.prompt.length;
    this.#sum.hitBlocks += hitBlocks;
    this.#sum.hitTokens += hitTokens;
    this.#sum.blocks += blocks === 0 ? 0 : hitBlocks / blocks;
    this.#sum.tokens += hitTokens / ask.prompt.length;
  }

  #checkCounters(): void {
    const { counters } = this.#cache;
    const missed = counters.missTokens.reduce((sum, tokens) => sum + tokens, 0);
    require(conservation, counters.lookupTokens === counters.hitTokens + missed + counters.refusedTokens, () =>
      `${counters.hitTokens} hit + ${missed} missed + ${counters.refusedTokens} refused of ${counters.lookupTokens}`);
    require(conservation, counters.missTokens.every((tokens) => tokens >= 0), () =>
      `missed tokens by reason: ${counters.missTokens.join(", ")}`);
    if (!this.#checked) return;
    const { blocks, tokens, ...sums } = this.#sum;
    for (const name of Object.keys(sums) as (keyof typeof sums)[]) same(conservation, name, counters[name], sums[name]);
    near(conservation, "blockRatioSum", counters.blockRatioSum, blocks);
    near(conservation, "tokenRatioSum", counters.tokenRatioSum, tokens);
  }
}

const sorted = (entries: Iterable<number>) => [...entries].sort((a, b) => a - b);
