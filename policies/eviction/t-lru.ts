import type { EntryId, EvictionContext, EvictionPlugin, RequestView } from "../../core/plugins/index.ts";
import { ByLists } from "./by-lists.ts";
import { columnsOfRecency, RecencyPlaces } from "./places.ts";
import { SequenceLengths } from "./sequence-lengths.ts";

/** Lists, each in LRU order: entries that are not needed for the latency threshold, and the others. */
const spare = 0;
const needed = 1;

/**
 * Tail-optimised LRU: of a conversation of L tokens whose next prompt adds Q tokens, only the first L + Q − ξ tokens must be cached so that
 * at most ξ tokens are computed for the next turn. Entries behind them are evicted first, then the others; both in LRU order
 * (Zhang, Li, Moallemi, Peng: Tail-Optimized Caching for LLM Inference, NeurIPS 2025, arXiv 2510.15152). ξ is the number of tokens
 * that can be computed within the limit of the TTFT.
 *
 * Differences: conversations may share a prefix; L is the longest sequence that used the entry since its insertion. An entry of several
 * blocks is needed if its beginning is.
 */
class TailLru extends ByLists {
  readonly #depth: Uint32Array;
  readonly #tokens: Uint32Array;
  readonly #uses: RecencyPlaces;
  readonly #lengths: SequenceLengths;
  /** ξ − Q. */
  readonly #recomputable: number;

  constructor(context: EvictionContext) {
    super(context, 2);
    const { columns, options } = context;
    this.#depth = columns.depth;
    this.#tokens = columns.tokens;
    this.#uses = new RecencyPlaces(context);
    this.#lengths = new SequenceLengths(columns);
    this.#recomputable = options["threshold-tokens"] - options["next-tokens"];
  }

  begin(request: RequestView): void {
    this.#lengths.begin(request);
  }

  published(entry: EntryId, request: RequestView): void {
    this.#lengths.published(entry, request);
    this.lists.insert(entry, needed, 0);
  }

  hit(entry: EntryId, request: RequestView): void {
    this.#lengths.hit(entry, request);
  }

  override add(entry: EntryId): void {
    const place = this.#uses.released(entry);
    this.#moveToList(entry, place);
    this.lists.addAt(entry, place);
  }

  override split(lower: EntryId, upper: EntryId): void {
    this.#lengths.split(lower, upper);
    super.split(lower, upper);
    if (this.lists.isEvictable(lower)) this.#moveToList(lower, this.lists.place[lower]);
  }

  victim(): EntryId | undefined {
    return this.lists.first(spare) ?? this.lists.first(needed);
  }

  protected override evicted(): void {}

  #moveToList(entry: EntryId, place: number): void {
    const start = this.#depth[entry] - this.#tokens[entry];
    const list = start >= this.#lengths.of(entry) - this.#recomputable ? spare : needed;
    if (this.lists.listOf(entry) !== list) this.lists.move(entry, list, place);
  }
}

export const tLru: EvictionPlugin = {
  name: "t-lru",
  about:
    "evicts first what each conversation can recompute within a limit of tokens, then the others, least recently used first",
  source: "tail-optimised LRU: Zhang et al., NeurIPS 2025",
  onlyByName: true,
  columns: (rules) => ["depth", "tokens", ...columnsOfRecency(rules)],
  options: {
    "threshold-tokens": { about: "tokens that may be computed for a turn (ξ)", default: 4096 },
    "next-tokens": { about: "tokens that the next turn is expected to add (Q)", default: 200 },
  },
  create: (context) => new TailLru(context),
};
