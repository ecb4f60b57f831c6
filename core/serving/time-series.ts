import type { Nanos } from "../trace/trace.ts";

/** What is summed over an interval: time × level (ns), so that a mean is exact, as long as a sum stays below 2^53. */
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
/** What is counted in an interval. */
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

/** Intervals at most; when they are full, two become one, so that a series never takes more memory than this. */
const mostIntervals = 2048;
const firstIntervalNs = 1_000_000;

/**
 * Queue, batch, occupancy and counts over time, in intervals of equal length. Levels are integrals over the interval; all
 * replicas add to the same series.
 */
export class TimeSeries {
  /** Where the first interval begins: the first arrival, or the end of the warm-up. */
  startNs: Nanos = 0;
  intervalNs: Nanos = firstIntervalNs;
  /** Intervals in use. */
  count = 0;
  /** From `startNs` to where levels are known. */
  #heldNs: Nanos = 0;
  readonly levels: Readonly<Record<LevelName, Float64Array>> = columns(levelNames);
  readonly counts: Readonly<Record<CountName, Float64Array>> = columns(countNames);

  /** It begins now, and what was before is in no interval. */
  begin(nowNs: Nanos): void {
    this.startNs = nowNs;
    this.intervalNs = firstIntervalNs;
    this.count = this.#heldNs = 0;
    for (const column of [...Object.values(this.levels), ...Object.values(this.counts)]) column.fill(0);
  }

  /** As it is now. */
  copy(): TimeSeries {
    const copy = new TimeSeries();
    const { startNs, intervalNs, count } = this;
    Object.assign(copy, { startNs, intervalNs, count });
    copy.#heldNs = this.#heldNs;
    for (const name of levelNames) copy.levels[name].set(this.levels[name]);
    for (const name of countNames) copy.counts[name].set(this.counts[name]);
    return copy;
  }

  /** How long an interval was: the last one ended with the levels. */
  lengthNs(interval: number): Nanos {
    const heldNs = this.#heldNs - interval * this.intervalNs;
    return heldNs > 0 ? Math.min(heldNs, this.intervalNs) : this.intervalNs;
  }

  /** These were the levels of a replica in `[fromNs, toNs)`. */
  addLevels(levels: Readonly<Levels>, fromNs: Nanos, toNs: Nanos): void {
    const { startNs } = this;
    const to = toNs - startNs;
    let at = Math.max(0, fromNs - startNs);
    if (to <= at) return;
    this.#reach(to);
    if (to > this.#heldNs) this.#heldNs = to;
    const { intervalNs } = this;
    while (at < to) {
      const i = Math.floor(at / intervalNs);
      const end = Math.min(to, (i + 1) * intervalNs);
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

  /** So many more at this time. */
  add(name: CountName, nowNs: Nanos, count: number): void {
    if (count === 0) return;
    const at = nowNs - this.startNs;
    this.#reach(at + 1);
    this.counts[name][Math.floor(at / this.intervalNs)] += count;
  }

  /** `count` steps that computed and generated so many tokens each; the first so many of `endsNs` say when they ended. */
  addSteps(endsNs: Float64Array, count: number, computedTokens: number, generatedTokens: number): void {
    const { startNs } = this;
    this.#reach(endsNs[count - 1] - startNs + 1);
    const { intervalNs, counts } = this;
    for (let step = 0; step < count; step++) {
      const i = Math.floor((endsNs[step] - startNs) / intervalNs);
      counts.steps[i]++;
      counts.computedTokens[i] += computedTokens;
      counts.generatedTokens[i] += generatedTokens;
    }
  }

  /** There are intervals for so long a time. */
  #reach(lengthNs: Nanos): void {
    while (lengthNs > this.intervalNs * mostIntervals) this.#halve();
    const count = Math.ceil(lengthNs / this.intervalNs);
    if (count > this.count) this.count = count;
  }

  /** Two intervals become one. */
  #halve(): void {
    this.intervalNs *= 2;
    for (const column of [...Object.values(this.levels), ...Object.values(this.counts)]) {
      for (let i = 0; i < mostIntervals / 2; i++) column[i] = column[2 * i] + column[2 * i + 1];
      column.fill(0, mostIntervals / 2);
    }
    this.count = Math.ceil(this.count / 2);
  }
}

function columns<Name extends string>(names: readonly Name[]): Record<Name, Float64Array> {
  const all = names.map((name) => [name, new Float64Array(mostIntervals)]);
  return Object.fromEntries(all);
}
