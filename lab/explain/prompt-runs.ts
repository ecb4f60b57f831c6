import { grown } from "../../core/grown.ts";
import { alternative } from "./eviction-costs.ts";
import type { Age, RemovalFacts, RequestExplanation, TokenRun } from "./explanation.ts";
import type { LookupReader } from "./lookup-reader.ts";
import { none, type Removals } from "./removals.ts";
import type { RequestFacts } from "./request-facts.ts";

type Mutable<T> = { -readonly [Field in keyof T]: T[Field] };

/** The parts of the reading of a log that an explanation of requests uses. */
export interface PromptRunParts {
  readonly replica: number;
  readonly blockTokens: number;
  readonly facts: RequestFacts;
  readonly lookups: LookupReader;
  readonly removals: Removals;
  readonly ageBetween: (from: number, to: number) => Age;
  /** Duration of a step that computes tokens `[from, to)` of a prompt, in ns. */
  readonly recomputeNs: ((from: number, to: number) => number) | undefined;
}

/** Collects the explanations of chosen requests at their first admission. */
export class PromptRuns {
  readonly explanations: RequestExplanation[] = [];
  /** Chosen requests that were refused. */
  readonly refused = new Set<number>();
  readonly #parts: PromptRunParts;
  readonly #requests: ReadonlySet<number>;
  /** By content, 1 + the last request that has looked it up or published it. */
  #seenBy = new Int32Array(1 << 10);
  #isCollecting = false;
  #runs: Mutable<TokenRun>[] = [];
  #sharedBlocks = 0;
  #sharedWith = none;

  constructor(parts: PromptRunParts, requests: ReadonlySet<number>) {
    this.#parts = parts;
    this.#requests = requests;
  }

  /** A request is admitted. */
  begin(): void {
    const { request, isFirst } = this.#parts.lookups;
    this.#isCollecting = isFirst && this.#requests.has(request);
    this.#runs = [];
    this.#sharedBlocks = 0;
    this.#sharedWith = none;
  }

  /** A request is refused, possibly after an admission. */
  refuse(request: number): void {
    if (this.#requests.has(request)) this.refused.add(request);
  }

  /** The next lookup of the admission; the removal that it finds is not marked yet. */
  lookedUp(now: number): void {
    const { lookups } = this.#parts;
    const { content, place, request } = lookups;
    if (this.#isCollecting) {
      const before = this.#seenIn(content);
      if (before !== none && this.#sharedBlocks === place) {
        this.#sharedBlocks++;
        this.#sharedWith = before;
      }
      this.#addRun(now);
    }
    this.seen(content, request);
  }

  /** The request has the content in its prompt or output. */
  seen(content: number, request: number): void {
    if (content >= this.#seenBy.length)
      this.#seenBy = grown(this.#seenBy, Math.max(content + 1, 2 * this.#seenBy.length));
    this.#seenBy[content] = request + 1;
  }

  /** The lookups of the admission have ended. */
  end(): void {
    if (!this.#isCollecting) return;
    this.#isCollecting = false;
    const { lookups, facts, replica, blockTokens } = this.#parts;
    const { request, hitTokens, tailTokens } = lookups;
    const inputTokens = facts.inputTokens[request];
    if (tailTokens > 0) this.#append(inputTokens - tailTokens, inputTokens, "shorter-than-block", undefined);
    const missed = this.#runs.find(({ reason }) => reason !== "hit");
    // A part of the first block past the hits may be a hit.
    if (missed) missed.from = Math.min(missed.to, Math.max(missed.from, hitTokens));
    else if (hitTokens < inputTokens) this.#append(hitTokens, inputTokens, "match-limit", undefined);
    this.explanations.push({
      request,
      replica,
      inputTokens,
      hitTokens,
      evictedTokens: this.#runs.reduce((sum, run) => sum + (run.reason === "evicted" ? run.to - run.from : 0), 0),
      runs: this.#withHits(hitTokens),
      sharedTokens: Math.min(inputTokens, this.#sharedBlocks * blockTokens),
      sharedWith: this.#sharedWith < 0 ? null : this.#sharedWith,
    });
  }

  #seenIn(content: number): number {
    return content < this.#seenBy.length ? this.#seenBy[content] - 1 : none;
  }

  #addRun(now: number): void {
    const { lookups, facts, blockTokens } = this.#parts;
    const { place, reason, content, request } = lookups;
    const from = place * blockTokens;
    const to = Math.min(from + blockTokens, facts.inputTokens[request]);
    if (reason === undefined || to <= from) return;
    this.#append(from, to, reason, reason === "evicted" ? this.#removalOf(content, now) : undefined);
  }

  #append(from: number, to: number, reason: TokenRun["reason"], removal: RemovalFacts | undefined): void {
    const last = this.#runs.at(-1);
    if (last && last.to === from && last.reason === reason && isSame(last.removal, removal)) last.to = to;
    else this.#runs.push({ from, to, reason, ...(removal && { removal }) });
  }

  /** All runs, with that of the hits, and with their durations. */
  #withHits(hitTokens: number): TokenRun[] {
    const { recomputeNs } = this.#parts;
    const missed = this.#runs
      .filter(({ from, to }) => to > from)
      .map((run) => (recomputeNs ? { ...run, recomputeMs: recomputeNs(run.from, run.to) / 1e6 } : run));
    return hitTokens > 0 ? [{ from: 0, to: hitTokens, reason: "hit" }, ...missed] : missed;
  }

  #removalOf(content: number, now: number): RemovalFacts | undefined {
    const { removals, ageBetween } = this.#parts;
    const cause = removals.causeOf(content);
    if (cause === undefined) return undefined;
    const { at, usedAt, usedBy, request, isRight, rightUsedBy, rightNextUsedBy } = removals;
    const instead = alternative(isRight[content] === 1, rightUsedBy[content], rightNextUsedBy[content]);
    return {
      cause,
      request: request[content] < 0 ? null : request[content],
      ago: ageBetween(at[content], now),
      lastUsedBy: usedBy[content] < 0 ? null : usedBy[content],
      idle: ageBetween(usedAt[content], at[content]),
      ...(cause === "eviction" && { instead }),
    };
  }
}

/** Blocks that were removed for one request, and last used by one, are one run. */
function isSame(a: RemovalFacts | undefined, b: RemovalFacts | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.cause === b.cause && a.request === b.request && a.lastUsedBy === b.lastUsedBy;
}
