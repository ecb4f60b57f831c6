import type { EntryId, EvictionContext, EvictionPlugin } from "../../core/plugins/index.ts";
import { ByUse } from "./by-use.ts";
import { GhostList } from "./ghost-list.ts";
import { columnsOfRecency } from "./places.ts";

/** Evicted contents whose counts are kept, as a multiple of the cache. */
const ghostShare = 8;

/**
 * Evicts the entry whose content was used most rarely, of equals the least recently used. The count of a content is kept after its
 * eviction (perfect LFU: Breslau, Cao, Fan, Phillips, Shenker: Web Caching and Zipf-like Distributions, INFOCOM 1999), whereas
 * the count of `lfu` begins again with each insertion. Both an insertion and a hit are uses.
 *
 * Difference: the counts of at most eight times as many contents as the cache has blocks are kept, those of the contents that
 * were evicted last. After a split both halves have the count.
 */
class LfuLifetime extends ByUse {
  readonly #key: Uint32Array;
  readonly #uses: Float64Array;
  readonly #ghosts: GhostList;

  constructor(context: EvictionContext) {
    super(context);
    this.#key = context.columns.key;
    this.#uses = new Float64Array(this.#key.length);
    this.#ghosts = new GhostList(ghostShare * this.#key.length);
  }

  override published(entry: EntryId): void {
    this.#uses[entry] = 1 + (this.#ghosts.take(this.#key[entry]) ?? 0);
  }

  override hit(entry: EntryId): void {
    this.#uses[entry]++;
  }

  override split(lower: EntryId, upper: EntryId): void {
    this.#uses[upper] = this.#uses[lower];
    super.split(lower, upper);
  }

  protected override score(entry: EntryId): number {
    return this.#uses[entry];
  }

  protected override evicted(entry: EntryId): void {
    this.#ghosts.add(this.#key[entry], ghostShare * this.#key.length, this.#uses[entry]);
  }
}

export const lfuLifetime: EvictionPlugin = {
  name: "lfu-lifetime",
  about:
    "evicts the entry with the fewest uses, those before its last eviction included; ties: the least recently used",
  source: "perfect LFU: Breslau et al., INFOCOM 1999",
  onlyByName: true,
  columns: columnsOfRecency,
  create: (context) => new LfuLifetime(context),
};
