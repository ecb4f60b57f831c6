import { byScore } from "../../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../../core/plugins/index.ts";

/** Evicts a random entry, by a generator without a seed. */
const unseededRandom: EvictionPlugin = {
  name: "unseeded-random",
  about: "",
  source: "",
  ...byScore(() => Math.random()),
};

export default unseededRandom;
