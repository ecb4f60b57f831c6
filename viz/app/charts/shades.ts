import { scaleLinear } from "d3-scale";
import { integer, milliseconds } from "../controls/format.ts";
import { rgbOf, type Surface, widthOf } from "./surface.ts";

/** What the colour of a block says. */
export type Colouring = "age" | "hits" | "owner" | "life";

export const colourings: readonly { readonly value: Colouring; readonly label: string }[] = [
  { value: "age", label: "Age" },
  { value: "hits", label: "Hits" },
  { value: "owner", label: "Owner" },
  { value: "life", label: "Use" },
];

/** By the bytes of the block map. */
export const lives = ["free", "private", "held", "idle"] as const;
/** In words for those who see them for the first time. */
export const livesMeaning = ["free", "private to a request", "cached, held by requests", "cached, in no use"] as const;

/** Colours of the style sheet as they are now, in light or dark. */
export interface Shades {
  readonly ground: string;
  readonly ink: string;
  readonly soft: string;
  /** Around the block of the next event. */
  readonly next: string;
  /** From just now to the longest ago. */
  readonly ages: readonly string[];
  /** By classes of hits. */
  readonly hits: readonly string[];
  /** In turn. */
  readonly owners: readonly string[];
  readonly lives: readonly string[];
  /** Of letters. */
  readonly family: string;
}

const ageSteps = 64;
/** The least of each class of hits. */
const hitClasses = [0, 1, 2, 4, 8, 16, 32];

const names = (stem: string, count: number) => Array.from({ length: count }, (_, i) => `--${stem}${i}`);

/** Reads the colours off the page. */
export function readShades(host: HTMLElement): Shades {
  const probe = document.createElement("span");
  host.append(probe);
  const read = (name: string) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const stops = names("age", 5).map(read);
  const ramp = scaleLinear<string>()
    .domain(stops.map((_, i) => i / (stops.length - 1)))
    .range(stops);
  const shades = {
    ...{ ground: read("--card"), ink: read("--ink"), soft: read("--soft"), next: read("--next") },
    ages: Array.from({ length: ageSteps }, (_, i) => ramp(i / (ageSteps - 1))),
    hits: names("hits", hitClasses.length).map(read),
    owners: names("owner", 7).map(read),
    lives: ["--free", "--c1", "--c0", "--idle"].map(read),
    family: getComputedStyle(probe).fontFamily,
  };
  probe.remove();
  return shades;
}

/** Calls back when light becomes dark or the other way round. */
export function onColours(left: AbortSignal, changed: () => void): void {
  const observer = new MutationObserver(changed);
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed, { signal: left });
  left.addEventListener("abort", () => observer.disconnect());
}

/** Which of the ages' colours; `share`: 0 just now, 1 the longest ago of all. */
export const ageStep = (share: number): number => Math.min(ageSteps - 1, Math.floor(share * ageSteps));

export function hitClass(hits: number): number {
  let at = hitClasses.length - 1;
  while (hits < hitClasses[at]) at--;
  return at;
}

/** Which of the owners' colours. */
export const ownerTurn = (request: number, { owners }: Shades): number => request % owners.length;

/** Black or white, whichever has more contrast to it. */
export function inkOn(colour: string): string {
  const [red, green, blue] = rgbOf(colour).map((value) => (value / 255) ** 2.2);
  return red * 0.2126 + green * 0.7152 + blue * 0.0722 > 0.18 ? "rgb(0, 0, 0)" : "rgb(255, 255, 255)";
}

/** How long ago, in the log's own measure. */
export type AgeText = (age: number) => string;

export const ageText = (hasClock: boolean): AgeText =>
  hasClock ? (ns) => milliseconds(ns / 1e6) : (events) => `${integer(events)} events`;

/** What a colour, or a mark, means. */
export interface LegendItem {
  readonly words: string;
  /** Pixels that its mark takes before the words. */
  readonly width: number;
  draw?(surface: Surface, x: number, middle: number): void;
}

/** How high a row of a legend is. */
export const legendRow = 22;

/** How high a legend is: narrow figures have it in two rows. */
export const legendHeight = (width: number): number => (width < 620 ? 2 : 1) * legendRow + 4;

/** Says what is what at the bottom of a figure. Returns where its last row ends. */
export function drawLegend(surface: Surface, y: number, width: number, items: readonly LegendItem[], shades: Shades) {
  let [x, middle] = [0, y + 4 + legendRow / 2];
  for (const item of items) {
    const words = widthOf(item.words, shades.family);
    if (x > 0 && x + item.width + words > width) [x, middle] = [0, middle + legendRow];
    item.draw?.(surface, x, middle);
    surface.text(x + item.width, middle, item.words, shades.soft);
    x += item.width + words + (item.width < 17 ? 11 : 16);
  }
  return { x, middle };
}

const swatch = (colour: string, words: string): LegendItem => ({
  words,
  width: 16,
  draw: (surface, x, middle) => surface.rect(x, middle - 6, 12, 12, colour),
});

const strip = (colours: readonly string[], each: number, apart: number, words: string): LegendItem => ({
  words,
  width: colours.length * (each + apart) + 6,
  draw: (surface, x, middle) => {
    colours.forEach((colour, i) => {
      surface.rect(x + i * (each + apart), middle - 6, each, 12, colour);
    });
  },
});

/** What the colours mean. `oldest`: the longest age; `shown`: which lives there can be. */
export function colourItems(
  colouring: Colouring,
  { ages, hits, owners, lives: livesColours }: Shades,
  oldest: string,
  shown: readonly (typeof lives)[number][],
): LegendItem[] {
  if (colouring === "age")
    return [{ words: "last used: just now", width: 0 }, strip(ages, 1.5, 0, oldest === "" ? "" : `${oldest} ago`)];
  if (colouring === "owner") {
    const whose = shown.includes("private") ? "of, or cached by" : "cached by";
    return [strip(owners, 12, 2, `${whose}: a colour in turn for each request`)];
  }
  if (colouring === "life") return shown.map((life) => swatch(livesColours[lives.indexOf(life)], life));
  const names = hitClasses.map((least, i) => {
    const most = (hitClasses[i + 1] ?? Number.POSITIVE_INFINITY) - 1;
    return most === Number.POSITIVE_INFINITY
      ? `${least} and more`
      : most === least
        ? String(least)
        : `${least}–${most}`;
  });
  return [{ words: "hits", width: 0 }, ...names.map((name, i) => swatch(hits[i], name))];
}

/** Around the block of the next event. */
export const nextItem = ({ next }: Shades): LegendItem => ({
  words: "next event",
  width: 20,
  draw: (surface, x, middle) => surface.frame(x, middle - 6, 14, 12, next, 2.5),
});
