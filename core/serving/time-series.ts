import type { Nanos } from "../trace/trace.ts";

/** Levels, as integrals over an interval (level × ns): means are exact as long as an integral is below 2^53. */
export const levelNames = [
  "waiting",
  "running",
  "freeBlocks",
  "privateBlocks",
  "idleBlocks",
  "heldBlocks",
  "busy",
] as const;
export type LevelName = (typeof levelNames)[number];
/** Events and tokens that are counted per interval. */
export const countNames = [
  "arrivals",
  "finished",
  "refused",
  "lookupTokens",
  "hitTokens",
  "computedTokens",
  "generatedTokens",
  "evictedBlocks",
  "preemptions",
  "steps",
] as const;
export type CountName = (typeof countNames)[number];

export type Levels = Record<LevelName, number>;

/** The content of a series as plain data. */
export interface SeriesData {
  readonly startNs: Nanos;
  readonly intervalNs: Nanos;
  readonly count: number;
  readonly sampledNs: Nanos;
  readonly levels: Readonly<Record<LevelName, Float64Array>>;
  readonly counts: Readonly<Record<CountName, Float64Array>>;
}

/**
 * Maximum number of intervals. When all are in use, adjacent intervals are merged in pairs, so the memory of a series is
 * bounded.
 */
const maxIntervals = 2048;
const firstIntervalNs = 1_000_000;

/**
 * Queue length, batch size, block occupancy and counts over time, in intervals of equal length. All replicas add to the same
 * series.
 */
export class TimeSeries {
  /** Start of the first interval: 0, or the arrival of the first measured request. */
  startNs: Nanos = 0;
  intervalNs: Nanos = firstIntervalNs;
  /** Intervals in use. */
  count = 0;
  /** From `startNs` to the last sample of the levels. */
  #sampledNs: Nanos = 0;
  /** The interval of the last event, and its limits from `startNs` on: most events are in the same one, which costs no division. */
  #interval = 0;
  #intervalFrom: Nanos = 0;
  #intervalTo: Nanos = 0;
  readonly levels: Readonly<Record<LevelName, Float64Array>> = columns(levelNames);
  readonly counts: Readonly<Record<CountName, Float64Array>> = columns(countNames);

  /** Starts the series at `nowNs` and discards everything before. */
  begin(nowNs: Nanos): void {
    this.startNs = nowNs;
    this.intervalNs = firstIntervalNs;
    this.count = this.#sampledNs = this.#intervalTo = 0;
    for (const column of [...Object.values(this.levels), ...Object.values(this.counts)]) column.fill(0);
  }

  /** An independent copy. */
  copy(): TimeSeries {
    const copy = new TimeSeries();
    const { startNs, intervalNs, count } = this;
    Object.assign(copy, { startNs, intervalNs, count });
    copy.#sampledNs = this.#sampledNs;
    for (const name of levelNames) copy.levels[name].set(this.levels[name]);
    for (const name of countNames) copy.counts[name].set(this.counts[name]);
    return copy;
  }

