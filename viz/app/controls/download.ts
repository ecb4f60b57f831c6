import { csvText, latexText, markdownText, type TableText } from "../data/table-text.ts";
import { h } from "./dom.ts";

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

export const downloadSvg = (title: string, svg: SVGSVGElement): void =>
  download(fileName(title, "svg"), new Blob([standalone(svg)], { type: "image/svg+xml" }));

/** The SVG as it is rendered, at twice its size. */
export async function downloadPng(title: string, svg: SVGSVGElement): Promise<void> {
  const { width, height } = svg.getBoundingClientRect();
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(svg))}`;
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

/** The SVG with the computed styles inlined, so that it renders identically without the style sheet. */
function standalone(svg: SVGSVGElement): string {
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
  const { width, height } = svg.getBoundingClientRect();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  const { color, fontFamily } = getComputedStyle(svg);
  const ground = getComputedStyle(svg.closest(".card") ?? document.body).backgroundColor;
  copy.setAttribute("style", `background:${ground};color:${color};font-family:${fontFamily}`);
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  rect.setAttribute("width", "100%");
  rect.setAttribute("height", "100%");
  rect.setAttribute("fill", ground);
  copy.prepend(rect);
  return new XMLSerializer().serializeToString(copy);
}
