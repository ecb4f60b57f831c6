import {
  addRemoveAlternate,
  alwaysVictim,
  callsReturn,
  conservation,
  noTrace,
  ownContent,
  victimIsEvictable,
  victimIsPure,
} from "./book.ts";
import { scenarios } from "./configs.ts";
import { entriesLaw } from "./entries.ts";
import { play } from "./scenario.ts";
import type { Trial } from "./trial.ts";

/**
 * Requests that overlap in every way: admitted, computed in chunks, answered, preempted, refused, steps that do not
 * happen. After every operation the cache is audited, counted a second time from its log and compared with the naive
 * model; every step reads what is really in the blocks.
 */
export const overlapping: Trial = {
  laws: [
    conservation,
    victimIsEvictable,
    alwaysVictim,
    victimIsPure,
    callsReturn,
    addRemoveAlternate,
    ownContent,
    noTrace,
    entriesLaw,
  ],
  runs: 100,
  cases: scenarios,
  check: ({ script = [], ...one }) => void play({ ...one, script }),
};
