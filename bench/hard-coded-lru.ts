import type { Trace } from "../core/trace/trace.ts";

/**
 * The baseline of the replay benchmark: an LRU over typed arrays without plug-ins, reference counts or rules, with one
 * counter. Content ids index an array, recency is a linked list. Returns the hits of contiguous prefixes.
 */
export function hardCodedLru(trace: Trace, capacity: number): number {
  const { keys, keyStart, requestCount } = trace;
  const slotOf = new Int32Array(trace.distinctKeys).fill(-1);
  const key = new Int32Array(capacity);
  const before = new Int32Array(capacity + 1);
  const after = new Int32Array(capacity + 1);
  const ends = capacity;
  before[ends] = after[ends] = ends;
  let used = 0;
  let hits = 0;
  for (let r = 0; r < requestCount; r++) {
    const end = keyStart[r + 1];
    let contiguous = true;
    for (let i = keyStart[r]; i < end; i++) {
      const content = keys[i];
      let slot = slotOf[content];
      if (slot >= 0) {
        if (contiguous) hits++;
        after[before[slot]] = after[slot];
        before[after[slot]] = before[slot];
      } else {
        contiguous = false;
        if (used < capacity) {
          slot = used++;
        } else {
          slot = after[ends];
          after[ends] = after[slot];
          before[after[slot]] = ends;
          slotOf[key[slot]] = -1;
        }
        key[slot] = content;
        slotOf[content] = slot;
      }
      const last = before[ends];
      after[last] = slot;
      before[slot] = last;
      after[slot] = ends;
      before[ends] = slot;
    }
  }
  return hits;
}
