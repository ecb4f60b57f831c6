import { h } from "../controls/dom.ts";
import { downloadPng, downloadSvg } from "../controls/download.ts";
import { provenanceOf } from "../controls/provenance.ts";

/** A titled card with a drawing that can be saved as SVG and PNG. */
export interface Figure {
  readonly element: HTMLElement;
  /** Parent of the drawing. */
  readonly body: HTMLElement;
  /** Controls beside the title. */
  readonly tools: HTMLElement;
  /** Sets the text below the drawing; "" hides it. */
  note(text: string): void;
  /** Replaces the title. */
  setTitle(title: string): void;
}

/** `toSvg`: creates the SVG to save, for a drawing that is not one SVG on the page; undefined: it is one. */
export function figure(initialTitle: string, toSvg?: () => SVGSVGElement | undefined): Figure {
  let title = initialTitle;
  const heading = h("h2", {}, title);
  const body = h("div", { class: "drawing" });
  const tools = h("div", { class: "tools" });
  const note = h("p", { class: "note", hidden: true });
  const save = (download: typeof downloadSvg) => async () => {
    const provenance = await provenanceOf(body);
    const created = toSvg?.();
    if (created) body.append(created);
    const svg = created ?? body.querySelector("svg");
    if (svg) await download(title, svg, provenance);
    created?.remove();
  };
  const exports = h(
    "div",
    { class: "exports" },
    h("button", { type: "button", "aria-label": `${title}: save as SVG`, click: save(downloadSvg) }, "SVG"),
    h("button", { type: "button", "aria-label": `${title}: save as PNG`, click: save(downloadPng) }, "PNG"),
  );
  const head = h("figcaption", {}, heading, tools, exports);
  return {
    element: h("figure", { class: "card" }, head, body, note),
    body,
    tools,
    note: (text) => {
      note.textContent = text;
      note.hidden = text === "";
    },
    setTitle: (text) => {
      title = text;
      heading.textContent = text;
    },
  };
}

/** Calls `draw` with the width of `host` now and whenever it changes, until `signal` is aborted. */
export function onWidth(host: HTMLElement, signal: AbortSignal, draw: (width: number) => void): void {
  let last = 0;
  const observer = new ResizeObserver(() => {
    const width = Math.round(host.clientWidth);
    if (width === 0 || width === last) return;
    last = width;
    draw(width);
  });
  observer.observe(host);
  signal.addEventListener("abort", () => observer.disconnect());
}
