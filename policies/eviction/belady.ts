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
    // By evictable entry: its score (next use, then depth), and its number in the order in which entries became evictable.
    const score = new Float64Array(key.length);
    const arrival = new Float64Array(key.length);
    let arrivals = 0;
    const order = new SortedRuns(score, arrival);

    const add = (entry: EntryId) => {
      entryOfKey[key[entry]] = entry;
      score[entry] = -(nextOfKey[key[entry]] * mostTokens + depth[entry]);
      arrival[entry] = arrivals++;
      order.add(entry);
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
        for (let at = start[request.id]; at < start[request.id + 1]; at++) {
          const content = keys[at];
          // The next use changes even if this request cannot use the entry.
          const entry = entryOfKey[content];
          if (entry !== none) remove(entry);
          nextOfKey[content] = nextOfReference[at];
          if (entry !== none) add(entry);
        }
      },
      add,
      remove,
      victim: () => order.first,
    };
  },
};
