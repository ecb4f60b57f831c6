import { h } from "../controls/dom.ts";
import { type Colours, onThemeChange, readColours } from "./block-colours.ts";
import { CanvasSurface, type Surface, SvgSurface } from "./drawing-surface.ts";
import { type Figure, figure, onWidth } from "./figure.ts";

export interface CanvasFigureOptions {
  readonly title: string;
  /** Pixels. */
  readonly height: number;
  /** Draws the whole figure. */
  draw(surface: Surface, width: number, colours: Colours): void;
  /** Tooltip at a position, as lines; undefined: none. */
  textAt(x: number, y: number): readonly string[] | undefined;
}

/** A figure drawn on a canvas, with a tooltip for pointer and keyboard; saved as SVG by drawing it again. */
export class CanvasFigure {
  readonly card: Figure;
  /** Receives pointer and key events. */
  readonly host: HTMLElement;
  readonly #options: CanvasFigureOptions;
  readonly #canvas = h("canvas");
  readonly #tooltip = h("div", { class: "canvas-tooltip", "aria-hidden": "true", hidden: true });
  #colours: Colours | undefined;
  #width = 0;
  /** Position of the pointer; undefined: outside. */
  #pointer: readonly [x: number, y: number] | undefined;

  constructor(options: CanvasFigureOptions, signal: AbortSignal) {
    this.#options = options;
    this.card = figure(options.title, () => this.#svg());
    this.host = h("div", { class: "canvas-figure", role: "img", tabindex: 0 }, this.#canvas, this.#tooltip);
    this.host.style.height = this.#canvas.style.height = `${options.height}px`;
    this.card.body.append(this.host);
    this.host.addEventListener("pointermove", ({ clientX, clientY }) => {
      const box = this.host.getBoundingClientRect();
      this.#pointAt([clientX - box.left, clientY - box.top]);
    });
    this.host.addEventListener("pointerleave", () => this.#pointAt(undefined));
    this.host.addEventListener("blur", () => this.#pointAt(undefined));
    onWidth(this.card.body, signal, (width) => {
      this.#width = width;
      this.redraw();
    });
    onThemeChange(signal, () => {
      this.#colours = undefined;
      this.redraw();
    });
  }

  redraw(): void {
    if (this.#width === 0) return;
    this.#colours ??= readColours(this.host);
    const { height, draw } = this.#options;
    draw(new CanvasSurface(this.#canvas, this.#width, height, this.#colours.fontFamily), this.#width, this.#colours);
    this.#pointAt(this.#pointer);
  }

  #pointAt(pointer: readonly [x: number, y: number] | undefined): void {
    this.#pointer = pointer;
    if (pointer) this.showTooltip(this.#options.textAt(...pointer), ...pointer);
    else this.showTooltip(undefined);
  }

  /** Shows a tooltip beside a position; `undefined` hides it. */
  showTooltip(lines: readonly string[] | undefined, x = 0, y = 0): void {
    this.#tooltip.hidden = lines === undefined;
    if (!lines) return;
    this.#tooltip.replaceChildren(...lines.map((line) => h("div", {}, line)));
    const { offsetWidth, offsetHeight } = this.#tooltip;
    const isRight = x + 16 + offsetWidth <= this.#width;
    const at = [isRight ? x + 16 : Math.max(0, x - 16 - offsetWidth), Math.max(-60, y - offsetHeight - 12)];
    this.#tooltip.style.transform = `translate(${at[0]}px, ${at[1]}px)`;
  }

  #svg(): SVGSVGElement {
    const surface = new SvgSurface(this.#width, this.#options.height);
    this.#options.draw(surface, this.#width, this.#colours ?? readColours(this.host));
    return surface.svg;
  }
}
