import { ignore } from "../../core/log/events.ts";
import type { PrefixData, PrefixRow } from "../api.ts";
import type { EventHistory } from "./event-history.ts";

/** Limit of the rows of each table. */
export const mostPrefixes = 200;

/** Totals of each content, by its number in `Publications`; times in ns, or events where there is no clock. */
class ContentTotals {
  readonly hits: Int32Array;
  readonly savedTokens: Float64Array;
  /** Block-time in the cache, and the part of it after the last hit of the block. */
  readonly time: Float64Array;
  readonly wasted: Float64Array;
  readonly timesCached: Int32Array;
  readonly timesEvicted: Int32Array;
  /** Tokens in one block of the content. */
  readonly tokens: Float64Array;
  /** The first publication. */
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

/** The totals, from one pass over the log. */
function totalsOf(history: EventHistory): ContentTotals {
  const { log, publications, blockTokens, blocks, hasClock, events } = history;
  const { content } = publications;
  const totals = new ContentTotals(history);
  const { hits, savedTokens, time, wasted, timesCached, timesEvicted, tokens, first } = totals;
  // By block: its last content; when it was cached, −1 if it is not; when it was last hit.
  const contentIn = new Int32Array(blocks).fill(-1);
  const cachedAt = new Float64Array(blocks).fill(-1);
  const hitAt = new Float64Array(blocks);
  let published = 0;
  /** Hit tokens of the request being admitted that are not assigned to a content yet. */
  let unassigned = 0;
  const addTime = (block: number, now: number) => {
    time[contentIn[block]] += now - cachedAt[block];
    wasted[contentIn[block]] += now - hitAt[block];
    cachedAt[block] = -1;
  };
  const assign = (block: number) => {
    const saved = Math.min(blockTokens, unassigned);
    if (contentIn[block] >= 0) savedTokens[contentIn[block]] += saved;
    unassigned -= saved;
  };
  for (const event of log.events()) {
    const { block } = event;
    const now = hasClock ? event.timeNs : event.at;
    switch (event.name) {
      case "admit":
        unassigned = event.hitTokens;
        break;
      case "hit":
        hits[contentIn[block]]++;
        hitAt[block] = now;
        assign(block);
        break;
      case "adopt":
        // Without content, the request uses the tokens of the block that match; other adopted blocks are recomputed.
        if (event.content < 0) assign(block);
        break;
      case "copy":
        assign(event.sourceBlock);
        break;
      case "publish": {
        const publication = published++;
        const here = content[publication];
        if (first[here] < 0) first[here] = publication;
        timesCached[here]++;
        contentIn[block] = here;
        cachedAt[block] = hitAt[block] = now;
        break;
      }
      case "evict":
      case "drop": {
        const end = event.endToken % blockTokens;
        if (end > 0) tokens[contentIn[block]] = end;
        if (event.name === "evict") timesEvicted[contentIn[block]]++;
        addTime(block, now);
        break;
      }
      default:
        ignore<
          | ("miss" | "allocate" | "step" | "duplicate" | "release" | "finish" | "refuse" | "preempt")
          | ("clear" | "pin" | "unpin" | "swapOut" | "swapIn" | "send" | "receive" | "trim" | "signal")
        >(event);
    }
  }
  const end = hasClock ? log.columns().timeNs[events - 1] : events;
  for (let block = 0; block < blocks; block++) if (cachedAt[block] >= 0) addTime(block, end);
  return totals;
}

/**
 * By content, the next content of its run; −1 at the end of a run. A run is a chain of contents in which each is the only one
 * that was ever published after the one before.
 */
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

/** The prefixes of a log that saved the most tokens, and those with the most token-seconds after their last hit. */
export function prefixesOf(history: EventHistory): PrefixData {
  const { publications, blockTokens, hasClock } = history;
  const { tokens, savedTokens, time, wasted, hits, first, timesCached, timesEvicted } = totalsOf(history);
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
      request: publications.request(first[start]),
      fromToken: publications.place(first[start]) * blockTokens,
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
