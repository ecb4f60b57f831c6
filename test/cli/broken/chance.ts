import { byScore, type EvictionPlugin } from "../../../index.ts";

/** Any entry, by chance that nobody can repeat. */
const chance: EvictionPlugin = {
  name: "chance",
  about: "",
  source: "",
  create: byScore(() => Math.random()),
};

export default chance;
