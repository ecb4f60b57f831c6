import { grown } from "../../core/grown.ts";
import type { EntryId, EvictionContext, EvictionPlugin, RequestView } from "../../core/plugins/index.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { ByLists } from "./by-lists.ts";
import { LastUse } from "./last-use.ts";
import { RecencyPlaces } from "./places.ts";

/** Turns of a session from this one on are one workload. */
const lastTurn = 4;
const mostWorkloads = 64;

/**
 * Evicts the entry with the lowest probability of reuse within the time that entries stay in the cache, of equals the one with the
 * largest offset in its prompt. Each workload, a category of requests and a turn of the session, has its own distribution of the time
 * between two uses: exponential, fitted to the uses so far (Wang et al.: KVCache Cache in the Wild, USENIX ATC 2025,
 * arXiv 2506.02634).
 *
 * An entry is in the list of the workload of its last request. Within a list the least recently used entry has the lowest
 * probability, so that only the first entries of the lists are compared. Differences: all uses since the start are counted, without
 * samples and decay. Uses of evicted contents count as well. A workload without a reuse so far has probability 0. The time that
 * entries stay is the mean time from last use to eviction. There are at most 64 workloads; further ones share the last list.
 * Without categories and sessions there is one list, and this is LRU.
 */
class WorkloadAware extends ByLists {
  readonly #clock: EvictionContext["clock"];
  readonly #depth: Uint32Array;
  readonly #places: RecencyPlaces;
  readonly #lastUse: LastUse;
  // By entry: workload of its last request, and time of its last use.
  readonly #workload: Uint8Array;
  readonly #usedNs: Float64Array;
  // By workload: uses of contents, how many of them were followed by another, and the sum of the times between.
  readonly #useCount = new Float64Array(mostWorkloads);
  readonly #reuseCount = new Float64Array(mostWorkloads);
  readonly #reuseNs = new Float64Array(mostWorkloads);
  // By content id: workload of its last request, plus 1 (0: none), and its arrival or admission time.
  #contentWorkload = new Uint8Array(1 << 10);
  #contentNs = new Float64Array(1 << 10);
  /** By request: its workload, plus 1; 0: none yet. */
  #workloadOf = new Uint8Array(1 << 10);
  readonly #workloads = new Map<number, number>();
  /** By namespace and session: requests so far. Equal session ids of two namespaces are different sessions. */
  readonly #turns = new Map<number, Map<number, number>>();
  /** Evicted entries, and the sum of their times from last use to eviction. */
  #evictions = 0;
  #idleNs = 0;

  constructor(context: EvictionContext) {
    super(context, mostWorkloads);
    const { key, depth, lastAccess } = context.columns;
    this.#clock = context.clock;
    this.#depth = depth;
    this.#places = new RecencyPlaces(context);
    this.#lastUse = new LastUse(lastAccess);
    this.#workload = new Uint8Array(key.length);
    this.#usedNs = new Float64Array(key.length);
  }

  begin(request: RequestView, now: Nanos): void {
    this.#lastUse.begin(request, now);
    const { id, keys, keyStart, promptBlocks } = request;
    if (id >= this.#workloadOf.length) this.#workloadOf = grown(this.#workloadOf, 2 * id);
    if (this.#workloadOf[id] > 0) return;
    const workload = this.#workloadFor(request);
    this.#workloadOf[id] = workload + 1;
    for (let at = keyStart; at < keyStart + promptBlocks; at++) this.#count(keys[at], workload);
  }

  published(entry: EntryId, { id }: RequestView): void {
    this.#lastUse.used(entry);
    this.#workload[entry] = this.#workloadOf[id] - 1;
    this.lists.insert(entry, this.#workload[entry], 0);
  }

  hit(entry: EntryId, { id }: RequestView): void {
    this.#lastUse.used(entry);
    this.#workload[entry] = this.#workloadOf[id] - 1;
  }

  override add(entry: EntryId): void {
    const place = this.#places.released(entry);
    this.#usedNs[entry] = this.#lastUse.becameEvictable(entry);
    if (this.lists.listOf(entry) !== this.#workload[entry]) this.lists.move(entry, this.#workload[entry], place);
    this.lists.addAt(entry, place);
  }

  override split(lower: EntryId, upper: EntryId): void {
    this.#lastUse.split(lower, upper);
    this.#workload[upper] = this.#workload[lower];
    this.#usedNs[upper] = this.#usedNs[lower];
    super.split(lower, upper);
  }

  victim(): EntryId | undefined {
    const time = Math.max(this.#clock.now, this.#lastUse.now);
    let victim: EntryId | undefined;
    let least = 0;
    for (let workload = 0; workload < Math.min(mostWorkloads, this.#workloads.size); workload++) {
      const entry = this.lists.first(workload);
      if (entry === undefined) continue;
      const probability = this.#reuseProbability(workload, time - this.#usedNs[entry]);
      const isLess = probability < least || (probability === least && this.#depth[entry] > this.#depth[victim!]);
      if (victim !== undefined && !isLess) continue;
      victim = entry;
      least = probability;
    }
    return victim;
  }

  protected override evicted(entry: EntryId): void {
    this.#evictions++;
    this.#idleNs += this.#lastUse.now - this.#usedNs[entry];
  }

  /** The probability that a content is used again between `idleNs` and `idleNs` plus the mean stay after its last use. */
  #reuseProbability(workload: number, idleNs: Nanos): number {
    const reuses = this.#reuseCount[workload];
    if (reuses === 0) return 0;
    const meanNs = Math.max(1, this.#reuseNs[workload] / reuses);
    const stayNs = this.#evictions === 0 ? Number.POSITIVE_INFINITY : Math.max(1, this.#idleNs / this.#evictions);
    return (reuses / this.#useCount[workload]) * (Math.exp(-idleNs / meanNs) - Math.exp(-(idleNs + stayNs) / meanNs));
  }

  #workloadFor({ namespace, session, category }: RequestView): number {
    const turn = session === 0 ? 0 : this.#turnOf(namespace, session);
    const name = category * (lastTurn + 1) + turn;
    const known = this.#workloads.get(name) ?? this.#workloads.size;
    this.#workloads.set(name, known);
    return Math.min(known, mostWorkloads - 1);
  }

  #turnOf(namespace: number, session: number): number {
    let turns = this.#turns.get(namespace);
    if (turns === undefined) this.#turns.set(namespace, (turns = new Map()));
    const turn = Math.min(lastTurn, (turns.get(session) ?? 0) + 1);
    turns.set(session, turn);
    return turn;
  }

  /** Counts a use of the content, and the reuse that ends the time since its last use. */
  #count(key: number, workload: number): void {
    if (key >= this.#contentNs.length) {
      this.#contentNs = grown(this.#contentNs, 2 * key);
      this.#contentWorkload = grown(this.#contentWorkload, 2 * key);
    }
    const { now } = this.#lastUse;
    const last = this.#contentWorkload[key] - 1;
    if (last >= 0) {
      this.#reuseCount[last]++;
      this.#reuseNs[last] += now - this.#contentNs[key];
    }
    this.#useCount[workload]++;
    this.#contentWorkload[key] = workload + 1;
    this.#contentNs[key] = now;
  }
}

export const workloadAware: EvictionPlugin = {
  name: "workload-aware",
  about: "evicts the entry with the lowest probability of reuse, by the reuse times of its category and turn",
  source: "KVCache in the wild: Wang et al., USENIX ATC 2025",
  onlyByName: true,
  columns: ["depth", "lastAccess"],
  create: (context) => new WorkloadAware(context),
};
