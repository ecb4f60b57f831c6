import { isDeepStrictEqual } from "node:util";
import { audit } from "../core/cache/audit.ts";
import type { KvCache } from "../core/cache/kv-cache.ts";
import { Request, type Sequence } from "../core/cache/request.ts";
import { EventLog } from "../core/log/event-log.ts";
import type { Scheduler, SchedulerContext, SequenceView } from "../core/plugins/index.ts";
import { blockKeysFor, type CacheConfig, createCache } from "../core/replica/compose.ts";
import { Replica } from "../core/replica/replica.ts";
import type { BlockColumns, ChainHash } from "../core/trace/content.ts";
import { type CheckedPolicy, checkedPolicy } from "./checked-policy.ts";
import {
  addRemoveAlternate,
  conservation,
  failedAdmission,
  longestMatch,
  refusedNotStored,
  requestsView,
} from "./contract-laws.ts";
import { ExpectedEntries } from "./expected-entries.ts";
import { KvMemory } from "./kv-memory.ts";
import { near, require, same, shown } from "./law.ts";
import { linesOf } from "./log-lines.ts";
import { Recount } from "./recount.ts";
import { type Expected, ReferenceModel } from "./reference-model.ts";
import { prefixOf, traceOf, type Workload, type WorkloadRequest } from "./workloads.ts";

export interface ScenarioConfig extends Omit<CacheConfig, "blockTokens"> {
  /** Block size in units of the trace. */
  readonly blockUnits: number;
  readonly hash?: ChainHash;
}

export interface Scenario {
  readonly workload: Workload;
  readonly config: ScenarioConfig;
  /** Each number is one decision; after the last one, the remaining requests run to their end. */
  readonly script: readonly number[];
  /** Attempts per failing admission; more than one must not change anything. */
  readonly admissionAttempts?: number;
  /** Whether to write a log and check every operation; without, the policy's batch methods are used. */
  readonly checked?: boolean;
  /** Whether to call `victim()` when no victim is needed. */
  readonly extraVictimCalls?: boolean;
}

/** The result of a scenario, in a form that can be compared. */
export interface Outcome {
  readonly decisions: readonly string[];
  readonly log: readonly string[];
  readonly counters: KvCache["counters"];
  /** Admissions that failed for lack of blocks. */
  readonly failedAdmissions: number;
}

/** Runs overlapping requests with random scheduling decisions and checks every law after every operation. */
export function runScenario(scenario: Scenario): Outcome {
  const playing = new ScenarioRun(scenario);
  try {
    return playing.run();
  } catch (error) {
    throw Object.assign(error as Error, { decisions: playing.decisions, log: playing.lines });
  }
}

class ScenarioRun implements Scheduler {
  readonly #workloadRequests: readonly WorkloadRequest[];
  readonly #scenario: Scenario;
  readonly #checked: boolean;
  readonly #cache: KvCache;
  readonly #replica: Replica;
  readonly #requests: readonly Request[];
  readonly #model: ReferenceModel;
  readonly #memory: KvMemory;
  readonly #log: EventLog | undefined;
  readonly #recount: Recount | undefined;
  readonly #entries: ExpectedEntries | undefined;
  readonly #policy: CheckedPolicy;
  /** By published block: the request and block index of its content. */
  readonly #contents = new Map<number, { request: WorkloadRequest; place: number }>();
  readonly #decisions: string[] = [];
  readonly #inStep = new Set<number>();
  readonly #ended = new Set<number>();
  #failedAdmissions = 0;
  #arrived = 0;
  #at = 0;
  #now = 0;
  // Independent counts of the metrics.
  readonly #sum = { lookups: 0, lookupBlocks: 0, lookupTokens: 0, hitBlocks: 0, hitTokens: 0, blocks: 0, tokens: 0 };
  readonly #seen = new Set<number>();

