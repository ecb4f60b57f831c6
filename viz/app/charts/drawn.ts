import { h } from "../controls/dom.ts";
import { type Figure, figure, onWidth } from "./figure.ts";
import { onColours, readShades, type Shades } from "./shades.ts";
import { CanvasSurface, type Surface, SvgSurface } from "./surface.ts";

export interface DrawnOptions {
  readonly title: string;
  /** Pixels. */
  readonly height: number;
  /** Draws all of it. */
  draw(surface: Surface, width: number, shades: Shades): void;
  /** What there is at a place, in lines. */
  wordsAt(x: number, y: number): readonly string[] | undefined;
}

/** A figure on a canvas that the pointer and the keyboard can read. */
export class Drawn {
  readonly figure: Figure;
  /** What takes the pointer and the keys. */
  readonly host: HTMLElement;
  readonly #options: DrawnOptions;
  readonly #canvas = h("canvas");
  readonly #reading = h("div", { class: "reading", "aria-hidden": "true", hidden: true });
  #shades: Shades | undefined;
  #width = 0;
  /** Where the pointer is. */
  #pointer: readonly [x: number, y: number] | undefined;

  constructor(options: DrawnOptions, left: AbortSignal) {
    this.#options = options;
    this.figure = figure(options.title, () => this.#svg());
    this.host = h("div", { class: "drawn", role: "img", tabindex: 0 }, this.#canvas, this.#reading);
    this.host.style.height = this.#canvas.style.height = `${options.height}px`;
    this.figure.body.append(this.host);
    this.host.addEventListener("pointermove", ({ clientX, clientY }) => {
      const box = this.host.getBoundingClientRect();
      this.#pointAt([clientX - box.left, clientY - box.top]);
    });
    this.host.addEventListener("pointerleave", () => this.#pointAt(undefined));
    this.host.addEventListener("blur", () => this.#pointAt(undefined));
    onWidth(this.figure.body, left, (width) => {
      this.#width = width;
      this.redraw();
    });
    onColours(left, () => {
      this.#shades = undefined;
      this.redraw();
    });
  }

  redraw(): void {
    if (this.#width === 0) return;
    this.#shades ??= readShades(this.host);
    const { height, draw } = this.#options;
    draw(new CanvasSurface(this.#canvas, this.#width, height, this.#shades.family), this.#width, this.#shades);
    this.#pointAt(this.#pointer);
  }

  #pointAt(pointer: readonly [x: number, y: number] | undefined): void {
    this.#pointer = pointer;
    if (pointer) this.read(this.#options.wordsAt(...pointer), ...pointer);
    else this.read(undefined);
  }

  /** Says something beside a place; nothing, if there is nothing to say. */
  read(lines: readonly string[] | undefined, x = 0, y = 0): void {
    this.#reading.hidden = lines === undefined;
    if (!lines) return;
    this.#reading.replaceChildren(...lines.map((line) => h("div", {}, line)));
    const { offsetWidth, offsetHeight } = this.#reading;
    const isRight = x + 16 + offsetWidth <= this.#width;
    const at = [isRight ? x + 16 : Math.max(0, x - 16 - offsetWidth), Math.max(-60, y - offsetHeight - 12)];
    this.#reading.style.transform = `translate(${at[0]}px, ${at[1]}px)`;
  }

  #svg(): SVGSVGElement {
    const surface = new SvgSurface(this.#width, this.#options.height);
    this.#options.draw(surface, this.#width, this.#shades ?? readShades(this.host));
    return surface.svg;
  }
}
