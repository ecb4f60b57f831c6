import FlatQueue from "flatqueue";
import { grown } from "../../core/grown.ts";
import type {
  EntryId,
  EvictionContext,
  EvictionPolicy,
  RequestView,
  SessionView,
  Signal,
} from "../../core/plugins/index.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { ContentScores, noScore } from "./content-scores.ts";
import { EntryHeap } from "./entry-heap.ts";
import { RecencyPlaces } from "./places.ts";
import { ScoreHeap } from "./score-heap.ts";

const none = -1;

/** Contents that have the same score: those that a session uses, or those that a client keeps. */
interface Group {
  readonly contents: Set<number>;
  score: number;
  /** Number of changes of the score, so that the end of an earlier one has no effect. */
  version: number;
}

/** The end of a group's score. */
interface ScoreEnd {
  readonly group: Group;
  readonly version: number;
}

/**
 * Base of policies that give scores to sessions. An entry has the largest score of the sessions whose prompts contain the content
 * at its end, also after it was evicted and stored again. The entry with the smallest score is evicted; entries without a score
 * come first; of equals the least recently used.
 *
 * Hints of clients: a kept prefix has a score above all others until its time. Entries whose content no other session uses expire
 * as soon as their session is dropped. A change of a session's score costs O(log n) for each evictable entry of the session.
 */
export abstract class BySession implements EvictionPolicy {
  protected readonly context: EvictionContext;
  readonly #scores = new ContentScores();
  /** By number of the session. */
  readonly #groups = new Map<SessionView["number"], Group>();
  readonly #ends = new FlatQueue<ScoreEnd>();
  /** By content: number of sessions that use it. */
  #users = new Uint32Array(1 << 10);
  /** Contents that no session uses since a session that used them was dropped. */
  readonly #droppedContents = new Set<number>();
  /** By content: one of the evictable entries that end with it. */
  #firstOf = new Int32Array(1 << 10).fill(none);
  // By evictable entry: content, recency, neighbours in the list of its content.
  readonly #content: Uint32Array;
  readonly #recency: Float64Array;
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  readonly #evictable: ScoreHeap;
  readonly #uses: RecencyPlaces;
  /** Evictable entries that expire. */
  readonly #dropped: EntryHeap;

  constructor(context: EvictionContext) {
    this.context = context;
    const entries = context.columns.key.length;
    this.#content = new Uint32Array(entries);
    this.#next = new Int32Array(entries);
    this.#previous = new Int32Array(entries);
    const recency = new Float64Array(entries);
    this.#recency = recency;
    this.#uses = new RecencyPlaces(context);
    this.#evictable = new ScoreHeap(entries);
    this.#dropped = new EntryHeap(entries, (a, b) => recency[a] < recency[b]);
  }

  /** The session's score when it begins. */
  protected get initialScore(): number {
    return noScore;
  }

  /** Number of the request's leading blocks that get the score of its session. */
  protected scoredBlocks({ promptBlocks }: RequestView): number {
    return promptBlocks;
  }

  /** The state of a session has changed; it is neither closed nor dropped. */
  protected abstract changed(signal: Signal, session: SessionView, now: Nanos): void;

  /** Sets the score of what the session uses, until a time. */
  protected setScore(session: SessionView, score: number, untilNs = Number.POSITIVE_INFINITY): void {
    this.#setScore(this.#groupOf(session), score, untilNs);
  }

  /** What the session uses has no score. */
  protected clearScore(session: SessionView): void {
    this.#setScore(this.#groupOf(session), noScore, Number.POSITIVE_INFINITY);
  }

  protected hasScore(session: SessionView): boolean {
    return this.#groupOf(session).score !== noScore;
  }

