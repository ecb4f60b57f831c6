import { assert } from "../../core/errors.ts";
import { type BlockCounts, CacheState } from "../../core/log/cache-state.ts";
import type { EventLog } from "../../core/log/event-log.ts";
import type { LoggedEvent } from "../../core/log/event-text.ts";
import { CacheReplay, type ReplayConfig } from "../../core/replica/replay.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { LogComparison, type LogDivergence } from "./log-comparison.ts";

/** One of two configurations where they diverge. */
export interface DifferenceSide {
  /** The event of this side; undefined: the request has no further event. */
  readonly logged: LoggedEvent | undefined;
  /** The result of the request. */
  readonly hitBlocks: number;
  readonly refused: boolean;
  /** The cache just before the event ... */
  readonly before: BlockCounts;
  /** ... and after the request. */
  readonly after: BlockCounts;
  /** Contents that are cached after the request in this configuration only, in ascending order. */
  readonly onlyHere: readonly number[];
}

export interface Difference {
  /** The request that was being served. */
  readonly request: number;
  readonly sides: readonly [first: DifferenceSide, second: DifferenceSide];
  /** The last events before the difference, of the first side. Those of the second differ at most in asides. */
  readonly context: readonly LoggedEvent[];
}

/** The comparison of a configuration with the first one so far, and the difference if they diverge. */
export interface Compared {
  readonly comparison: LogComparison;
  difference: Difference | undefined;
}

interface Runner {
  readonly number: number;
  readonly replay: CacheReplay;
  readonly blocks: BlockColumns;
  readonly state: CacheState;
  /** Index of the first event of the request being served. */
  precedingEvents: number;
}

interface Follower extends Runner, Compared {}

/** Number of events that are shown before a difference. */
const contextEvents = 6;

/**
 * Serves the requests of a trace in several configurations, each request in all of them before the next one, and compares
 * the decisions of each with those of the first. Logs are compared and dropped after each request. A configuration that
 * has diverged from the first is not served any more.
 */
export class Lockstep {
  readonly #trace: Trace;
  readonly #first: Runner;
  readonly #others: readonly Follower[];
  #served = 0;
  /** The configuration being served: the one that failed if `serve` throws. */
  serving = 0;

  /**
   * `blocks` has the content ids for each configuration. Contents are comparable only if `sameContents` holds for all
   * of them.
   */
  constructor(trace: Trace, configs: readonly ReplayConfig[], blocks: readonly BlockColumns[]) {
    assert(configs.length >= 2, `${configs.length} configurations, expected at least 2 to compare`);
    const runners = configs.map(
      (config, number): Runner => ({
        number,
        replay: new CacheReplay({ ...config, events: true }),
        blocks: blocks[number],
        state: new CacheState(),
        precedingEvents: 0,
      }),
    );
    this.#trace = trace;
    this.#first = runners[0];
    this.#others = runners
      .slice(1)
      .map((runner) => ({ ...runner, comparison: new LogComparison(), difference: undefined }));
  }

  /** The comparison of each configuration but the first. */
  get compared(): readonly Compared[] {
    return this.#others;
  }

  /** True if nothing is left to compare. */
  get done(): boolean {
    return this.#served === this.#trace.requestCount || this.#others.every(({ difference }) => difference);
  }

  /** Serves the next request in all configurations that have not diverged. */
  serve(): void {
    const row = this.#served++;
    const first = this.#first;
    const log = this.#feed(first, row);
    const divergences: { follower: Follower; at: LogDivergence }[] = [];
    for (const follower of this.#others) {
      if (follower.difference) continue;
      const followerLog = this.#feed(follower, row);
      const at = follower.comparison.request(row, log, first.precedingEvents, followerLog, follower.precedingEvents);
      if (at) divergences.push({ follower, at });
      else readRest(follower, followerLog);
    }
    this.#diverge(divergences, log, row);
    readRest(first, log);
  }

  #feed({ number, replay, blocks }: Runner, row: number): EventLog {
    this.serving = number;
    replay.feed(this.#trace, blocks, row, row + 1);
    return replay.log!;
  }

  #resultOf({ replay }: Runner, row: number) {
    const { hitBlocks, refused } = replay.result().requests;
    return { hitBlocks: hitBlocks[row], refused: refused[row] === 1 };
  }

  /**
   * Records the differences. The state of the first configuration is advanced from one divergence to the next, in the order of
   * events.
   */
  #diverge(divergences: { follower: Follower; at: LogDivergence }[], log: EventLog, row: number): void {
    const { state } = this.#first;
    const ends: { follower: Follower; end(): void }[] = [];
    for (const { follower, at } of divergences.sort((one, other) => one.at.first - other.at.first)) {
      const followerLog = follower.replay.log!;
      const context = lastEvents(log, at.first);
      state.read(log, this.#first.precedingEvents, at.first);
      this.#first.precedingEvents = at.first;
      follower.state.read(followerLog, follower.precedingEvents, at.second);
      const firstSide = {
        ...this.#resultOf(this.#first, row),
        logged: eventAt(log, at.first, state),
        before: state.blockCounts(),
      };
      const followerSide = {
        ...this.#resultOf(follower, row),
        logged: eventAt(followerLog, at.second, follower.state),
        before: follower.state.blockCounts(),
      };
      follower.state.read(followerLog, at.second, followerLog.count);
      ends.push({
        follower,
        end: () => {
          const contents = state.contents();
          const followerContents = follower.state.contents();
          follower.difference = {
            request: row,
            context,
            sides: [
              { ...firstSide, after: state.blockCounts(), onlyHere: missingIn(followerContents, contents) },
              { ...followerSide, after: follower.state.blockCounts(), onlyHere: missingIn(contents, followerContents) },
            ],
          };
        },
      });
    }
    if (ends.length === 0) return;
    state.read(log, this.#first.precedingEvents, log.count);
    this.#first.precedingEvents = log.count;
    for (const { end } of ends) end();
  }
}

/** Reads the rest of the request into the state and drops events that are no longer needed. */
function readRest(runner: Runner, log: EventLog): void {
  runner.state.read(log, runner.precedingEvents, log.count);
  log.keepLast(contextEvents);
  runner.precedingEvents = log.count;
}

function eventAt(log: EventLog, at: number, before?: CacheState): LoggedEvent | undefined {
  if (at === log.count) return undefined;
  const event = log.eventAt(at);
  return { event, users: before?.usersOf(event.block) };
}

function lastEvents(log: EventLog, to: number): LoggedEvent[] {
  const from = Math.max(0, to - contextEvents);
  return Array.from({ length: to - from }, (_, i) => eventAt(log, from + i)!);
}

const missingIn = (there: ReadonlySet<number>, here: ReadonlySet<number>): number[] =>
  [...here].filter((content) => !there.has(content)).sort((a, b) => a - b);

/** True if equal content ids stand for equal content in both. */
export function sameContents(a: BlockColumns, b: BlockColumns): boolean {
  if (a === b) return true;
  if (a.blockTokens !== b.blockTokens || a.keys.length !== b.keys.length) return false;
  return a.keys.every((key, at) => key === b.keys[at]) && a.start.every((at, r) => at === b.start[r]);
}
