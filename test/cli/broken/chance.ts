import { byScore, type EvictionPlugin } from "../../../index.ts";

/** Any entry, by chance that nobody can repeat. */
const chance: EvictionPlugin = {
  name: "chance",
  about: "",
  source: "",
  ...byScore(() => Math.random()),
};

export default chance;
