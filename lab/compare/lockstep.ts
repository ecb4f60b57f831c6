import { assert } from "../../core/errors.ts";
import { type BlockCounts, CacheState } from "../../core/log/cache-state.ts";
import type { EventLog } from "../../core/log/event-log.ts";
import type { LoggedEvent } from "../../core/log/event-text.ts";
import { CacheReplay, type ReplayConfig } from "../../core/replica/replay.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { LogComparison, type LogDivergence } from "./log-comparison.ts";

/** One of two sides where they part. */
export interface DifferenceSide {
  /** What it does; undefined: nothing more with this request. */
  readonly logged: LoggedEvent | undefined;
  /** What this side makes of the request in all. */
  readonly hitBlocks: number;
  readonly refused: boolean;
  /** The cache just before that ... */
  readonly before: BlockCounts;
  /** ... and when the request is over. */
  readonly after: BlockCounts;
  /** Contents that only this side has cached when the request is over, in the order of their ids. */
  readonly onlyHere: readonly number[];
}

export interface Difference {
  /** Which of the trace's requests was being served. */
  readonly request: number;
  readonly sides: readonly [first: DifferenceSide, second: DifferenceSide];
  /** The last events before, of the first side; but for asides those of the other. */
  readonly context: readonly LoggedEvent[];
}

/** What has been compared with the first configuration so far, and where the two part, if they do. */
export interface Compared {
  readonly comparison: LogComparison;
  difference: Difference | undefined;
}

interface Runner {
  readonly number: number;
  readonly replay: CacheReplay;
  readonly blocks: BlockColumns;
  readonly state: CacheState;
  /** Events of the log that are older than the request being served. */
  old: number;
}

interface Follower extends Runner, Compared {}

/** Events that are kept to be shown before a difference. */
const contextEvents = 6;

/**
 * Serves the requests of a trace in several configurations at once, one request after the other in all of them, and
 * compares what each decides with what the first does. Logs are compared and forgotten request by request. Who has
 * parted from the first is not served any more.
 */
export class Lockstep {
  readonly #trace: Trace;
  readonly #first: Runner;
  readonly #others: readonly Follower[];
  #served = 0;
  /** The configuration being served: whose mistake it is if `serve` throws. */
  serving = 0;

  /**
   * `blocks` has the content ids for each configuration. They must be equal, or contents could not be compared:
   * `sameContents` tells.
   */
  constructor(trace: Trace, configs: readonly ReplayConfig[], blocks: readonly BlockColumns[]) {
    assert(configs.length >= 2, `${configs.length} configurations, expected at least 2 to compare`);
    const runners = configs.map(
      (config, number): Runner => ({
        number,
        replay: new CacheReplay({ ...config, events: true }),
        blocks: blocks[number],
        state: new CacheState(),
        old: 0,
      }),
    );
    this.#trace = trace;
    this.#first = runners[0];
    this.#others = runners
      .slice(1)
      .map((runner) => ({ ...runner, comparison: new LogComparison(), difference: undefined }));
  }

  /** For each configuration but the first, how it compares so far. */
  get compared(): readonly Compared[] {
    return this.#others;
  }

  /** Whether there is nothing left to compare. */
  get done(): boolean {
    return this.#served === this.#trace.requestCount || this.#others.every(({ difference }) => difference);
  }

  /** Serves the next request in all configurations that have not parted. */
  serve(): void {
    const row = this.#served++;
    const first = this.#first;
    const log = this.#feed(first, row);
    const partings: { follower: Follower; at: LogDivergence }[] = [];
    for (const follower of this.#others) {
      if (follower.difference) continue;
      const theirs = this.#feed(follower, row);
      const at = follower.comparison.request(row, log, first.old, theirs, follower.old);
      if (at) partings.push({ follower, at });
      else keepUp(follower, theirs);
    }
    this.#part(partings, log, row);
    keepUp(first, log);
  }

  #feed({ number, replay, blocks }: Runner, row: number): EventLog {
    this.serving = number;
    replay.feed(this.#trace, blocks, row, row + 1);
    return replay.log!;
  }

  #fate({ replay }: Runner, row: number) {
    const { hitBlocks, refused } = replay.result().requests;
    return { hitBlocks: hitBlocks[row], refused: refused[row] === 1 };
  }

  /** The state of the first are kept from parting to parting, in the order of its events. */
  #part(partings: { follower: Follower; at: LogDivergence }[], log: EventLog, row: number): void {
    const { state } = this.#first;
    const ends: { follower: Follower; end(): void }[] = [];
    for (const { follower, at } of partings.sort((one, other) => one.at.first - other.at.first)) {
      const theirs = follower.replay.log!;
      const context = lastEvents(log, at.first);
      state.read(log, this.#first.old, at.first);
      this.#first.old = at.first;
      follower.state.read(theirs, follower.old, at.second);
      const mine = {
        ...this.#fate(this.#first, row),
        logged: eventAt(log, at.first, state),
        before: state.blockCounts(),
      };
      const other = {
        ...this.#fate(follower, row),
        logged: eventAt(theirs, at.second, follower.state),
        before: follower.state.blockCounts(),
      };
      follower.state.read(theirs, at.second, theirs.count);
      ends.push({
        follower,
        end: () => {
          const contents = state.contents();
          const theirContents = follower.state.contents();
          follower.difference = {
            request: row,
            context,
            sides: [
              { ...mine, after: state.blockCounts(), onlyHere: missingIn(theirContents, contents) },
              { ...other, after: follower.state.blockCounts(), onlyHere: missingIn(contents, theirContents) },
            ],
          };
        },
      });
    }
    if (ends.length === 0) return;
    state.read(log, this.#first.old, log.count);
    this.#first.old = log.count;
    for (const { end } of ends) end();
  }
}

/** Enters the rest of the request into the state, and forgets what nobody will ask for. */
function keepUp(runner: Runner, log: EventLog): void {
  runner.state.read(log, runner.old, log.count);
  log.keepLast(contextEvents);
  runner.old = log.count;
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

/** Whether equal numbers stand for equal contents in both. */
export function sameContents(a: BlockColumns, b: BlockColumns): boolean {
  if (a === b) return true;
  if (a.blockTokens !== b.blockTokens || a.keys.length !== b.keys.length) return false;
  return a.keys.every((key, at) => key === b.keys[at]) && a.start.every((at, r) => at === b.start[r]);
}
