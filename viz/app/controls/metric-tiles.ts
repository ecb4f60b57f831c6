import { h } from "./dom.ts";

/** The name of a metric, its value, and a line of detail. */
export type Tile = readonly [name: string, value: string, detail: string];

export const metricTiles = (tiles: readonly Tile[]) =>
  h(
    "dl",
    { class: "tiles" },
    ...tiles.map(([name, value, detail]) =>
      h("div", { class: "tile" }, h("dt", {}, name), h("dd", {}, value, h("small", {}, detail))),
    ),
  );
