import { EventKind } from "../../core/log/events.ts";
import type { PrefixData, PrefixRow } from "../api.ts";
import type { EventHistory } from "./event-history.ts";

const { admit, hit, adopt, evict, copy, publish, drop } = EventKind;

/** Rows of each kind, at most. */
export const mostPrefixes = 200;

/** What became of each content that was ever cached, by its number; times in ns, or events where there is no clock. */
class ContentBooks {
  readonly hits: Int32Array;
  readonly savedTokens: Float64Array;
  /** Blocks × time in the cache, and the part of it after the last time that somebody found it. */
  readonly time: Float64Array;
  readonly wasted: Float64Array;
  readonly timesCached: Int32Array;
  readonly timesEvicted: Int32Array;
  readonly tokens: Float64Array;
  /** Its first publication. */
  readonly first: Int32Array;

  constructor({ publications: { contents }, blockTokens }: EventHistory) {
    this.hits = new Int32Array(contents);
    this.savedTokens = new Float64Array(contents);
    this.time = new Float64Array(contents);
    this.wasted = new Float64Array(contents);
    this.timesCached = new Int32Array(contents);
    this.timesEvicted = new Int32Array(contents);
    this.tokens = new Float64Array(contents).fill(blockTokens);
    this.first = new Int32Array(contents).fill(-1);
  }
}

/** One walk over the log. */
function booksOf(history: EventHistory): ContentBooks {
  const { log, publications, blockTokens, blocks, hasClock, events } = history;
  const { kind, timeNs, block, key, value } = log.columns();
  const { content } = publications;
  const books = new ContentBooks(history);
  const { hits, savedTokens, time, wasted, timesCached, timesEvicted, tokens, first } = books;
  // By block: what is in it, also for a while after it is gone; −1 or since when it is cached; and when it was found.
  const inBlock = new Int32Array(blocks).fill(-1);
  const cachedAt = new Float64Array(blocks).fill(-1);
  const foundAt = new Float64Array(blocks);
  let published = 0;
  let left = 0;
  const gone = (one: number, now: number) => {
    time[inBlock[one]] += now - cachedAt[one];
    wasted[inBlock[one]] += now - foundAt[one];
    cachedAt[one] = -1;
  };
  const save = (one: number, most: number) => {
    const saved = Math.min(most, left);
    if (inBlock[one] >= 0) savedTokens[inBlock[one]] += saved;
    left -= saved;
  };
  for (let at = 0; at < events; at++) {
    const now = hasClock ? timeNs[at] : at;
    const one = block[at];
    switch (kind[at]) {
      case admit:
        left = key[at];
        break;
      case hit:
        hits[inBlock[one]]++;
        foundAt[one] = now;
        save(one, blockTokens);
        break;
      case adopt:
        // A part of a block that the request goes on with; others are computed again.
        if (key[at] < 0) save(one, blockTokens);
        break;
      case copy:
        save(key[at], blockTokens);
        break;
      case publish: {
        const publication = published++;
        const here = content[publication];
        if (first[here] < 0) first[here] = publication;
        timesCached[here]++;
        inBlock[one] = here;
        cachedAt[one] = foundAt[one] = now;
        break;
      }
      case evict:
      case drop: {
        const end = value[at] % blockTokens;
        if (end > 0) tokens[inBlock[one]] = end;
        if (kind[at] === evict) timesEvicted[inBlock[one]]++;
        gone(one, now);
        break;
      }
    }
  }
  const end = hasClock ? timeNs[events - 1] : events;
  for (let one = 0; one < blocks; one++) if (cachedAt[one] >= 0) gone(one, end);
  return books;
}

/** Contents that follow on each other and on which nothing else ever did, each with the next one; −1: the last of its run. */
function nextInRun({ publications }: EventHistory): { next: Int32Array; isFirst: Uint8Array } {
  const { count, contents, parent, content } = publications;
  const none = -1;
  const before = new Int32Array(contents).fill(none);
  for (let publication = 0; publication < count; publication++)
    if (parent[publication] >= 0) before[content[publication]] = content[parent[publication]];
  const children = new Int32Array(contents);
  const next = new Int32Array(contents).fill(none);
  for (let one = 0; one < contents; one++)
    if (before[one] >= 0) {
      children[before[one]]++;
      next[before[one]] = one;
    }
  const isFirst = new Uint8Array(contents).fill(1);
  for (let one = 0; one < contents; one++) {
    if (children[one] === 1) isFirst[next[one]] = 0;
    else next[one] = none;
  }
  return { next, isFirst };
}

/** The prefixes of a log that were worth most, and those that were worth least. */
export function prefixesOf(history: EventHistory): PrefixData {
  const { log, publications, blockTokens, hasClock } = history;
  const { request, value } = log.columns();
  const { tokens, savedTokens, time, wasted, hits, first, timesCached, timesEvicted } = booksOf(history);
  const { next, isFirst } = nextInRun(history);
  const starts = Array.from(isFirst.keys()).filter((one) => isFirst[one] === 1);
  const unit = hasClock ? 1e9 : 1;
  const over = (start: number, of: (content: number) => number, join = (a: number, b: number) => a + b) => {
    let result = of(start);
    for (let one = next[start]; one >= 0; one = next[one]) result = join(result, of(one));
    return result;
  };
  const each = (of: (content: number) => number) => Float64Array.from(starts, (start) => over(start, of));
  const saved = each((one) => savedTokens[one]);
  const all = each((one) => (tokens[one] * time[one]) / unit);
  const lost = each((one) => (tokens[one] * wasted[one]) / unit);
  const rowOf = (run: number): PrefixRow => {
    const start = starts[run];
    const event = publications.event[first[start]];
    return {
      request: request[event],
      fromToken: value[event] * blockTokens,
      tokens: over(start, (one) => tokens[one]),
      hits: hits[start],
      savedTokens: saved[run],
      tokenSeconds: all[run],
      wastedTokenSeconds: lost[run],
      timesCached: over(start, (one) => timesCached[one], Math.max),
      timesEvicted: over(start, (one) => timesEvicted[one], Math.max),
      event,
    };
  };
  const largest = (values: Float64Array) =>
    Array.from(values.keys())
      .filter((run) => values[run] > 0)
      .sort((a, b) => values[b] - values[a] || a - b)
      .slice(0, mostPrefixes)
      .map(rowOf);
  const total = (values: Float64Array) => values.reduce((sum, one) => sum + one, 0);
  return {
    valuable: largest(saved),
    wasted: largest(lost),
    tokenSeconds: total(all),
    wastedTokenSeconds: total(lost),
  };
}
