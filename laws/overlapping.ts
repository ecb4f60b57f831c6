import { scenarios } from "./configs.ts";
import {
  addRemoveAlternate,
  alwaysVictim,
  callsReturn,
  conservation,
  failedAdmission,
  longestMatch,
  victimIsEvictable,
  victimIsPure,
} from "./contract-laws.ts";
import { entriesLaw } from "./expected-entries.ts";
import { runScenario } from "./scenario.ts";
import type { Trial } from "./trial.ts";

/**
 * Overlapping requests with all operations: admission, chunked prefill, decode, preemption, refusal, rollback of a step.
 * After every operation the cache is audited, recounted from its event log and compared with the reference model; every
 * step is executed on a model of the block contents.
 */
export const overlapping: Trial = {
  laws: [
    conservation,
    victimIsEvictable,
    alwaysVictim,
    victimIsPure,
    callsReturn,
    addRemoveAlternate,
    longestMatch,
    failedAdmission,
    entriesLaw,
  ],
  runs: 100,
  cases: scenarios,
  check: ({ script = [], ...one }) => void runScenario({ ...one, script }),
};
