import type { EventLog } from "../log/event-log.ts";
import { Miss } from "../log/miss-reasons.ts";
import type { BlockId, EvictionPolicy, Match, PartialMatch, PrefixIndex } from "../plugins/index.ts";
import type { Rules } from "../plugins/rules.ts";
import { noTail } from "../trace/content.ts";
import type { Nanos } from "../trace/trace.ts";
import { countBelow, countIdle } from "./block-loops.ts";
import { hole } from "./block-table.ts";
import { ContentHistory, MissedBlocks } from "./content-history.ts";
import type { Counters } from "./counters.ts";
import { type BlockPool, BlockState, blockWord } from "./pool.ts";
import type { Request, Sequence } from "./request.ts";

const idleWord = blockWord(BlockState.idle, 0);

/**
 * Number of the `found` blocks that the rules `match-limit` and `drop-blocks` allow as hits; `limited`: `match-limit` is not
 * `all`.
 */
export function usableBlocks(
  found: number,
  tokens: number,
  blockTokens: number,
  limited: boolean,
  drop: number,
): number {
  const limit = limited ? Math.floor((tokens - 1) / blockTokens) : found;
  return Math.max(0, Math.min(found, limit) - drop);
}

/** The components of a cache that a lookup uses. */
interface LookupParts {
  readonly blockTokens: number;
  readonly rules: Rules;
  readonly index: PrefixIndex;
  readonly policy: EvictionPolicy;
  readonly namespaces: boolean;
  readonly log: EventLog | undefined;
}

/**
 * The hits of an admission and the blocks that it needs. Filled by `Lookup.planAdmission`, executed by `KvCache.admit`; one
 * object is reused for all admissions.
 */
export class Admission {
  /** Hits, in blocks; they are in the sequence's block table. */
  hitBlocks = 0;
  /** Hits, in tokens: those of the hit blocks and `partialTokens`. */
  hitTokens = 0;
  /** Length of the block table after admission. */
  tableEnd = 0;
  /** The last known token is cached, but not a hit: `full-hit=rewrite-miss`. */
  missesLast = false;
  /** Blocks to allocate. */
  neededBlocks = 0;
  /** Found blocks that are idle: referencing them makes fewer blocks evictable. */
  idleBlocks = 0;
  /** Blocks of the prompt that are cached, including those after the first block that is not (a hole). */
  residentBlocks = 0;
  /** Cached blocks past a hole are referenced, too, up to this index of the block table (exclusive); 0 = none. */
  adoptedEnd = 0;
  /** The last hit block is shared, and this step writes to it: it is copied before the step. */
  copyLast = false;
  /** The last hit block is copied when the first output token is added to it. */
  copyLater = false;
  /** Leading tokens of the first block past the hits that `partialBlock` contains; 0 = none. */
  partialTokens = 0;
  partialBlock: BlockId = hole;
  /** `partialBlock` becomes the request's private block instead of being copied: it is idle and has no children. */
  stealsPartial = false;
  /** Miss reason that the `partialTokens` would have without the rule `partial`. */
  partialReason = 0;
}

