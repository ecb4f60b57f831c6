import { assert } from "../../core/errors.ts";
import { byScore } from "../../core/plugins/by-score.ts";
import type { EntryId, EvictionPlugin, EvictionPolicy, FutureView } from "../../core/plugins/index.ts";

const none = -1;

/**
 * The offline optimum: the entry whose content is asked for furthest in the future goes first, of equals the deepest,
 * so that no prefix gets a hole. It reads the future, which no server can.
 *
 * A block that an answer fills counts as asked for when a later *prompt* contains it.
 */
export const belady: EvictionPlugin = {
  name: "belady",
  about: "offline optimum: furthest next use first (reads the future)",
  source: "Belady 1966; Mattson et al. 1970",
  offline: true,
  create(context): EvictionPolicy {
    const { key } = context.columns;
    let future: FutureView;
    /** Request that asks for the same content next, for each reference of the trace. */
    let nextOfReference = new Uint32Array(0);
    /** The same for each content, as of the current request. */
    let nextOfKey = new Uint32Array(0);
    let entryOfKey = new Int32Array(0);
    const order = byScore((entry) => -nextOfKey[key[entry]], "-depth")(context);

    const add = (entry: EntryId) => {
      entryOfKey[key[entry]] = entry;
      order.add(entry);
    };
    const remove = (entry: EntryId) => {
      entryOfKey[key[entry]] = none;
      order.remove(entry, "referenced");
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
          // Only what the rules let it use is a use.
          for (let at = start[r]; at < start[r] + usableBlocks[r]; at++) next[keys[at]] = r;
        }
      },
      begin(request) {
        assert(future !== undefined, "belady was not told the future");
        const { keys, start } = future.blocks;
        for (let at = start[request.id]; at < start[request.id + 1]; at++) {
          const content = keys[at];
          // Evictable content that this request does not get to use has a new next use all the same.
          const entry = entryOfKey[content];
          if (entry !== none) remove(entry);
          nextOfKey[content] = nextOfReference[at];
          if (entry !== none) add(entry);
        }
      },
      add,
      remove,
      victim: (now) => order.victim(now),
    };
  },
};
