import type { EntryId, EvictionContext, EvictionPlugin } from "../../core/plugins/index.ts";
import { ByLists } from "./by-lists.ts";
import { GhostList } from "./ghost-list.ts";
import { columnsOfRecency, InsertionPlaces, RecencyPlaces } from "./places.ts";

const fresh = 0;
const recurring = 1;

/** The paper's Kin and Kout, as shares of the cache. */
const freshShare = 0.25;
const ghostShare = 0.5;

/**
 * 2Q: new entries are in a queue in the order of insertion (A1in), regardless of hits. The contents evicted from it are ghosts
 * (A1out); a ghost that is inserted again is inserted into a list in LRU order (Am). The queue is evicted from while it has more than
 * a quarter of the entries, otherwise the list (Johnson, Shasha: 2Q: A Low Overhead High Performance Buffer Management
 * Replacement Algorithm, VLDB 1994; the full version, with Kin = 25 % and Kout = 50 % of the cache).
 *
 * Differences: shares are of the entries that are stored, and of the most entries that were stored for ghosts. A ghost is found
 * when its content is published again, after the evictions for it. If the chosen list has no evictable entry, the other one is
 * evicted from.
 */
class TwoQueues extends ByLists {
  readonly #key: Uint32Array;
  readonly #insertions: InsertionPlaces;
  readonly #uses: RecencyPlaces;
  readonly #ghosts: GhostList;

  constructor(context: EvictionContext) {
    super(context, 2);
    this.#key = context.columns.key;
    this.#insertions = new InsertionPlaces(context);
    this.#uses = new RecencyPlaces(context);
    this.#ghosts = new GhostList(Math.ceil(ghostShare * this.#key.length));
  }

  published(entry: EntryId): void {
    const wasEvicted = this.#ghosts.take(this.#key[entry]) !== undefined;
    if (wasEvicted) this.lists.insert(entry, recurring, this.#uses.end());
    else this.lists.insert(entry, fresh, this.#insertions.inserted(entry));
  }

  override add(entry: EntryId): void {
    if (this.lists.listOf(entry) === fresh) this.lists.add(entry);
    else this.lists.addAt(entry, this.#uses.released(entry));
  }

  victim(): EntryId | undefined {
    const { lists } = this;
    return lists.size(fresh) > freshShare * lists.total
      ? (lists.first(fresh) ?? lists.first(recurring))
      : (lists.first(recurring) ?? lists.first(fresh));
  }

  protected override evicted(victim: EntryId): void {
    if (this.lists.listOf(victim) === fresh) this.#ghosts.add(this.#key[victim], ghostShare * this.lists.largest);
  }
}

export const twoQueues: EvictionPlugin = {
  name: "2q",
  about: "a queue for new entries, an LRU list for contents that are inserted again soon after their eviction",
  source: "2Q: Johnson and Shasha, VLDB 1994",
  onlyByName: true,
  columns: (rules) => ["createdAt", ...columnsOfRecency(rules)],
  create: (context) => new TwoQueues(context),
};
