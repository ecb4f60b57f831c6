import { scaleLinear } from "d3-scale";
import { escaped, framed } from "../traces/plots/chart.ts";

/** A bar with its value as a text. */
export interface Bar {
  readonly label: string;
  readonly value: number;
  readonly text: string;
}

const width = 760;
const [top, right, rowHeight] = [64, 84, 28];
const mostLetters = 44;

const shortened = (label: string) => (label.length > mostLetters ? `${label.slice(0, mostLetters - 1)}…` : label);

/** Horizontal bars from 0 as an SVG document, in the style of the other charts. */
export function barsSvg(title: string, subtitle: string, bars: readonly Bar[]): string {
  const longest = Math.max(...bars.map(({ label }) => shortened(label).length));
  const left = 32 + longest * 7.4;
  const most = Math.max(...bars.map(({ value }) => value), Number.MIN_VALUE);
  const across = scaleLinear([0, most], [left, width - right]);
  const rows = bars.map(({ label, value, text }, i) => {
    const [y, end] = [top + i * rowHeight, Math.round(across(value) * 10) / 10];
    return (
      `<text x="${left - 8}" y="${y + 15}" text-anchor="end">${escaped(shortened(label))}</text>` +
      `<rect class="f0" x="${left}" y="${y}" width="${end - left}" height="20" rx="3"/>` +
      `<text x="${end + 6}" y="${y + 15}">${escaped(text)}</text>`
    );
  });
  const height = top + bars.length * rowHeight + 12;
  return framed({ width, height, left: 32, title, subtitle }, rows);
}
