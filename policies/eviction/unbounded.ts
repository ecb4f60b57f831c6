import { InvariantError } from "../../core/errors.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

/** A cache without limit: the most that any policy without knowledge of the future can hit. */
export const unbounded: EvictionPlugin = {
  name: "unbounded",
  about: "a cache without limit: nothing is ever evicted",
  source: "bound",
  unlimited: true,
  create: () => ({
    add() {},
    remove() {},
    victim() {
      throw new InvariantError("an unlimited cache was asked for a victim");
    },
  }),
};
