/** Drawing target of figures with many shapes: a canvas on the page, SVG for a file. Colours are `rgb(…)`. */
export interface Surface {
  rect(x: number, y: number, width: number, height: number, colour: string): void;
  /** The outline of a rectangle, drawn inside it. */
  frame(x: number, y: number, width: number, height: number, colour: string, thick: number): void;
  /** One line of text that starts or ends at x, vertically centred at y. */
  text(x: number, y: number, text: string, colour: string, anchor?: "start" | "end"): void;
  /** A grid of square cells, row by row. */
  cells(x: number, y: number, grid: Grid): void;
}

export interface Grid {
  readonly columns: number;
  /** Of a cell including its gap, pixels. */
  readonly size: number;
  readonly gap: number;
  /** Index into `palette` per cell. */
  readonly colours: Uint8Array;
  readonly palette: readonly string[];
  readonly background: string;
}

const fontSize = 12;

export class CanvasSurface implements Surface {
  readonly #context: CanvasRenderingContext2D;
  readonly #family: string;

  /** Clears the canvas; `width` and `height` in CSS pixels. */
  constructor(canvas: HTMLCanvasElement, width: number, height: number, family: string) {
    const ratio = devicePixelRatio;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== w) canvas.width = w;
    if (canvas.height !== h) canvas.height = h;
    this.#context = canvas.getContext("2d")!;
    this.#context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#context.clearRect(0, 0, width, height);
    this.#family = family;
  }

  rect(x: number, y: number, width: number, height: number, colour: string): void {
    this.#context.fillStyle = colour;
    this.#context.fillRect(x, y, width, height);
  }

  frame(x: number, y: number, width: number, height: number, colour: string, thick: number): void {
    this.#context.strokeStyle = colour;
    this.#context.lineWidth = thick;
    this.#context.strokeRect(x + thick / 2, y + thick / 2, width - thick, height - thick);
  }

  text(x: number, y: number, text: string, colour: string, anchor: "start" | "end" = "start"): void {
    this.#context.font = `${fontSize}px ${this.#family}`;
    this.#context.textBaseline = "middle";
    this.#context.textAlign = anchor;
    this.#context.fillStyle = colour;
    this.#context.fillText(text, x, y);
  }

  /** Draws a pixel per cell into an image and scales it: tens of thousands of cells fit in a frame. */
  cells(x: number, y: number, { columns, size, gap, colours, palette, background }: Grid): void {
    const rows = Math.ceil(colours.length / columns);
    if (rows === 0) return;
    const image = new ImageData(columns, rows);
    const pixels = new Uint32Array(image.data.buffer);
    const values = palette.map(pixelOf);
    for (let i = 0; i < colours.length; i++) pixels[i] = values[colours[i]];
    const small = new OffscreenCanvas(columns, rows);
    small.getContext("2d")!.putImageData(image, 0, 0);
    this.#context.imageSmoothingEnabled = false;
    this.#context.drawImage(small, x, y, columns * size, rows * size);
    if (gap === 0) return;
    this.#context.fillStyle = background;
    for (let column = 1; column <= columns; column++)
      this.#context.fillRect(x + column * size - gap, y, gap, rows * size);
    for (let row = 1; row <= rows; row++) this.#context.fillRect(x, y + row * size - gap, columns * size, gap);
  }
}

let ruler: OffscreenCanvasRenderingContext2D | undefined;

/** Width of a text, pixels. */
export function textWidth(text: string, family: string): number {
  ruler ??= new OffscreenCanvas(1, 1).getContext("2d")!;
  ruler.font = `${fontSize}px ${family}`;
  return ruler.measureText(text).width;
}

/** Red, green and blue of `rgb(…)`, 0 to 255. */
export const rgbOf = (colour: string): readonly number[] => (colour.match(/[\d.]+/g) ?? ["0", "0", "0"]).map(Number);

/** An opaque pixel of ImageData, little-endian. */
function pixelOf(colour: string): number {
  const [red, green, blue] = rgbOf(colour);
  return (red | (green << 8) | (blue << 16) | (255 << 24)) >>> 0;
}

const space = "http://www.w3.org/2000/svg";

export class SvgSurface implements Surface {
  readonly svg = document.createElementNS(space, "svg");

  constructor(width: number, height: number) {
    this.#set(this.svg, { width, height, viewBox: `0 0 ${width} ${height}`, "font-size": fontSize });
  }

  rect(x: number, y: number, width: number, height: number, colour: string): void {
    this.#add("rect", { x, y, width, height, fill: colour });
  }

  frame(x: number, y: number, width: number, height: number, colour: string, thick: number): void {
    const half = thick / 2;
    const place = { x: x + half, y: y + half, width: width - thick, height: height - thick };
    this.#add("rect", { ...place, fill: "none", stroke: colour, "stroke-width": thick });
  }

  text(x: number, y: number, text: string, colour: string, anchor: "start" | "end" = "start"): void {
    this.#add("text", { x, y: y + fontSize * 0.35, fill: colour, "text-anchor": anchor }).textContent = text;
  }

  /** Without a gap, adjacent cells of one colour are one rectangle. */
  cells(x: number, y: number, { columns, size, gap, colours, palette }: Grid): void {
    for (let first = 0; first < colours.length; ) {
      let end = first + 1;
      while (gap === 0 && end < colours.length && end % columns !== 0 && colours[end] === colours[first]) end++;
      const [row, column] = [Math.floor(first / columns), first % columns];
      this.rect(x + column * size, y + row * size, (end - first) * size - gap, size - gap, palette[colours[first]]);
      first = end;
    }
  }

  #add(name: "rect" | "text", attributes: Readonly<Record<string, string | number>>): SVGElement {
    const element = document.createElementNS(space, name);
    this.#set(element, attributes);
    this.svg.append(element);
    return element;
  }

  #set(element: SVGElement, attributes: Readonly<Record<string, string | number>>): void {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  }
}
