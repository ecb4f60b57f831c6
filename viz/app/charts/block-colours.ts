import { scaleLinear } from "d3-scale";
import { integer, milliseconds } from "../data/format.ts";
import { rgbOf } from "./drawing-surface.ts";

/** The property of a block that its colour shows; `life`: its state. */
export type ColourMode = "age" | "hits" | "owner" | "life";

export const colourModes: readonly { readonly value: ColourMode; readonly label: string }[] = [
  { value: "age", label: "Age" },
  { value: "hits", label: "Hits" },
  { value: "owner", label: "Owner" },
  { value: "life", label: "State" },
];

/** Indexed by the bytes of `BlockMap.life`. */
export const blockStates = ["free", "private", "cached, referenced", "cached, idle"] as const;

/** The name of a block state in a legend; without "cached, " in a figure that is too narrow for all names. */
export const legendName = (state: string, width: number): string =>
  width < 560 ? state.replace("cached, ", "") : state;

/** Colours of the style sheet in the current theme. */
export interface Colours {
  readonly background: string;
  readonly text: string;
  readonly mutedText: string;
  /** Outline of the block of the next event. */
  readonly nextEvent: string;
  /** From the most to the least recently used. */
  readonly ages: readonly string[];
  /** By hit count, see `hitClasses`. */
  readonly hits: readonly string[];
  /** Assigned to requests in rotation. */
  readonly owners: readonly string[];
  /** Indexed as `blockStates`. */
  readonly states: readonly string[];
  readonly fontFamily: string;
}

const ageSteps = 64;
/** The least hit count of each class. */
export const hitClasses = [0, 1, 2, 4, 8, 16, 32];

const names = (stem: string, count: number) => Array.from({ length: count }, (_, i) => `--${stem}${i}`);

/** Computes the colours from the CSS variables that apply to `host`. */
export function readColours(host: HTMLElement): Colours {
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
  const colours = {
    ...{ background: read("--card"), text: read("--ink"), mutedText: read("--soft"), nextEvent: read("--next") },
    ages: Array.from({ length: ageSteps }, (_, i) => ramp(i / (ageSteps - 1))),
    hits: names("hits", hitClasses.length).map(read),
    owners: names("owner", 7).map(read),
    states: ["--free", "--c1", "--c0", "--idle"].map(read),
    fontFamily: getComputedStyle(probe).fontFamily,
  };
  probe.remove();
  return colours;
}

/** Calls `changed` when the page changes between light and dark, until `signal` is aborted. */
export function onThemeChange(signal: AbortSignal, changed: () => void): void {
  const observer = new MutationObserver(changed);
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed, { signal });
  signal.addEventListener("abort", () => observer.disconnect());
}

/** Index into `ages`; `share`: age / oldest age, 0 to 1. */
export const ageColourIndex = (share: number): number => Math.min(ageSteps - 1, Math.floor(share * ageSteps));

export function hitColourIndex(hits: number): number {
  let at = hitClasses.length - 1;
  while (hits < hitClasses[at]) at--;
  return at;
}

/** Index into `owners`. */
export const ownerColourIndex = (request: number, { owners }: Colours): number => request % owners.length;

/** Black or white, whichever has the higher contrast on `colour`. */
export function textColourOn(colour: string): string {
  const [red, green, blue] = rgbOf(colour).map((value) => (value / 255) ** 2.2);
  return red * 0.2126 + green * 0.7152 + blue * 0.0722 > 0.18 ? "rgb(0, 0, 0)" : "rgb(255, 255, 255)";
}

/** Formats an age: a duration, or a number of events if the log has no clock. */
export type AgeText = (age: number) => string;

export const ageText = (hasClock: boolean): AgeText =>
  hasClock ? (ns) => milliseconds(ns / 1e6) : (events) => `${integer(events)} events`;
