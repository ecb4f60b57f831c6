import { csvText, latexText, markdownText, type TableText } from "../data/table-text.ts";
import { h } from "./dom.ts";
import type { Provenance } from "./provenance.ts";

/** Saves a file that the page has generated. */
export function download(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A file name of lower-case letters, digits and hyphens. */
export const fileName = (title: string, extension: string): string =>
  `${title
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "")}.${extension}`;

/** Saves a table as a file. */
export function downloadTable(title: string, format: TableFormat, table: TableText): void {
  const { extension, type, write } = formats[format];
  download(fileName(title, extension), new Blob([write(table, title)], { type }));
}

const formats = {
  CSV: { extension: "csv", type: "text/csv", write: csvText },
  Markdown: { extension: "md", type: "text/markdown", write: markdownText },
  LaTeX: { extension: "tex", type: "application/x-tex", write: latexText },
} as const;

export type TableFormat = keyof typeof formats;
export const tableFormats = Object.keys(formats) as readonly TableFormat[];

/** Saves a figure with its title above, and its workload and commands below. */
export async function downloadSvg(title: string, svg: SVGSVGElement, provenance?: Provenance): Promise<void> {
  const { text } = standalone(title, svg, provenance);
  download(fileName(title, "svg"), new Blob([text], { type: "image/svg+xml" }));
}

/** The same as it is rendered, at twice its size. */
export async function downloadPng(title: string, svg: SVGSVGElement, provenance?: Provenance): Promise<void> {
  const { text, width, height } = standalone(title, svg, provenance);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = h("canvas", { width: width * 2, height: height * 2 });
  canvas.getContext("2d")?.drawImage(image, 0, 0, width * 2, height * 2);
  canvas.toBlob((blob) => blob && download(fileName(title, "png"), blob), "image/png");
}

const styles = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-opacity",
  "stroke-linejoin",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
  "text-anchor",
  "paint-order",
  "visibility",
  "display",
];

interface Standalone {
  readonly text: string;
  readonly width: number;
  readonly height: number;
}

const headHeight = 34;
const lineHeight = 15;
/** Lines of the commands below a figure; the description of the SVG has all. */
const mostLines = 6;

/** The figure with its computed styles inlined, so that it renders identically without the style sheet. */
function standalone(title: string, svg: SVGSVGElement, provenance: Provenance | undefined): Standalone {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const originals = svg.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((element, i) => {
    const computed = getComputedStyle(originals[i]);
    const text = styles.map((name) => `${name}:${computed.getPropertyValue(name)}`).join(";");
    for (const name of ["class", "fill", "stroke"]) element.removeAttribute(name);
    element.setAttribute("style", text);
  });
  copy.querySelectorAll("style, [data-hover]").forEach((element) => {
    element.remove();
  });
  const { width, height: figureHeight } = svg.getBoundingClientRect();
  const { color, fontFamily } = getComputedStyle(svg);
  const ground = getComputedStyle(svg.closest(".card") ?? document.body).backgroundColor;
  for (const name of ["class", "tabindex"]) copy.removeAttribute(name);
  copy.setAttribute("y", String(headHeight));
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(figureHeight));
  copy.setAttribute("style", `color:${color};font-family:${fontFamily}`);
  const lines = provenance ? linesOf(provenance, Math.floor((width - 24) / 6.1)) : [];
  const height = headHeight + figureHeight + (lines.length > 0 ? 14 : 0) + lines.length * lineHeight;
  const texts = lines.map((line, i) =>
    svgElement(
      "text",
      { x: 12, y: headHeight + figureHeight + (i + 1) * lineHeight, "font-size": 10, fill: color, opacity: 0.8 },
      line,
    ),
  );
  const whole = svgElement(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": fontFamily, style: `background:${ground}` },
    svgElement("title", {}, title),
    svgElement("desc", {}, provenance ? [provenance.workload, ...provenance.commands].join("\n") : title),
    svgElement("rect", { width: "100%", height: "100%", fill: ground }),
    svgElement("text", { x: 12, y: 23, "font-size": 16, "font-weight": 600, fill: color }, title),
    copy,
    ...texts,
  );
  return { text: new XMLSerializer().serializeToString(whole), width, height };
}

/** The workload and the commands in lines of so many characters. */
function linesOf({ workload, commands, left }: Provenance, length: number): string[] {
  const wrapped = commands.map((command) => wrap(command, length));
  const shown: string[][] = [];
  for (const lines of wrapped)
    if (shown.flat().length + lines.length <= mostLines || shown.length === 0) shown.push(lines);
  const rest = commands.length + left - shown.length;
  return [...wrap(workload, length), ...shown.flat(), ...(rest > 0 ? [`… and ${rest} more commands`] : [])];
}

function wrap(text: string, length: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= length) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** Creates an SVG element. */
function svgElement(
  tag: string,
  props: Readonly<Record<string, string | number>>,
  ...children: readonly (Node | string)[]
): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}
