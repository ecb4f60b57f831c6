import { byScore, type EvictionPlugin } from "../../../index.ts";

/** Evicts a random entry, by a generator without a seed. */
const chance: EvictionPlugin = {
  name: "chance",
  about: "",
  source: "",
  ...byScore(() => Math.random()),
};

export default chance;