/** Looks up requests under the reuse rules: the part of an admission that changes nothing. */
export class Lookup {
  /** Result of the last `planAdmission`. */
  readonly #admission = new Admission();
  /** Absent where the index distinguishes evicted content from cold misses and stores every allocated block. */
  readonly history: ContentHistory | undefined;
  /** Whether the step that is being planned computes the block; set by the replica. */
  isBeingComputed: (block: BlockId) => boolean = () => false;
  readonly #blockTokens: number;
  readonly #index: PrefixIndex;
  readonly #pool: BlockPool;
  readonly #limited: boolean;
  readonly #dropBlocks: number;
  readonly #adopt: boolean;
  readonly #recomputeLast: boolean;
  readonly #rewriteMiss: boolean;
  readonly #storedLogits: boolean;
  readonly #worstCase: boolean;
  /** Whether the rules allow partial matches. */
  readonly #partial: boolean;
  readonly #steal: boolean;
  /** Blocks that the step being planned computes are not hits: they are referenced and computed again. */
  readonly #recomputes: boolean;
  readonly #limit: Rules["match-limit"];
  readonly #match: Match = { blocks: 0, absent: 0, evicted: 0 };
  readonly #partialMatch: PartialMatch = {
    block: hole,
    tokens: 0,
    maxTokens: 0,
    isUsable: (block) => this.#isUsable(block),
  };
  readonly #stealOnly: boolean;
  readonly #missed = new MissedBlocks();
  /** Miss reason of each block of the prompt; only with a log. */
  readonly #reasons: number[] | undefined;
  /** Block table of `cachedTokens`. */
  #scratch = new Int32Array(64);

  constructor({ blockTokens, rules, index, policy, namespaces, log }: LookupParts, pool: BlockPool) {
    this.#blockTokens = blockTokens;
    this.#index = index;
    this.#pool = pool;
    this.#limit = rules["match-limit"];
    this.#limited = this.#limit !== "all";
    // `drop-blocks` disables partial matches.
    this.#partial = rules.partial !== "none" && rules["drop-blocks"] === 0;
    this.#stealOnly = rules.partial === "steal-only";
    this.#steal = rules.partial === "steal" || this.#stealOnly;
    this.#recomputes = rules["same-step"] === "recompute";
    this.#dropBlocks = rules["drop-blocks"];
    this.#adopt = rules.duplicates === "adopt" || rules.duplicates === "share";
    this.#recomputeLast = rules["full-hit"] === "recompute-last";
    this.#rewriteMiss = rules["full-hit"] === "rewrite-miss";
    this.#storedLogits = rules["full-hit"] === "stored-logits";
    this.#worstCase = rules.reserve === "worst-case";
    this.#reasons = log === undefined ? undefined : [];
    // A block that the policy has refused to store was computed and is not remembered by the index.
    const remembered =
      index.remembersEvicted === true && rules.publish === "allocation" && !namespaces && policy.admits === undefined;
    this.history = remembered ? undefined : new ContentHistory();
  }

  /**
   * Upper bound on an admission's hit tokens: includes a last block to be copied even if this step computes it. Changes
   * nothing.
   */
  cachedTokens(sequence: Sequence): number {
    const blocks = this.#knownBlocks(sequence);
    if (blocks > this.#scratch.length) this.#scratch = new Int32Array(2 * blocks);
    const matched = this.#matchIn(sequence, blocks, this.#scratch);
    const hits = this.#usable(this.#computedOf(this.#scratch, matched), sequence);
    const part = this.#partial ? this.#matchPartial(sequence, this.#scratch, hits, matched) : 0;
    return this.#hitTokens(this.#tokensOf(hits, sequence) + part, sequence);
  }

  /** Of the cached tokens, those that are hits: with `full-hit=rewrite-miss` the last token of the prompt is none. */
  #hitTokens(cached: number, { knownTokens }: Sequence): number {
    return this.#rewriteMiss && cached === knownTokens ? cached - 1 : cached;
  }

  /**
   * Length in blocks of the longest stored prefix of the prompt, regardless of the rules; writes its blocks to
   * `sequence.table`.
   */
  match(sequence: Sequence): number {
    return this.#matchIn(sequence, sequence.request.promptBlocks, sequence.table);
  }

  /** Length in blocks of the longest stored prefix of the first `blocks` blocks; writes its blocks to `table`. */
  #matchIn({ request }: Sequence, blocks: number, table: Int32Array): number {
    const { keys, keyStart } = request;
    const lookupBlocks = this.#index.stores === undefined ? blocks : Math.min(blocks, this.#index.stores(request));
    this.#index.match(keys, keyStart, lookupBlocks, table, this.#match);
    if (lookupBlocks < blocks) {
      table.fill(hole, lookupBlocks, blocks);
      this.#match.absent += blocks - lookupBlocks;
    }
    return this.#match.blocks;
  }

  /** Number of matched blocks before the first that is not computed yet, if the rule `same-step` excludes it. */
  #computedOf(table: Int32Array, matched: number): number {
    if (!this.#recomputes) return matched;
    for (let i = 0; i < matched; i++) if (this.isBeingComputed(table[i])) return i;
    return matched;
  }

  /** Whether a request may use a part of the block. */
  #isUsable(block: BlockId): boolean {
    if (this.#stealOnly && !this.#maySteal(block)) return false;
    return !this.isBeingComputed(block);
  }

  #maySteal(block: BlockId): boolean {
    return this.#pool.words[block] === idleWord && this.#index.isLeaf!(block);
  }

  /**
   * Leading tokens of the first block past the hits that are cached and usable under the rule `partial`; the block is in
   * `#partialMatch`.
   */
  #matchPartial(sequence: Sequence, table: Int32Array, hits: number, matched: number): number {
    const { request, knownTokens } = sequence;
    const { contents } = request.blocks;
    const begin = hits * this.#blockTokens;
    if (contents === undefined || begin >= knownTokens || hits >= sequence.maxHitBlocks) return 0;
    if (this.#limit === "block-before-l" && begin + this.#blockTokens >= knownTokens) return 0;
    const found = this.#partialMatch;
    // The content of a partial block is known up to the end of the prompt.
    const end = hits < matched && hits !== request.partialAt ? begin + this.#blockTokens : request.inputTokens;
    const maxTokens = Math.min(this.#blockTokens, end - begin, knownTokens - begin - (this.#limited ? 1 : 0));
    if (maxTokens <= 0) return 0;
    if (hits < matched) {
      found.block = table[hits];
      return this.#isUsable(found.block) ? maxTokens : 0;
    }
    const key = request.keyAt(hits);
    if (key === noTail) return 0;
    found.tokens = 0;
    found.maxTokens = maxTokens;
    this.#index.matchPartial!(hits === 0 ? hole : table[hits - 1], key, contents, found);
    return Math.min(found.tokens, maxTokens);
  }

  /** Blocks of the sequence whose content is known and may be matched. */
  #knownBlocks(sequence: Sequence): number {
    const { request } = sequence;
    // A partial last block is stored for its prompt only: no block after it can be matched.
    if (sequence.generatedTokens === 0 || request.partialAt >= 0) return request.promptBlocks;
    const generated = Math.floor(sequence.knownTokens / this.#blockTokens);
    return Math.max(request.promptBlocks, Math.min(request.wholeBlocks, generated));
  }

  /** Number of `found` matched blocks that are usable under the rules. */
  #usable(found: number, sequence: Sequence): number {
    const limit = Math.min(found, sequence.maxHitBlocks);
    return usableBlocks(limit, sequence.knownTokens, this.#blockTokens, this.#limited, this.#dropBlocks);
  }

  /** Tokens in the first `blocks` blocks; the prompt's last block has no more than the prompt's tokens. */
  #tokensOf(blocks: number, sequence: Sequence): number {
    const { promptBlocks, inputTokens } = sequence.request;
    return Math.min(blocks * this.#blockTokens, blocks <= promptBlocks ? inputTokens : sequence.knownTokens);
  }

  /** Tokens for which an admission allocates blocks: with `reserve=worst-case` those of the longest output. */
  reservedTokens(sequence: Sequence, tokens: number): number {
    if (!this.#worstCase) return tokens;
    return Math.max(tokens, sequence.request.inputTokens + sequence.request.maxOutputTokens - 1);
  }

  /** Whether block i of the table is a partial last block to which another request may add output tokens. */
  #isBeingFilled({ request, table }: Sequence, i: number): boolean {
    return i === request.partialAt && table[i] >= 0 && this.#pool.words[table[i]] !== idleWord;
  }

  /** Whether a request with these hits writes to the last block: its last token again, or output tokens. */
  #writesToLast(hits: number, sequence: Sequence): boolean {
    if (hits === 0) return false;
    const hitTokens = this.#tokensOf(hits, sequence);
    return hitTokens < hits * this.#blockTokens || (this.#recomputeLast && hitTokens === sequence.knownTokens);
  }

  /** The admission of a request that computes at most `tokens`; writes the blocks found to the sequence's block table. */
  planAdmission(sequence: Sequence, tokens: number): Admission {
    const { request, blocks: blockTable } = sequence;
    const known = sequence.knownTokens;
    const blocks = this.#knownBlocks(sequence);
    blockTable.reserve(blocks);
    const stored = this.#matchIn(sequence, blocks, sequence.table);
    const matched = this.#computedOf(sequence.table, stored);
    let hits = this.#usable(matched, sequence);
    let last = hits === 0 ? hole : sequence.table[hits - 1];
    // A shared block is copied before it is written to.
    let copies = this.#writesToLast(hits, sequence) && this.#pool.words[last] !== idleWord;
    // Copies are made before the step: a block that this step computes cannot be copied, and is computed again.
    const isSourceEmpty = copies && this.isBeingComputed(last);
    if (isSourceEmpty) {
      hits--;
      last = hits === 0 ? hole : sequence.table[hits - 1];
      copies = this.#writesToLast(hits, sequence) && this.#pool.words[last] !== idleWord;
    }
    const partTokens =
      isSourceEmpty || !this.#partial ? 0 : this.#matchPartial(sequence, sequence.table, hits, matched);
    const cachedTokens = this.#tokensOf(hits, sequence) + partTokens;
    const hitTokens = this.#hitTokens(cachedTokens, sequence);
    const endToken = this.reservedTokens(sequence, Math.min(known, hitTokens + tokens));
    const target = Math.max(hits, sequence.blocksUpTo(endToken));
    blockTable.reserve(target);
    const admission = this.#admission;
    const { table } = sequence;
    const { words } = this.#pool;
    let idle = this.#index.evictableAlong?.(table, hits) ?? countIdle(table, 0, hits, words);
    // With stored logits only output tokens are written to the block, unless `worst-case` reserves its copy now.
    const isLater = this.#storedLogits && !this.#worstCase && hitTokens === known;
    admission.copyLast = copies && !isLater;
    admission.copyLater = isLater && this.#writesToLast(hits, sequence);
    const resident = blocks - this.#match.absent;
    admission.missesLast = hitTokens < cachedTokens;
    admission.partialTokens = partTokens;
    admission.stealsPartial = false;
    if (partTokens > 0) {
      admission.partialBlock = this.#partialMatch.block;
      admission.partialReason = hits < blocks ? this.#missReason(request, table, matched, hits) : Miss.shorterThanBlock;
      admission.stealsPartial = this.#steal && this.#maySteal(admission.partialBlock);
      if (admission.stealsPartial) idle++;
    }
    if (hits < blocks) this.#classify(request, table, hits, matched, blocks);
    if (isSourceEmpty) this.#missed.move(Miss.matchLimit, Miss.notYetComputed);
    for (let i = matched; i < stored; i++) this.#missed.move(Miss.pastHole, Miss.notYetComputed);
    if (this.#reasons) {
      for (let i = hits; i < blocks; i++)
        this.#reasons[i] =
          i >= matched && i < stored ? Miss.notYetComputed : this.#missReason(request, table, matched, i);
      if (isSourceEmpty) this.#reasons[hits] = Miss.notYetComputed;
    }
    let adoptedEnd = 0;
    let adopted = 0;
    if (resident > hits) {
      if (this.#adopt) {
        adoptedEnd = blocks;
        if (this.#isBeingFilled(sequence, blocks - 1)) table[blocks - 1] = hole;
        const end = Math.min(target, blocks);
        adopted = end - hits - countBelow(table, hits, end, 0);
        idle += countIdle(table, hits, blocks, words);
      } else {
        table.fill(hole, hits, blocks);
      }
    }
    if (target > blocks) table.fill(hole, blocks, target);
    admission.residentBlocks = resident;
    admission.hitBlocks = hits;
    admission.hitTokens = hitTokens;
    admission.tableEnd = target;
    admission.neededBlocks = target - hits - adopted + (admission.copyLast ? 1 : 0) - (admission.stealsPartial ? 1 : 0);
    admission.idleBlocks = idle;
    admission.adoptedEnd = adoptedEnd;
    return admission;
  }

  /** Fills `#missed` with the miss reasons of the blocks from `hits` on. */
  #classify(request: Request, table: Int32Array, hits: number, matched: number, blocks: number): void {
    if (this.history !== undefined) {
      this.history.classify(request, table, hits, matched, blocks, this.#missed);
      return;
    }
    const { absent, evicted } = this.#match;
    const { count } = this.#missed;
    count[Miss.neverSeen] = absent - evicted;
    count[Miss.evicted] = evicted;
    count[Miss.notYetComputed] = 0;
    count[Miss.matchLimit] = matched - hits;
    count[Miss.pastHole] = blocks - matched - absent;
    this.#missed.last = this.#missReason(request, table, matched, blocks - 1);
  }

  #missReason(request: Request, table: Int32Array, matched: number, i: number): number {
    if (this.history !== undefined) return this.history.missReason(request, i, table[i] >= 0, matched);
    if (table[i] >= 0) return i < matched ? Miss.matchLimit : Miss.pastHole;
    return table[i] < hole ? Miss.evicted : Miss.neverSeen;
  }

  /** Adds the last lookup to the counters, once per request. */
  count(sequence: Sequence, counters: Counters): void {
    const {
      hitBlocks,
      hitTokens,
      residentBlocks,
      partialTokens: partTokens,
      partialReason: partReason,
    } = this.#admission;
    const blockTokens = this.#blockTokens;
    if (sequence.counted) {
      counters.rehitTokens += hitTokens;
      return;
    }
    sequence.counted = true;
    const { inputTokens, inputBlocks, promptBlocks } = sequence.request;
    counters.lookups++;
    counters.lookupBlocks += promptBlocks;
    counters.lookupTokens += inputTokens;
    counters.hitBlocks += hitBlocks;
    counters.hitTokens += hitTokens;
    const fullBlocks = inputBlocks * blockTokens === inputTokens ? inputBlocks : inputBlocks - 1;
    counters.fullLookupBlocks += fullBlocks;
    counters.fullHitBlocks += Math.min(hitBlocks, fullBlocks);
    counters.residentBlocks += residentBlocks;
    if (promptBlocks > 0) counters.blockRatioSum += hitBlocks / promptBlocks;
    counters.tokenRatioSum += hitTokens / inputTokens;
    const { missTokens } = counters;
    if (hitBlocks < promptBlocks) {
      const { count, last } = this.#missed;
      for (let reason = 0; reason < count.length; reason++) {
        if (count[reason] > 0) missTokens[reason] += count[reason] * blockTokens;
      }
      const beyond = promptBlocks * blockTokens - inputTokens;
      if (beyond > 0) missTokens[last] -= beyond;
    }
    if (this.#admission.missesLast) missTokens[Miss.matchLimit]++;
    const short = inputTokens - promptBlocks * blockTokens;
    if (short > 0) missTokens[Miss.shorterThanBlock] += short;
    if (partTokens > 0) missTokens[partReason] -= partTokens;
  }

  log(sequence: Sequence, log: EventLog, now: Nanos): void {
    const { request, table } = sequence;
    const { hitBlocks, hitTokens, adoptedEnd } = this.#admission;
    log.admit(now, request.id, hitTokens, hitBlocks);
    const blocks = this.#knownBlocks(sequence);
    for (let i = 0; i < blocks; i++) {
      const key = request.keys[request.keyStart + i];
      if (i < hitBlocks) log.hit(now, request.id, table[i], key, i);
      else if (i < adoptedEnd && table[i] >= 0) log.adopt(now, request.id, table[i], key, i);
      else log.miss(now, request.id, key, this.#reasons![i]);
    }
  }
}