  /** Copies of the columns, and what they mean: plain data. */
  get data(): SeriesData {
    const { startNs, intervalNs, count, levels, counts } = this;
    return { startNs, intervalNs, count, sampledNs: this.#sampledNs, ...structuredClone({ levels, counts }) };
  }

  /**
   * The series of a run whose replicas were in several runs with the same arrivals. Its numbers are those of the whole run if all are
   * exact (`isExact`).
   */
  static merged(parts: readonly SeriesData[]): TimeSeries {
    const series = new TimeSeries();
    series.startNs = parts[0].startNs;
    series.intervalNs = Math.max(...parts.map(({ intervalNs }) => intervalNs));
    for (const [part, { intervalNs, count, sampledNs, levels, counts }] of parts.entries()) {
      const each = series.intervalNs / intervalNs;
      series.count = Math.max(series.count, Math.ceil(count / each));
      series.#sampledNs = Math.max(series.#sampledNs, sampledNs);
      for (let i = 0; i < count; i++) {
        const at = Math.floor(i / each);
        for (const name of levelNames) series.levels[name][at] += levels[name][i];
        // All runs count all arrivals.
        for (const name of countNames)
          if (part === 0 || name !== "arrivals") series.counts[name][at] += counts[name][i];
      }
    }
    return series;
  }

  /** Whether no level was rounded, so that the order in which levels were added did not matter. */
  get isExact(): boolean {
    return Object.values(this.levels).every((column) => column.every((level) => level <= Number.MAX_SAFE_INTEGER));
  }

  /** Length of an interval: the last interval ends at the last sample. */
  lengthNs(interval: number): Nanos {
    const sampledNs = this.#sampledNs - interval * this.intervalNs;
    return sampledNs > 0 ? Math.min(sampledNs, this.intervalNs) : this.intervalNs;
  }

  /** Adds the levels that a replica had in `[fromNs, toNs)`. */
  addLevels(levels: Readonly<Levels>, fromNs: Nanos, toNs: Nanos): void {
    const { startNs } = this;
    const to = toNs - startNs;
    let at = Math.max(0, fromNs - startNs);
    if (to <= at) return;
    if (to > this.#sampledNs) this.#sampledNs = to;
    // Before the first interval is found: intervals may be merged.
    if (to > this.#intervalTo) this.#reach(to);
    while (at < to) {
      const i = this.#intervalAt(at);
      const end = Math.min(to, this.#intervalTo);
      const length = end - at;
      const { waiting, running, freeBlocks, privateBlocks, idleBlocks, heldBlocks, busy } = this.levels;
      waiting[i] += levels.waiting * length;
      running[i] += levels.running * length;
      freeBlocks[i] += levels.freeBlocks * length;
      privateBlocks[i] += levels.privateBlocks * length;
      idleBlocks[i] += levels.idleBlocks * length;
      heldBlocks[i] += levels.heldBlocks * length;
      busy[i] += levels.busy * length;
      at = end;
    }
  }

  /** Adds `count` to one of `counts` at time `nowNs`. */
  add(counts: Float64Array, nowNs: Nanos, count: number): void {
    if (count !== 0) counts[this.#intervalAt(nowNs - this.startNs)] += count;
  }

  /** Adds `count` steps that each computed and generated so many tokens; step i ended at `endsNs[i]`. */
  addSteps(endsNs: Float64Array, count: number, computedTokens: number, generatedTokens: number): void {
    const { startNs, counts } = this;
    // Before the first interval is found: intervals may be merged.
    const lastAt = endsNs[count - 1] - startNs;
    if (lastAt >= this.#intervalTo) this.#reach(lastAt + 1);
    for (let step = 0; step < count; ) {
      const i = this.#intervalAt(endsNs[step] - startNs);
      const intervalEndNs = startNs + this.#intervalTo;
      const first = step;
      // Most repetitions of a step are in one interval.
      if (endsNs[count - 1] < intervalEndNs) step = count;
      else
        do step++;
        while (endsNs[step] < intervalEndNs);
      counts.steps[i] += step - first;
      counts.computedTokens[i] += (step - first) * computedTokens;
      counts.generatedTokens[i] += (step - first) * generatedTokens;
    }
  }

  /** The interval that contains this time, from `startNs` on. */
  #intervalAt(at: Nanos): number {
    if (at >= this.#intervalFrom && at < this.#intervalTo) return this.#interval;
    this.#reach(at + 1);
    const { intervalNs } = this;
    this.#interval = Math.floor(at / intervalNs);
    this.#intervalFrom = this.#interval * intervalNs;
    this.#intervalTo = this.#intervalFrom + intervalNs;
    return this.#interval;
  }

  /** Extends the series to `lengthNs` after its start. */
  #reach(lengthNs: Nanos): void {
    while (lengthNs > this.intervalNs * maxIntervals) this.#merge();
    const count = Math.ceil(lengthNs / this.intervalNs);
    if (count > this.count) this.count = count;
  }

  /** Doubles the interval length: each two intervals are merged. */
  #merge(): void {
    this.intervalNs *= 2;
    this.#intervalTo = 0;
    for (const column of [...Object.values(this.levels), ...Object.values(this.counts)]) {
      for (let i = 0; i < maxIntervals / 2; i++) column[i] = column[2 * i] + column[2 * i + 1];
      column.fill(0, maxIntervals / 2);
    }
    this.count = Math.ceil(this.count / 2);
  }
}

function columns<Name extends string>(names: readonly Name[]): Record<Name, Float64Array> {
  const all = names.map((name) => [name, new Float64Array(maxIntervals)]);
  return Object.fromEntries(all);
}
