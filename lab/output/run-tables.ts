import { join } from "node:path";
import type { EventLog } from "../../core/log/event-log.ts";
import { type RequestResults, rowsOf } from "../../core/replica/replay.ts";
import { never, type Outcomes } from "../../core/serving/outcomes.ts";
import type { StepTable } from "../../core/serving/step-table.ts";
import { writeKvEvents } from "./kv-event-lines.ts";
import { LogStores } from "./log-store.ts";
import {
  boolean,
  type Column,
  GrowingTable,
  int32,
  int64,
  type Numbers,
  numbers,
  rowsPerGroup,
  writeEvents,
} from "./parquet.ts";

/**
 * The tables of requests and of steps of one run. Rows are added while the run proceeds and written to temporary files group by
 * group, so that memory does not grow with the trace.
 */
export class RunTables {
  readonly #warmup: number;
  readonly #requests: GrowingTable;
  readonly #steps: GrowingTable;
  readonly #logs: LogStores;
  #requestCount = 0;
  #stepCount = 0;

  /**
   * `temporaryPath` returns the path of a temporary file; undefined: all rows stay in memory until `finish`. `logs` receive the
   * events of the run.
   */
  constructor(
    warmup: number,
    temporaryPath: (name: string) => string | undefined = () => undefined,
    logs = new LogStores(),
  ) {
    this.#warmup = warmup;
    this.#logs = logs;
    this.#requests = new GrowingTable(() => temporaryPath("requests.parquet"));
    this.#steps = new GrowingTable(() => temporaryPath("steps.parquet"));
  }

  /**
   * Adds a row for each of the next requests of the trace; the first ones of the run are marked as warm-up. Timed runs also have
   * times in ns, −1 for events that did not happen; an interrupted run has only finished requests. Without a clock, every request
   * that is not refused is also a step, which computes its misses.
   */
  addRequests(results: RequestResults, timed?: Outcomes): void {
    const { length } = results.refused;
    for (let from = 0; from < length; from += rowsPerGroup) {
      const to = Math.min(from + rowsPerGroup, length);
      const first = this.#requestCount + from;
      this.#addRequests(rowsOf(results, from, to), timed && rowsOf(timed, from, to), first);
      if (!timed) this.#addServed(rowsOf(results, from, to), first);
    }
    this.#requestCount += length;
  }

  #addRequests(results: RequestResults, timed: Outcomes | undefined, first: number): void {
    const hasEnded = (_: number, row: number) => timed?.finishedNs[row] !== never;
    const of = <T extends Numbers>(values: T) => values.filter(hasEnded) as T;
    const request = of(numbers(first, results.refused.length));
    const refused = of(results.refused);
    this.#requests.add(request.length, [
      int32("request", request),
      int64("arrivalNs", of(results.arrivalNs)),
      int32("inputTokens", of(results.inputTokens)),
      int32("outputTokens", of(results.outputTokens)),
      int32("promptBlocks", of(results.promptBlocks)),
      int32("session", of(results.session)),
      int32("hitBlocks", of(results.hitBlocks)),
      int32("hitTokens", of(results.hitTokens)),
      boolean("refused", (row) => refused[row] === 1),
      boolean("warmup", (row) => request[row] < this.#warmup),
      ...(timed ? times(timed, of) : []),
    ]);
  }

  #addServed({ inputTokens, hitTokens, refused }: RequestResults, first: number): void {
    const served = numbers(0, refused.length).filter((row) => refused[row] === 0);
    const column = (name: string, value: (row: number) => number) => int32(name, served.map(value));
    this.#steps.add(served.length, [
      int32("step", numbers(this.#stepCount, served.length)),
      column("request", (row) => first + row),
      column("requests", () => 1),
      column("cachedTokens", (row) => hitTokens[row]),
      column("computedTokens", (row) => inputTokens[row] - hitTokens[row]),
    ]);
    this.#stepCount += served.length;
  }

  /** Adds a row for each of the next steps of a timed run, in the order in which they ended. */
  addSteps(steps: StepTable): void {
    const count = steps.startNs.length;
    const column = (values: readonly number[]) => Uint32Array.from(values);
    this.#steps.add(count, [
      int32("step", numbers(this.#stepCount, count)),
      int32("replica", column(steps.replica)),
      int64("startNs", Float64Array.from(steps.startNs)),
      int64("durationNs", Float64Array.from(steps.durationNs)),
      int32("sequences", column(steps.sequences)),
      int32("prefillTokens", column(steps.prefillTokens)),
      int32("decodeTokens", column(steps.decodeTokens)),
      int64("contextTokens", Float64Array.from(steps.contextTokens)),
      int64("prefillContextTokens", Float64Array.from(steps.prefillContextTokens)),
      int32("prefillSequences", column(steps.prefillSequences)),
      int64("prefillPairs", Float64Array.from(steps.prefillPairs)),
      int32("logits", column(steps.logits)),
      int32("calls", column(steps.calls)),
      int64("paddedContextTokens", Float64Array.from(steps.paddedContextTokens)),
      int64("farContextTokens", Float64Array.from(steps.farContextTokens)),
      int64("paddedPairs", Float64Array.from(steps.paddedPairs)),
      int32("copiedBlocks", column(steps.copiedBlocks)),
      int32("swappedTokens", column(steps.swappedTokens)),
    ]);
    this.#stepCount += count;
  }

  addEvents(replica: number, log: EventLog): void {
    this.#logs.add(replica, log);
  }

  /** Completes the files in this folder. `logs`: those of all replicas, if they are saved. */
  async finish(folder: string, logs: readonly EventLog[], signal: AbortSignal | undefined): Promise<void> {
    try {
      const stores = this.#logs.complete(logs);
      if (stores.length > 0) {
        await writeEvents({ path: join(folder, "events.parquet"), signal }, stores);
        await writeKvEvents({ path: join(folder, "kv-events.jsonl"), signal }, stores);
      }
    } finally {
      this.#logs.close();
    }
    await this.#requests.finish({ path: join(folder, "requests.parquet"), signal });
    await this.#steps.finish({ path: join(folder, "steps.parquet"), signal });
  }
}

const times = (outcomes: Outcomes, of: <T extends Numbers>(values: T) => T): Column[] => [
  int32("replica", of(outcomes.replica)),
  int64("admittedNs", of(outcomes.admittedNs)),
  int64("firstTokenNs", of(outcomes.firstTokenNs)),
  int64("finishedNs", of(outcomes.finishedNs)),
  int32("preemptions", of(outcomes.preemptions)),
];
