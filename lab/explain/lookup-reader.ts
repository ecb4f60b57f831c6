import type { LogEvent } from "../../core/log/events.ts";
import type { MissReason } from "../../core/log/miss-reasons.ts";
import type { RequestFacts } from "./request-facts.ts";

/** The configuration of the run whose log is read. */
export interface LookupConfig {
  readonly blockTokens: number;
  /** Requests before this one are not measured. */
  readonly warmup: number;
  /** False for a replica that only decodes, whose lookups are in no counter. */
  readonly isCounted: boolean;
  /** Rule `full-hit=rewrite-miss`: the last token of a prompt is never a hit. */
  readonly missesLast: boolean;
}

/**
 * Reads the lookups of blocks from an event log: after an `admit`, a `hit`, `adopt` or `miss` for each block that is looked up.
 * The first admission of a measured request is counted, so that missed tokens add up to `missTokens` of the report.
 */
export class LookupReader {
  /** The admission under way. */
  request = -1;
  /** It is the first one of its request. */
  isFirst = false;
  /** Its tokens are in the counters of the report. */
  isCounted = false;
  hitTokens = 0;
  /** The last lookup. */
  place = -1;
  content = -1;
  /** Undefined: a hit. */
  reason: MissReason | undefined;
  /** Tokens of the block that missed; 0 unless the admission is the first one of its request. */
  missedTokens = 0;
  readonly #config: LookupConfig;
  readonly #facts: RequestFacts;
  /** By request, 1 if it has been admitted before. */
  readonly #admitted: Uint8Array;
  #isMissing = false;
  #partialTokens = 0;

  constructor(config: LookupConfig, facts: RequestFacts) {
    this.#config = config;
    this.#facts = facts;
    this.#admitted = new Uint8Array(facts.count);
  }

  /** Applies the next event; true if it is the lookup of a block. */
  apply(event: LogEvent): boolean {
    switch (event.name) {
      case "admit":
        this.#begin(event.request, event.hitTokens, event.hitBlocks);
        return false;
      case "hit":
        this.#look(event.content, undefined);
        return true;
      case "adopt":
        // Without content it is no lookup: a block is taken over.
        if (event.content < 0) return false;
        this.#look(event.content, this.#isMissing ? "past-hole" : "match-limit");
        return true;
      case "miss":
        this.#isMissing = true;
        this.#look(event.content, event.missReason);
        return true;
      default:
        return false;
    }
  }

  /** Missed tokens of the prompt's incomplete last block, which is not looked up; read after all lookups of the admission. */
  get tailTokens(): number {
    const { inputTokens, promptBlocks } = this.#facts;
    const tail = inputTokens[this.request] - promptBlocks[this.request] * this.#config.blockTokens;
    return Math.max(0, tail - this.#partialTokens);
  }

  #begin(request: number, hitTokens: number, hitBlocks: number): void {
    const { blockTokens, warmup, isCounted, missesLast } = this.#config;
    const inputTokens = this.#facts.inputTokens[request];
    this.request = request;
    this.isFirst = this.#admitted[request] === 0;
    this.isCounted = this.isFirst && isCounted && request >= warmup;
    this.#admitted[request] = 1;
    this.hitTokens = hitTokens;
    this.place = -1;
    this.#isMissing = false;
    const blocksTokens = Math.min(hitBlocks * blockTokens, inputTokens);
    const isWhole = missesLast && hitTokens === inputTokens - 1 && hitTokens !== blocksTokens;
    this.#partialTokens = (isWhole ? inputTokens : hitTokens) - blocksTokens;
  }

  #look(content: number, reason: MissReason | undefined): void {
    const { blockTokens } = this.#config;
    const place = ++this.place;
    this.content = content;
    this.reason = reason;
    this.missedTokens = 0;
    if (!this.isFirst || reason === undefined) return;
    const tokens = Math.min(blockTokens, this.#facts.inputTokens[this.request] - place * blockTokens);
    // A part of the first block past the hits may be used.
    this.missedTokens = tokens - this.#partialTokens;
    this.#partialTokens = 0;
  }
}
