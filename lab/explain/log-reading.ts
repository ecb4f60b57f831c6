import type { EventColumns } from "../../core/log/event-log.ts";
import { EventRecord } from "../../core/log/event-record.ts";
import { type EventOf, ignore, type LogEvent } from "../../core/log/events.ts";
import { RemovalCauses } from "../../core/log/removal-causes.ts";
import { BlockHistory } from "./block-history.ts";
import { EvictionCosts } from "./eviction-costs.ts";
import type { Age } from "./explanation.ts";
import { type LookupConfig, LookupReader } from "./lookup-reader.ts";
import type { NextUses } from "./next-uses.ts";
import { PromptRuns } from "./prompt-runs.ts";
import { Removals } from "./removals.ts";
import type { RequestFacts } from "./request-facts.ts";
import type { ResidencyCounts } from "./residency.ts";
import { Victims } from "./victims.ts";

/** The run of one replica. */
export interface ReplicaLog {
  readonly replica: number;
  readonly lookups: LookupConfig;
  readonly facts: RequestFacts;
  /** Events have times. */
  readonly hasClock: boolean;
  /** Index of the first event after the warm-up. */
  readonly measuredFrom: number;
  /** The rule `victims` is `leaf`. */
  readonly leavesOnly: boolean;
  readonly recomputeNs: ((from: number, to: number) => number) | undefined;
}

/** Needed for costs of evictions and explanations of requests, but not for residency. */
export interface CounterfactualParts {
  readonly uses: NextUses;
  readonly requests: ReadonlySet<number>;
}

/** Reads the event log of a replica, piece by piece: residency, costs of evictions, and explanations of requests. */
export class LogReading {
  readonly costs: EvictionCosts;
  readonly prompts: PromptRuns;
  readonly #log: ReplicaLog;
  readonly #residency: ResidencyCounts;
  readonly #record = new EventRecord();
  readonly #blocks = new BlockHistory();
  readonly #lookups: LookupReader;
  readonly #removals = new Removals();
  readonly #causes = new RemovalCauses();
  readonly #victims: Victims | undefined;
  #events = 0;
  /** The unit of ages: a time, or the number of the request that is served now or next. */
  #now = 0;
  #hasEnded = false;

  constructor(log: ReplicaLog, residency: ResidencyCounts, counterfactual?: CounterfactualParts) {
    const { replica, facts, lookups, leavesOnly, recomputeNs } = log;
    this.#log = log;
    this.#residency = residency;
    this.#lookups = new LookupReader(lookups, facts);
    this.#victims = counterfactual && new Victims(this.#blocks, counterfactual.uses, leavesOnly);
    this.costs = new EvictionCosts(replica, this.#removals);
    const { blockTokens } = lookups;
    const parts = { replica, blockTokens, facts, lookups: this.#lookups, removals: this.#removals, recomputeNs };
    const ageBetween = (from: number, to: number) => this.#ageBetween(from, to);
    this.prompts = new PromptRuns({ ...parts, ageBetween }, counterfactual?.requests ?? new Set());
  }

  /** The next events of the log. */
  read({ kind, timeNs, request, block, key, value }: EventColumns): void {
    for (let i = 0; i < kind.length; i++)
      this.#apply(this.#record.decode(this.#events++, kind[i], timeNs[i], request[i], block[i], key[i], value[i]));
  }

  /** All events have been read. */
  end(): void {
    this.prompts.end();
    const { blocks, hits } = this.#blocks;
    for (let block = 0; block < blocks; block++)
      if (this.#blocks.isCached(block)) this.#residency.cachedAtEnd(hits[block]);
  }

  #apply(event: LogEvent): void {
    this.#advance(event);
    // Ends the lookups of the admission before.
    if (event.name === "admit") this.prompts.end();
    const isLookup = this.#lookups.apply(event);
    switch (event.name) {
      case "admit":
        this.prompts.begin();
        break;
      case "refuse":
        this.prompts.refuse(event.request);
        break;
      case "hit":
        if (this.#lookups.isCounted) this.#residency.ageAtHit.add(this.#ageOf(event.block));
        break;
      case "clear":
        this.#causes.causeOf(event);
        break;
      case "evict":
      case "drop":
        this.#remove(event);
        break;
      case "publish":
        this.#removals.published(event.content);
        this.prompts.seen(event.content, event.request);
        break;
      default:
        ignore<Exclude<LogEvent["name"], "admit" | "refuse" | "hit" | "clear" | "evict" | "drop" | "publish">>(event);
    }
    if (isLookup) this.#lookedUp();
    this.#blocks.applyAt(event, this.#now);
  }

  /** Without a clock the request that is served is the time, and between two requests the next one. */
  #advance({ name, timeNs, request }: LogEvent): void {
    if (this.#log.hasClock) {
      this.#now = timeNs;
    } else if (request >= 0) {
      if (name === "finish" || name === "refuse") this.#hasEnded = true;
      else if (request !== this.#now) this.#hasEnded = false;
      this.#now = request;
    } else if (this.#hasEnded && name !== "step") {
      this.#now++;
      this.#hasEnded = false;
    }
  }

  #lookedUp(): void {
    const { content, request, reason, missedTokens, isCounted } = this.#lookups;
    this.prompts.lookedUp(this.#now);
    // All tokens of a missed block may be hits of a partial match.
    if (reason === "evicted" && isCounted && missedTokens > 0) {
      const cause = this.#removals.causeOf(content);
      const age = cause === undefined ? 0 : this.#now - this.#removals.at[content];
      this.#residency.missed(cause, age, missedTokens);
      if (this.#victims && cause === "eviction") this.costs.missed(content, missedTokens, request);
    }
    this.#removals.lookedUp(content);
    this.#victims?.lookedUp(content);
  }

  #remove(event: EventOf<"evict" | "drop">): void {
    const { at, block, request } = event;
    const cause = this.#causes.causeOf(event);
    const blocks = this.#blocks;
    if (!blocks.isCached(block)) return;
    const content = blocks.content[block];
    const isMeasured = at >= this.#log.measuredFrom;
    if (isMeasured) {
      const lifetime = this.#now - blocks.publishedAt[block];
      this.#residency.removed(cause, this.#ageOf(block), lifetime, blocks.hits[block]);
    }
    const choice = cause === "eviction" ? this.#victims?.choice(block) : undefined;
    const batch = choice && this.costs.evicted(at, request, this.#now, choice, isMeasured);
    if (blocks.copiesOf(content) > 1) return;
    const removals = this.#removals;
    removals.add(content, cause);
    removals.at[content] = this.#now;
    removals.usedAt[content] = blocks.usedAt[block];
    removals.usedBy[content] = blocks.usedBy[block];
    removals.request[content] = request;
    if (batch !== undefined) removals.batch[content] = batch;
    if (choice) removals.setChoice(content, choice);
  }

  /** Time since the last use of a cached block. */
  #ageOf(block: number): number {
    return this.#blocks.isReferenced(block) ? 0 : this.#now - this.#blocks.usedAt[block];
  }

  #ageBetween(from: number, to: number): Age {
    if (this.#log.hasClock) return { ns: to - from };
    return { requests: to - from, arrivalNs: this.#log.facts.between(from, to) };
  }
}
