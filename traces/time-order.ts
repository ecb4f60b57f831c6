import { grouped } from "../core/counted.ts";
import type { TraceError } from "../core/errors.ts";
import type { Notes } from "./format.ts";

/** A record with its recorded time, in the unit of its file. */
export interface Timed {
  readonly time: number;
  /** Characters of its text. */
  readonly size: number;
  readonly record: { error(message: string): TraceError };
}

const windowRecords = 4096;
const windowCharacters = 1 << 24;

/**
 * Sorts records by time, for logs that are written when a request ends. Records of equal time stay in order. Only a window
 * of records is in memory. The number of records out of order is noted at the end.
 *
 * @throws TraceError for a record that is earlier than one that has left the window
 */
export async function* inTimeOrder<T extends Timed>(records: AsyncIterable<T>, notes: Notes): AsyncGenerator<T> {
  // window   [0 ... sent)          [sent ... length)
  // content  left it already       waiting, sorted by time
  const window: T[] = [];
  let sent = 0;
  let size = 0;
  let last = Number.NEGATIVE_INFINITY;
  let latest = Number.NEGATIVE_INFINITY;
  let outOfOrder = 0;
  let count = 0;
  const next = () => {
    const record = window[sent++];
    size -= record.size;
    last = record.time;
    if (sent === windowRecords) {
      window.splice(0, sent);
      sent = 0;
    }
    return record;
  };
  for await (const record of records) {
    count++;
    if (record.time < last)
      throw record.record.error(
        `time ${record.time} is earlier than ${last}, that of a request too far before it to be sorted; expected times in order`,
      );
    if (record.time < latest) outOfOrder++;
    latest = Math.max(latest, record.time);
    let at = window.length;
    while (at > sent && window[at - 1].time > record.time) at--;
    window.splice(at, 0, record);
    size += record.size;
    while (window.length - sent > windowRecords || (size > windowCharacters && window.length - sent > 1)) yield next();
  }
  while (sent < window.length) yield next();
  if (outOfOrder > 0)
    notes.add(`requests out of order are sorted by time: ${grouped(outOfOrder)} of ${grouped(count)}`);
}

interface OpenFile<T> {
  next: T;
  /** Position in the list of files, which decides at equal times. */
  readonly order: number;
  readonly rest: AsyncGenerator<T>;
}

/**
 * The records of several files in one sequence, by time; each file's own order is kept. A file is opened when the others
 * reach the time of its first record.
 */
export async function* mergedByTime<T extends Timed>(
  files: readonly string[],
  open: (file: string) => AsyncGenerator<T>,
): AsyncGenerator<T> {
  if (files.length === 1) {
    yield* open(files[0]);
    return;
  }
  const waiting = await startTimes(files, open);
  const active: OpenFile<T>[] = [];
  try {
    while (active.length > 0 || waiting.length > 0) {
      let first = active.reduce((a: OpenFile<T> | undefined, b) => (a && isBefore(a, b) ? a : b), undefined);
      while (waiting.length > 0 && (!first || waiting[waiting.length - 1].time <= first.next.time)) {
        const { order } = waiting.pop()!;
        const rest = open(files[order]);
        const { done, value } = await rest.next();
        if (done) continue;
        const opened = { next: value, order, rest };
        active.push(opened);
        if (!first || isBefore(opened, first)) first = opened;
      }
      if (!first) return;
      yield first.next;
      const { done, value } = await first.rest.next();
      if (done) active.splice(active.indexOf(first), 1);
      else first.next = value;
    }
  } finally {
    for (const { rest } of active) await rest.return(undefined);
  }
}

function isBefore(a: OpenFile<Timed>, b: OpenFile<Timed>): boolean {
  return a.next.time < b.next.time || (a.next.time === b.next.time && a.order < b.order);
}

/** The files' positions and the times of their first records, the earliest last. */
async function startTimes<T extends Timed>(files: readonly string[], open: (file: string) => AsyncGenerator<T>) {
  const starts: { readonly order: number; readonly time: number }[] = [];
  for (const [order, file] of files.entries()) {
    for await (const { time } of open(file)) {
      starts.push({ order, time });
      break;
    }
  }
  return starts.sort((a, b) => b.time - a.time || b.order - a.order);
}
