import type { StepObserver } from "../../core/serving/observers.ts";
import type { StepLoad } from "../../core/serving/step-load.ts";
import { StepTable } from "../../core/serving/step-table.ts";
import type { Nanos } from "../../core/trace/trace.ts";

/** The fields of a load that a table of steps reads. */
const loadFields = [
  ...(["sequences", "prefillTokens", "decodeTokens", "prefillContextTokens", "decodeContextTokens"] as const),
  ...(["prefillSequences", "prefillPairs", "logits", "calls", "paddedContextTokens", "farContextTokens"] as const),
  ...(["paddedPairs", "copiedBlocks", "swappedTokens"] as const),
] as const satisfies readonly (keyof StepLoad)[];

const names = ["atNs", "isStart", "replica", "count", "startNs", ...loadFields] as const;
type Name = (typeof names)[number];

/** Calls of `StepObserver.steps` as columns, in their order; `endsNs` has the ends of all their steps. Plain data. */
export interface StepCalls {
  readonly columns: Readonly<Record<Name, Float64Array>>;
  readonly endsNs: Float64Array;
}

/** Most numbers that are kept: 256 MiB. */
const mostNumbers = 2 ** 25;

/** Records the steps of some replicas of a run, whose present time `nowNs` returns. */
export class StepRecorder implements StepObserver {
  readonly #nowNs: () => Nanos;
  readonly #most: number;
  readonly #columns = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>;
  readonly #endsNs: number[] = [];
  #numbers = 0;

  constructor(nowNs: () => Nanos, most = mostNumbers) {
    this.#nowNs = nowNs;
    this.#most = most;
  }

  steps(
    { number }: { readonly number: number },
    load: Readonly<StepLoad>,
    startNs: Nanos,
    count: number,
    endsNs: Float64Array,
  ): void {
    this.#numbers += names.length + count;
    if (this.isFull) return;
    const columns = this.#columns;
    const atNs = this.#nowNs();
    columns.atNs.push(atNs);
    // Steps that repeat the one before are computed when they start, after all steps that end at that time.
    columns.isStart.push(startNs >= atNs ? 1 : 0);
    columns.replica.push(number);
    columns.count.push(count);
    columns.startNs.push(startNs);
    for (const name of loadFields) columns[name].push(load[name]);
    for (let i = 0; i < count; i++) this.#endsNs.push(endsNs[i]);
  }

  /** Whether there were more calls than are kept. */
  get isFull(): boolean {
    return this.#numbers > this.#most;
  }

  /** All calls. */
  get calls(): StepCalls {
    const columns = names.map((name) => [name, Float64Array.from(this.#columns[name])]);
    return { columns: Object.fromEntries(columns), endsNs: Float64Array.from(this.#endsNs) };
  }
}

const rowsPerTable = 50_000;

/**
 * The steps of all parts in the order of one run: at one time steps end before others start, and of several replicas the one with
 * the lowest number is first. The yielded table is used again.
 */
export function* mergedSteps(parts: readonly StepCalls[]): Generator<StepTable> {
  const table = new StepTable();
  const next = parts.map(() => ({ call: 0, end: 0 }));
  const isBefore = (a: number, b: number): boolean => {
    for (const name of ["atNs", "isStart", "replica"] as const) {
      const difference = parts[a].columns[name][next[a].call] - parts[b].columns[name][next[b].call];
      if (difference !== 0) return difference < 0;
    }
    return false;
  };
  for (;;) {
    let first = -1;
    for (const [part, { columns }] of parts.entries())
      if (next[part].call < columns.atNs.length && (first < 0 || isBefore(part, first))) first = part;
    if (first < 0) break;
    const { columns, endsNs } = parts[first];
    const { call, end } = next[first];
    const count = columns.count[call];
    const load = Object.fromEntries(loadFields.map((name) => [name, columns[name][call]])) as unknown as StepLoad;
    table.steps(
      { number: columns.replica[call] },
      load,
      columns.startNs[call],
      count,
      endsNs.subarray(end, end + count),
    );
    next[first] = { call: call + 1, end: end + count };
    if (table.startNs.length >= rowsPerTable) {
      yield table;
      table.clear();
    }
  }
  yield table;
}
