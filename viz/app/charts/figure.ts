import { h } from "../controls/dom.ts";
import { downloadPng, downloadSvg } from "../controls/export.ts";

/** A titled figure whose drawing can be taken along as SVG and PNG. */
export interface Figure {
  readonly element: HTMLElement;
  /** Where it is drawn. */
  readonly body: HTMLElement;
  /** Beside the title, for what can be chosen. */
  readonly tools: HTMLElement;
  /** Below, what it says or what is missing. */
  note(text: string): void;
}

/** `drawn`: what goes into files, if there is no SVG on the page. */
export function figure(title: string, drawn?: () => SVGSVGElement): Figure {
  const body = h("div", { class: "drawing" });
  const tools = h("div", { class: "tools" });
  const note = h("p", { class: "note", hidden: true });
  const take = (act: (title: string, svg: SVGSVGElement) => void) => () => {
    const made = drawn?.();
    if (made) body.append(made);
    const svg = made ?? body.querySelector("svg");
    if (svg) act(title, svg);
    made?.remove();
  };
  const exports = h(
    "div",
    { class: "exports" },
    h("button", { type: "button", "aria-label": `${title}: save as SVG`, click: take(downloadSvg) }, "SVG"),
    h("button", { type: "button", "aria-label": `${title}: save as PNG`, click: take(downloadPng) }, "PNG"),
  );
  const head = h("figcaption", {}, h("h2", {}, title), tools, exports);
  return {
    element: h("figure", { class: "card" }, head, body, note),
    body,
    tools,
    note: (text) => {
      note.textContent = text;
      note.hidden = text === "";
    },
  };
}

/** Draws again whenever the width changes, until the view is left. */
export function onWidth(host: HTMLElement, left: AbortSignal, draw: (width: number) => void): void {
  let last = 0;
  const observer = new ResizeObserver(() => {
    const width = Math.round(host.clientWidth);
    if (width === 0 || width === last) return;
    last = width;
    draw(width);
  });
  observer.observe(host);
  left.addEventListener("abort", () => observer.disconnect());
}
