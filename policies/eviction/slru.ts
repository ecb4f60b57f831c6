import type { EntryId, EvictionContext, EvictionPlugin } from "../../core/plugins/index.ts";
import { ByLists } from "./by-lists.ts";
import { columnsOfRecency, RecencyPlaces } from "./places.ts";

const probation = 0;
const kept = 1;

/**
 * Segmented LRU: evicts entries with fewer than `threshold` hits before the others, each segment in LRU order (SGLang's
 * `slru` strategy). Unlike in Karedla et al. (1994), segments have no size limit and no entry is demoted.
 */
class Slru extends ByLists {
  readonly #threshold: number;
  readonly #hits: Uint32Array;
  readonly #uses: RecencyPlaces;

  constructor(context: EvictionContext, threshold: number) {
    super(context, 2);
    this.#threshold = threshold;
    this.#hits = context.columns.accessCount;
    this.#uses = new RecencyPlaces(context);
  }

  published(entry: EntryId): void {
    this.lists.insert(entry, probation, 0);
  }

  override add(entry: EntryId): void {
    const place = this.#uses.released(entry);
    if (this.#hits[entry] >= this.#threshold) this.lists.move(entry, kept, place);
    this.lists.addAt(entry, place);
  }

  victim(): EntryId | undefined {
    return this.lists.first(probation) ?? this.lists.first(kept);
  }

  protected override evicted(): void {}
}

/** `slru` with another threshold of hits. */
export const slruWith = (threshold: number): EvictionPlugin => ({
  name: "slru",
  about: `evicts entries with fewer than ${threshold} hits first, each segment least recently used first`,
  source: "SGLang (slru)",
  columns: (rules) => ["accessCount", ...columnsOfRecency(rules)],
  create: (context) => new Slru(context, threshold),
});

export const slru: EvictionPlugin = slruWith(2);
