import { blockStates, type ColourMode, type Colours, hitClasses } from "./block-colours.ts";
import { type Surface, textWidth } from "./drawing-surface.ts";

/** A mark and its meaning. */
export interface LegendItem {
  readonly text: string;
  /** Width of the mark, pixels. */
  readonly width: number;
  draw?(surface: Surface, x: number, middle: number): void;
}

/** Height of a legend row, pixels. */
export const legendRow = 22;

/** Height of a legend, pixels: two rows in narrow figures. */
export const legendHeight = (width: number): number => (width < 620 ? 2 : 1) * legendRow + 4;

/** Draws a legend at the bottom of a figure; returns the end of its last row. */
export function drawLegend(surface: Surface, y: number, width: number, items: readonly LegendItem[], colours: Colours) {
  let [x, middle] = [0, y + 4 + legendRow / 2];
  for (const item of items) {
    const itemWidth = textWidth(item.text, colours.fontFamily);
    if (x > 0 && x + item.width + itemWidth > width) [x, middle] = [0, middle + legendRow];
    item.draw?.(surface, x, middle);
    surface.text(x + item.width, middle, item.text, colours.mutedText);
    x += item.width + itemWidth + (item.width < 17 ? 11 : 16);
  }
  return { x, middle };
}

const swatch = (colour: string, text: string): LegendItem => ({
  text,
  width: 16,
  draw: (surface, x, middle) => surface.rect(x, middle - 6, 12, 12, colour),
});

const strip = (colours: readonly string[], each: number, apart: number, text: string): LegendItem => ({
  text,
  width: colours.length * (each + apart) + 6,
  draw: (surface, x, middle) => {
    colours.forEach((colour, i) => {
      surface.rect(x + i * (each + apart), middle - 6, each, 12, colour);
    });
  },
});

/** The legend of a colour mode. `oldest`: text of the longest age; `shown`: the block states that occur. */
export function colourLegend(
  colourMode: ColourMode,
  { ages, hits, owners, states }: Colours,
  oldest: string,
  shown: readonly (typeof blockStates)[number][],
): LegendItem[] {
  if (colourMode === "age")
    return [{ text: "last use: now", width: 0 }, strip(ages, 1.5, 0, oldest === "" ? "" : `${oldest} ago`)];
  if (colourMode === "owner") {
    const owner = shown.includes("private") ? "owning or caching request" : "caching request";
    return [strip(owners, 12, 2, `${owner} (colours repeat)`)];
  }
  if (colourMode === "life") return shown.map((state) => swatch(states[blockStates.indexOf(state)], state));
  const names = hitClasses.map((least, i) => {
    const most = (hitClasses[i + 1] ?? Number.POSITIVE_INFINITY) - 1;
    return most === Number.POSITIVE_INFINITY ? `${least}+` : most === least ? String(least) : `${least}–${most}`;
  });
  return [{ text: "hits", width: 0 }, ...names.map((name, i) => swatch(hits[i], name))];
}

/** Outline of the block of the next event. */
export const nextEventLegend = ({ nextEvent }: Colours): LegendItem => ({
  text: "next event",
  width: 20,
  draw: (surface, x, middle) => surface.frame(x, middle - 6, 14, 12, nextEvent, 2.5),
});