  constructor(scenario: Scenario) {
    const { workload, config, checked = true } = scenario;
    this.#scenario = scenario;
    this.#checked = checked;
    this.#workloadRequests = workload.requests;
    const blockTokens = workload.unitTokens * config.blockUnits;
    // With the rule, the content depends on the session, which the reference model does not have.
    const signals = config.rules.share !== "session";
    const [trace] = traceOf(workload, undefined, { signals });
    const blocks: BlockColumns = blockKeysFor({ ...config, blockTokens }, workload.unitTokens).of(trace);
    this.#requests = workload.requests.map(({ id }) => new Request(id, trace, id, blocks));
    this.#policy = checkedPolicy(config.eviction);
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
    this.#model = new ReferenceModel(blockTokens, workload.unitTokens, this.#cache.rules, config.index.unit);
    this.#memory = new KvMemory(blockTokens);
    if (this.#log === undefined) return;
    const { victims } = config.index.supports;
    const isTree = victims === "any" || victims?.includes("leaf") === true;
    const entries = new ExpectedEntries(this.#cache, this.#model, blocks, isTree);
    this.#entries = entries;
    this.#recount = new Recount(this.#log, {
      allocated: (block) => this.#memory.clear(block),
      published: (requestId, block, place) => {
        const refusedFrom = this.#policy.refusedFrom.get(requestId) ?? Number.POSITIVE_INFINITY;
        require(refusedNotStored, place < refusedFrom, () =>
          `block ${place} of request ${requestId} is stored, but admits() refused block ${refusedFrom}`);
        this.#contents.set(block, { request: this.#workloadRequests[requestId], place });
        entries.published(block, this.#workloadRequests[requestId], place);
      },
      hit: (block) => entries.hit(block),
      released: (block) => entries.released(block),
      removed: (block) => entries.removed(block),
      ended: (requestId) => this.#ended.add(requestId),
    });
  }

  run(): Outcome {
    while (this.#arrived < this.#workloadRequests.length || !this.#replica.isIdle) {
      this.#now++;
      require(conservation, this.#now < 5000, "the scenario does not end");
      for (let n = this.#choose(3); n > 0 && this.#arrived < this.#workloadRequests.length; n--)
        this.#replica.submit(this.#requests[this.#arrived++], this.#now);
      if (this.#isScripted && this.#cache.sessions.haveListener && this.#choose(3) === 1) this.#sendSignal();
      this.#inStep.clear();
      const plan = this.#replica.plan(this.#now);
      this.#check();
      if (plan.isEmpty) {
        this.#memory.discardStep();
        continue;
      }
      if (this.#isScripted && this.#choose(6) === 1) {
        this.#decisions.push(`step ${this.#now}: rolled back`);
        this.#memory.discardStep();
        this.#replica.rollback(plan, this.#now);
      } else {
        if (this.#checked) this.#memory.run(plan, ({ request }) => this.#workloadRequests[request.id]);
        this.#replica.commit(plan, { durationNs: 1 }, this.#now);
      }
      this.#check();
      this.#checkStored();
    }
    this.#checkCounters();
    const { counters } = this.#cache;
    return { decisions: this.#decisions, log: this.lines, counters, failedAdmissions: this.#failedAdmissions };
  }

  /** A signal that is not in the trace, about the session of a request that may have arrived. */
  #sendSignal(): void {
    const { sessions } = this.#cache;
    const like = this.#requests[this.#choose(this.#requests.length)];
    const now = this.#now;
    const choice = this.#choose(6);
    if (choice === 0) sessions.pause(like, 1 + this.#choose(2), now);
    else if (choice === 1) sessions.resume(like, now);
    else if (choice < 4) sessions.close(like, choice === 3, now);
    else if (choice === 4) sessions.expect(like, now + this.#choose(5), 1 + this.#choose(4), now);
    else sessions.keep(like, now + this.#choose(8), now);
  }

  get decisions(): readonly string[] {
    return this.#decisions;
  }
  get lines(): readonly string[] {
    return this.#log ? linesOf(this.#log) : [];
  }

  // The scheduler: follows the script, and after its end schedules all requests in order.

  plan(context: SchedulerContext): void {
    if (this.#checked && this.#cache.totalBlocks !== undefined) this.#policy.checkExpired(this.#now);
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
    // No request can be scheduled: the one admitted last is preempted, or refused if it is alone.
    const last = context.running.at(-1) ?? context.firstWaiting;
    if (!last) return;
    if (context.running.length > 1) this.#preempt(last as Sequence);
    else this.#refuse(last as Sequence);
  }

  get #isScripted(): boolean {
    return this.#at < this.#scenario.script.length;
  }

  /** The next decision of the script, from 0 to n − 1; after its end n − 1. */
  #choose(n: number): number {
    const { script } = this.#scenario;
    return this.#at < script.length ? script[this.#at++] % n : n - 1;
  }

  #admit(sequence: Sequence, tokens: number | undefined): boolean {
    const { id } = sequence.request;
    const request = this.#workloadRequests[id];
    const generated = sequence.generatedTokens;
    let before = this.#digest();
    const allowed = this.#checked ? this.#allowed(request, generated) : [];
    if (this.#checked) {
      const { hitTokens, partialTokens } = this.#model.expected(request, generated, this.#usable());
      const found = this.#replica.cachedTokens(sequence as SequenceView);
      const isLess =
        found < hitTokens + partialTokens && found >= hitTokens + this.#leastPartialTokens(request, generated);
      if (!isLess) same(longestMatch, `tokens cached for request ${id}`, found, hitTokens + partialTokens);
    }
    for (let n = 1; !this.#replica.admit(sequence, tokens); n++) {
      this.#failedAdmissions++;
      if (n === 1 && this.#evictsAtFailure(request, generated, tokens)) {
        this.#checkAllEvicted(request, generated);
        before = this.#digest();
      }
      same(failedAdmission, "after a refused admission", this.#digest(), before);
      if (n >= (this.#scenario.admissionAttempts ?? 1)) return false;
    }
    this.#inStep.add(id);
    this.#decide("admit", sequence);
    if (this.#checked) {
      const found = { hitBlocks: sequence.cachedBlocks, hitTokens: sequence.cachedTokens };
      require(longestMatch, allowed.some((may) => isDeepStrictEqual(may, found)), () =>
        `request ${id} matched ${shown(found)}, expected ${allowed.map(shown).join(" or ")}`);
      this.#check();
      this.#countLookup(request, found.hitBlocks, found.hitTokens);
    }
    return true;
  }

  /** With `failed-admission=evicts`, unless the request would not fit in an empty cache. */
  #evictsAtFailure(request: WorkloadRequest, generated: number, tokens = Number.POSITIVE_INFINITY): boolean {
    const { rules, blockTokens } = this.#model;
    const { totalBlocks } = this.#cache;
    if (rules["failed-admission"] === "unchanged" || totalBlocks === undefined) return false;
    const known = request.prompt.length + generated;
    const { hitTokens } = this.#model.expected(request, generated, this.#usable());
    const longest = request.prompt.length + request.maxOutputTokens - 1;
    const reserved = rules.reserve === "worst-case" ? longest : 0;
    return Math.max(reserved, Math.min(known, hitTokens + tokens)) <= totalBlocks * blockTokens;
  }

  /** After a failed admission with `failed-admission=evicts`: every idle entry left has a block that the request matches. */
  #checkAllEvicted(request: WorkloadRequest, generated: number): void {
    if (!this.#checked) return;
    this.#check();
    const { index } = this.#cache;
    const { hitBlocks } = this.#model.expected(request, generated, this.#stored());
    const matched = new Set(Array.from({ length: hitBlocks }, (_, i) => this.#model.contentOf(request, i)));
    const blocks = [...index.blocks()];
    const kept = new Set(
      blocks
        .filter((block) => {
          const { request: owner, place } = this.#contents.get(block)!;
          return matched.has(this.#model.contentOf(owner, place));
        })
        .map((block) => index.entryOf(block)),
    );
    const left = blocks.map((block) => index.entryOf(block)).filter((e) => index.isEvictable(e) && !kept.has(e));
    same(failedAdmission, "evictable entries that the request does not match", left, []);
  }

  #schedule(sequence: Sequence, tokens: number | undefined): boolean {
    const before = this.#digest();
    if (!this.#replica.schedule(sequence, tokens)) {
      same(failedAdmission, "after a refused extension", this.#digest(), before);
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
    if (!this.#seen.has(sequence.request.id)) this.#countLookup(this.#workloadRequests[sequence.request.id], 0, 0);
  }

  #decide(what: string, sequence: Sequence): void {
    const { request, table, blockCount, computedTokens, stepTokens } = sequence;
    this.#decisions.push(
      `step ${this.#now}: ${what} request ${request.id}, ${computedTokens} tokens cached or computed, ${stepTokens} to compute, ` +
        `blocks ${table.subarray(0, blockCount).join(" ")}`,
    );
  }

  // Checks.

  /** Contents that can be matched now, each as its tokens. */
  #stored(): Set<string> {
    const stored = new Set<string>();
    if (!this.#checked) return stored;
    for (const block of this.#cache.index.blocks()) {
      const content = this.#contents.get(block);
      require(addRemoveAlternate, content !== undefined, () => `block ${block} is stored, but was never published`);
      if (this.#model.isMatchable(content.request, content.place))
        stored.add(this.#model.contentOf(content.request, content.place));
    }
    return stored;
  }

  /** Of these, the contents that an admission may use: with `same-step=recompute` only computed ones. */
  #usable(): Set<string> {
    const stored = this.#stored();
    if (!this.#checked || this.#model.rules["same-step"] === "hit") return stored;
    const computed = [...this.#cache.index.blocks()].filter((block) => this.#isComputed(block));
    return new Set(
      computed
        .map((block) => this.#contents.get(block)!)
        .map(({ request, place }) => this.#model.contentOf(request, place)),
    );
  }

  /**
   * The allowed results of an admission, nearly always one. A last block that the request must copy, because it writes into
   * it, cannot be used while the planned step computes it, and may be left out if the step only recomputes it.
   */
  #allowed(request: WorkloadRequest, generated: number): Pick<Expected, "hitBlocks" | "hitTokens">[] {
    const { hitBlocks, hitTokens, cachedTokens, partialTokens } = this.#model.expected(
      request,
      generated,
      this.#usable(),
    );
    const full = { hitBlocks, hitTokens };
    if (partialTokens > 0) {
      const least = this.#leastPartialTokens(request, generated);
      return Array.from({ length: partialTokens - least + 1 }, (_, n) => ({
        hitBlocks,
        hitTokens: hitTokens + least + n,
      }));
    }
    if (hitBlocks === 0) return [full];
    const { rules, blockTokens } = this.#model;
    const less = { hitBlocks: hitBlocks - 1, hitTokens: (hitBlocks - 1) * blockTokens };
    const isFull = cachedTokens === request.prompt.length + generated;
    if (cachedTokens % blockTokens === 0 && !(isFull && rules["full-hit"] === "recompute-last")) return [full];
    const content = this.#model.contentOf(request, hitBlocks - 1);
    const same = [...this.#cache.index.blocks()].filter((block) => {
      const stored = this.#contents.get(block)!;
      return this.#model.contentOf(stored.request, stored.place) === content;
    });
    if (!same.some((block) => this.#isComputed(block))) return [less];
    return same.some((block) => this.#isWritten(block)) ? [full, less] : [full];
  }

  /** Tokens of the best partial match without blocks that the planned step writes into. */
  #leastPartialTokens(request: WorkloadRequest, generated: number): number {
    if (this.#model.rules.partial === "steal-only") return 0;
    const stored = this.#usable();
    const { matched, hitBlocks } = this.#model.expected(request, generated, stored);
    const written = [...this.#cache.index.blocks()].filter((block) => this.#isWritten(block));
    const contents = written
      .map((block) => this.#contents.get(block)!)
      .map((each) => this.#model.contentOf(each.request, each.place));
    // A full match that the rules allow in part only.
    if (hitBlocks < matched && contents.includes(this.#model.contentOf(request, hitBlocks))) return 0;
    for (const content of contents) stored.delete(content);
    for (let i = 0; i < matched; i++) stored.add(this.#model.contentOf(request, i));
    return this.#model.expected(request, generated, stored).partialTokens;
  }

  /** Whether the planned step writes into the block. */
  #isWritten(block: number): boolean {
    const { blockTokens } = this.#model;
    return this.#replica.running.some(({ table, computedTokens, stepTokens, blocks: { copiedAt } }) => {
      if (copiedAt >= 0 && table[copiedAt] === block) return true;
      const end = Math.ceil((computedTokens + stepTokens) / blockTokens);
      return stepTokens > 0 && table.subarray(Math.floor(computedTokens / blockTokens), end).includes(block);
    });
  }

  /** Whether the slots of a published block contain its content. */
  #isComputed(block: number): boolean {
    const { request, place } = this.#contents.get(block)!;
    const begin = place * this.#model.blockTokens;
    for (let p = begin; p < this.#model.blockEnd(request, place); p++)
      if (this.#memory.at(block, p - begin) !== prefixOf(request, p + 1)) return false;
    return true;
  }

  /** All state that a failed operation must not change. */
  #digest(): unknown {
    if (!this.#checked) return undefined;
    const { pool, index } = this.#cache;
    return {
      blocks: pool.words.slice(),
      stored: [...index.blocks()].sort((a, b) => a - b),
      evictable: index.evictableBlocks,
      free: this.#cache.freeBlocks,
      victim:
        (this.#scenario.extraVictimCalls ?? true) && this.#cache.totalBlocks !== undefined && this.#policy.victim(),
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
      same(
        addRemoveAlternate,
        "entries reported to the policy as evictable",
        sorted(this.#policy.added),
        sorted(evictable),
      );
    this.#recount!.catchUp();
    this.#recount!.compare(this.#cache);
    this.#entries!.check();
    this.#checkRequests();
  }

  /** A request waits or runs from its arrival to its end. */
  #checkRequests(): void {
    const { requests } = this.#cache;
    const idsOf = (views: Iterable<{ readonly id: number }>) => [...views].map(({ id }) => id);
    const [waiting, running] = [idsOf(requests.waiting()), idsOf(requests.running())];
    const present = this.#requests.slice(0, this.#arrived).filter(({ id }) => !this.#ended.has(id));
    same(requestsView, "waiting and running requests", sorted([...waiting, ...running]), idsOf(present));
    same(requestsView, "running requests", running, idsOf(this.#replica.running.map(({ request }) => request)));
  }

  /** Between two steps every stored block is computed and contains its content. */
  #checkStored(): void {
    if (!this.#checked) return;
    for (const block of this.#cache.index.blocks()) {
      const { request, place } = this.#contents.get(block)!;
      require(longestMatch, this.#isComputed(block), () =>
        `block ${block} is not computed, but stored as ${this.#model.contentOf(request, place)}`);
    }
  }

  /** Counts a request's first lookup. */
  #countLookup(request: WorkloadRequest, hitBlocks: number, hitTokens: number): void {
    if (this.#seen.has(request.id)) return;
    this.#seen.add(request.id);
    const blocks = this.#model.promptBlocks(request);
    this.#sum.lookups++;
    this.#sum.lookupBlocks += blocks;
    this.#sum.lookupTokens += request.prompt.length;
    this.#sum.hitBlocks += hitBlocks;
    this.#sum.hitTokens += hitTokens;
    this.#sum.blocks += blocks === 0 ? 0 : hitBlocks / blocks;
    this.#sum.tokens += hitTokens / request.prompt.length;
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
