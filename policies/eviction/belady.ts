import { assert } from "../../core/errors.ts";
import type { EntryId, EvictionPlugin, EvictionPolicy, FutureView } from "../../core/plugins/index.ts";
import { SortedRuns } from "../../core/sorted-runs.ts";

const none = -1;
/** More tokens than a prompt has. The score of an entry is exact for the first 2 million requests of a trace. */
const mostTokens = 2 ** 32;

/**
 * Evicts the entry whose content is used furthest in the future; of equals the deepest one, so that no prefix gets a
 * hole (Belady 1966; Mattson et al. 1970). An offline bound: it reads the whole trace before the first request.
 *
 * The next use of a block is the next request whose *prompt* contains it; output tokens are not uses.
 */
export const belady: EvictionPlugin = {
  name: "belady",
  about: "offline optimum: evicts the entry whose next use is furthest in the future (reads the trace in advance)",
  source: "Belady 1966; Mattson et al. 1970",
  offline: true,
  columns: ["depth"],
  create({ columns }): EvictionPolicy {
    const { key, depth } = columns;
    let future: FutureView;
    /** By prompt block of the trace: the next request that uses the same content. */
    let nextOfReference = new Uint32Array(0);
    /** By content id: the next request that uses it, as of the current request. */
    let nextOfKey = new Uint32Array(0);
    let entryOfKey = new Int32Array(0);
    /** Entries with contents of the latest request, whose positions in `order` are by earlier next uses. */
    let moved = new Int32Array(64);
    let movedCount = 0;
    /** Evictable entries by next use, then depth; of equals the one that became evictable first. */
    const score = new Float64Array(key.length);
    const arrival = new Float64Array(key.length);
    let arrivals = 0;
    const order = new SortedRuns(score, arrival);

    const insert = (entry: EntryId) => {
      score[entry] = -(nextOfKey[key[entry]] * mostTokens + depth[entry]);
      arrival[entry] = arrivals++;
      order.add(entry);
    };
    /** Most entries of `moved` are referenced before the next eviction and need not be moved. */
    const move = () => {
      for (let i = 0; i < movedCount; i++) {
        const entry = moved[i];
        if (!order.has(entry)) continue;
        order.remove(entry);
        insert(entry);
      }
      movedCount = 0;
    };
    const add = (entry: EntryId) => {
      if (movedCount > 0) move();
      entryOfKey[key[entry]] = entry;
      insert(entry);
    };
    const remove = (entry: EntryId) => {
      entryOfKey[key[entry]] = none;
      order.remove(entry);
    };

    return {
      prepare(view) {
        future = view;
        const { keys, start, distinct } = view.blocks;
        const { usableBlocks } = view;
        const never = view.requestCount + 1;
        nextOfKey = new Uint32Array(distinct).fill(never);
        entryOfKey = new Int32Array(distinct).fill(none);
        nextOfReference = new Uint32Array(keys.length);
        const next = new Uint32Array(distinct).fill(never);
        for (let r = view.requestCount - 1; r >= 0; r--) {
          for (let at = start[r]; at < start[r + 1]; at++) nextOfReference[at] = next[keys[at]];
          // Only blocks that can be hits under the rules are uses.
          for (let at = start[r]; at < start[r] + usableBlocks[r]; at++) next[keys[at]] = r;
        }
      },
      begin(request) {
        assert(future !== undefined, "belady: begin() was called before prepare()");
        const { keys, start } = future.blocks;
        const [from, to] = [start[request.id], start[request.id + 1]];
        move();
        if (to - from > moved.length) moved = new Int32Array(2 * (to - from));
        for (let at = from; at < to; at++) {
          const content = keys[at];
          // The next use changes even if this request cannot use the entry.
          nextOfKey[content] = nextOfReference[at];
          const entry = entryOfKey[content];
          if (entry !== none) moved[movedCount++] = entry;
        }
      },
      add,
      remove,
      victim() {
        if (movedCount > 0) move();
        return order.first;
      },
    };
  },
};
