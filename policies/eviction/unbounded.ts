import { InvariantError } from "../../core/errors.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

/** An unlimited cache, in which no entry is ever evicted: a bound on the hits of every policy. */
export const unbounded: EvictionPlugin = {
  name: "unbounded",
  about: "an unlimited cache: no entry is ever evicted",
  source: "bound",
  unlimited: true,
  create: () => ({
    add() {},
    remove() {},
    victim() {
      throw new InvariantError("victim() was called on an unlimited cache");
    },
  }),
};
