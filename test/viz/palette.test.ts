import { readFileSync } from "node:fs";
import {
  type Color,
  converter,
  differenceCiede2000,
  filterDeficiencyDeuter,
  filterDeficiencyProt,
  parse,
  wcagContrast,
} from "culori";
import { describe, expect, test } from "vitest";
import { dashes, seriesStyles } from "../../viz/app/data/series-style.ts";

const css = readFileSync("viz/app/style.css", "utf8");
const rgb = converter("rgb");
const difference = differenceCiede2000();
const vision: Readonly<Record<string, (colour: Color) => Color>> = {
  "full colour vision": (colour) => colour,
  protanopia: filterDeficiencyProt(1),
  deuteranopia: filterDeficiencyDeuter(1),
};

/** The values of a variable in both themes. */
function themes(name: string): string[] {
  const [, light, dark] = new RegExp(`--${name}: light-dark\\((#\\w{6}), (#\\w{6})\\)`).exec(css)!;
  return [light, dark];
}

describe.each([
  ["light", 0],
  ["dark", 1],
] as const)("the colours of series, %s theme", (_, theme) => {
  const colours = Array.from({ length: 8 }, (_, i) => themes(`c${i}`)[theme]);

  test.each(Object.keys(vision))("differ from each other with %s", (name) => {
    const seen = colours.map((colour) => vision[name](rgb(parse(colour)!)));
    const pairs = seen.flatMap((a, i) => seen.slice(0, i).map((b) => difference(a, b)));
    expect(Math.min(...pairs)).toBeGreaterThan(15);
  });

  test("have a contrast of 3 to the card that they are drawn on", () => {
    const card = themes("card")[theme];
    for (const colour of colours) expect(wcagContrast(colour, card)).toBeGreaterThan(3);
  });
});

test("a policy has one colour, and its labels differ by dash and marker; 24 series are all different", () => {
  const labels = ["lru", "fifo"].flatMap((policy) =>
    ["a", "b", "c"].map((rule) => [`${policy} ${rule}`, policy] as const),
  );
  const styles = seriesStyles(labels);
  expect(labels.map(([label]) => styles.get(label)!.colour)).toEqual([..."000111"].map((i) => `var(--c${i})`));
  expect(labels.map(([label]) => styles.get(label)!.variant)).toEqual([0, 1, 2, 0, 1, 2]);
  const many = seriesStyles(Array.from({ length: 24 }, (_, i) => [`label ${i}`, `policy ${i}`]));
  expect(new Set([...many.values()].map(({ colour, variant }) => `${colour} ${dashes[variant]}`)).size).toBe(24);
  const single = seriesStyles([
    ["seed 1", "lru"],
    ["seed 2", "lru"],
  ]);
  expect(single.get("seed 2")).toEqual({ colour: "var(--c1)", variant: 0 });
});