  begin(request: RequestView, _now: Nanos): void {
    const { keys, keyStart, promptBlocks } = request;
    if (this.#droppedContents.size > 0)
      for (let at = keyStart; at < keyStart + promptBlocks; at++) this.#undrop(keys[at]);
    const session = this.context.sessions.of(request);
    if (session === undefined) return;
    const group = this.#groupOf(session);
    const end = keyStart + this.scoredBlocks(request);
    for (let at = keyStart; at < end; at++) this.#use(group, keys[at]);
  }

  /** Output tokens belong to the session as well. */
  published(entry: EntryId, request: RequestView): void {
    if (request.session === 0 || this.scoredBlocks(request) < request.promptBlocks) return;
    const session = this.context.sessions.of(request);
    if (session !== undefined) this.#use(this.#groupOf(session), this.context.columns.key[entry]);
  }

  signal(signal: Signal, now: Nanos): void {
    const { name, session } = signal;
    this.#endScores(now);
    if (name === "keep") this.#keep(signal);
    else if (name === "close" || name === "drop") this.#forget(session!, name === "drop");
    else this.changed(signal, session!, now);
  }

  add(entry: EntryId): void {
    const content = this.context.columns.key[entry];
    this.#expectContent(content);
    this.#content[entry] = content;
    this.#recency[entry] = this.#uses.released(entry);
    const first = this.#firstOf[content];
    this.#next[entry] = first;
    this.#previous[entry] = none;
    if (first !== none) this.#previous[first] = entry;
    this.#firstOf[content] = entry;
    this.#addToHeap(entry, content);
  }

  remove(entry: EntryId): void {
    if (this.#dropped.has(entry)) this.#dropped.remove(entry);
    else this.#evictable.remove(entry);
    const next = this.#next[entry];
    const previous = this.#previous[entry];
    if (next !== none) this.#previous[next] = previous;
    if (previous === none) this.#firstOf[this.#content[entry]] = next;
    else this.#next[previous] = next;
  }

  victim(): EntryId | undefined {
    this.#endScores(this.context.clock.now);
    return this.#dropped.first ?? this.#evictable.first();
  }

  nextToExpire(): EntryId | undefined {
    return this.#dropped.first;
  }

  /** A dropped entry has expired when it is dropped. */
  expiresAt(entry: EntryId): Nanos {
    return this.#dropped.has(entry) ? 0 : Number.POSITIVE_INFINITY;
  }

  #groupOf({ number }: SessionView): Group {
    let group = this.#groups.get(number);
    if (group === undefined) {
      group = { contents: new Set(), score: this.initialScore, version: 0 };
      this.#groups.set(number, group);
    }
    return group;
  }

  #use(group: Group, content: number): void {
    if (group.contents.has(content)) return;
    this.#expectContent(content);
    this.#users[content]++;
    this.#undrop(content);
    this.#addContent(group, content);
  }

  #addContent(group: Group, content: number): void {
    group.contents.add(content);
    if (group.score === noScore) return;
    this.#scores.add(content, group.score);
    this.#update(content);
  }

  #setScore(group: Group, score: number, untilNs: Nanos): void {
    const before = group.score;
    group.score = score;
    group.version++;
    if (untilNs !== Number.POSITIVE_INFINITY) this.#ends.push({ group, version: group.version }, untilNs);
    if (score === before) return;
    for (const content of group.contents) {
      if (score !== noScore) this.#scores.add(content, score);
      if (before !== noScore) this.#scores.remove(content, before);
      this.#update(content);
    }
  }

  /** Ends the scores whose time has come. */
  #endScores(now: Nanos): void {
    const ends = this.#ends;
    while (ends.length > 0 && ends.peekValue()! <= now) {
      const { group, version } = ends.pop()!;
      if (group.version === version) this.#setScore(group, noScore, Number.POSITIVE_INFINITY);
    }
  }

  #keep({ keys, keyStart, blocks, keepUntilNs }: Signal): void {
    const group: Group = { contents: new Set(), score: Number.POSITIVE_INFINITY, version: 0 };
    for (let at = keyStart; at < keyStart + blocks; at++) {
      this.#expectContent(keys[at]);
      this.#undrop(keys[at]);
      this.#addContent(group, keys[at]);
    }
    this.#ends.push({ group, version: 0 }, keepUntilNs);
  }

  #forget(session: SessionView, drops: boolean): void {
    const group = this.#groups.get(session.number);
    if (group === undefined) return;
    this.#groups.delete(session.number);
    this.#setScore(group, noScore, Number.POSITIVE_INFINITY);
    for (const content of group.contents) {
      if (--this.#users[content] > 0 || !drops || this.#scores.of(content) !== noScore) continue;
      this.#droppedContents.add(content);
      this.#update(content);
    }
  }

  #undrop(content: number): void {
    if (this.#droppedContents.delete(content)) this.#update(content);
  }

  /** The score of the content has changed. */
  #update(content: number): void {
    for (let entry = this.#firstOf[content]; entry !== none; entry = this.#next[entry]) {
      if (this.#dropped.has(entry)) this.#dropped.remove(entry);
      this.#addToHeap(entry, content);
    }
  }

  #addToHeap(entry: EntryId, content: number): void {
    if (this.#droppedContents.size > 0 && this.#droppedContents.has(content)) {
      this.#evictable.remove(entry);
      this.#dropped.add(entry);
    } else {
      this.#evictable.add(entry, this.#scores.of(content), this.#recency[entry]);
    }
  }

  #expectContent(content: number): void {
    const before = this.#users.length;
    if (content < before) return;
    this.#users = grown(this.#users, 2 * content);
    this.#firstOf = grown(this.#firstOf, 2 * content).fill(none, before);
  }
}
