import type { BlockMap } from "../../api.ts";
import { announce } from "../controls/dom.ts";
import { blockStatesNote, integer } from "../data/format.ts";
import {
  type AgeText,
  ageColourIndex,
  blockStates,
  type ColourMode,
  type Colours,
  hitColourIndex,
  ownerColourIndex,
} from "./block-colours.ts";
import { CanvasFigure } from "./canvas-figure.ts";
import type { Surface } from "./drawing-surface.ts";
import { colourLegend, drawLegend, legendHeight, nextEventLegend } from "./legend.ts";

const height = 372;
/** Byte of the oldest age, and of the largest hit count. */
const maxByte = 255;
/** Margin around the cells, pixels: the outline of a cell at the border fits. */
const margin = 5;

/** The columns of a block map, decoded on first use. */
class Cells {
  readonly map: BlockMap;
  #life?: Uint8Array;
  #age?: Uint8Array;
  #hits?: Uint8Array;
  #owner?: DataView;

  constructor(map: BlockMap) {
    this.map = map;
  }

  get life(): Uint8Array {
    return (this.#life ??= bytesOf(this.map.life));
  }
  get age(): Uint8Array {
    return (this.#age ??= bytesOf(this.map.age));
  }
  get hits(): Uint8Array {
    return (this.#hits ??= bytesOf(this.map.hits));
  }
  owner(cell: number): number {
    this.#owner ??= new DataView(bytesOf(this.map.owner).buffer);
    return this.#owner.getInt32(cell * 4, true);
  }
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** The block map: a cell per physical block, in the order of block numbers. */
export class BlockMapFigure {
  readonly element: HTMLElement;
  readonly #figure: CanvasFigure;
  readonly #title: string;
  readonly #ages: AgeText;
  #cells: Cells | undefined;
  #colourMode: ColourMode = "age";
  #next = -1;
  #grid = { columns: 1, size: 1, gap: 0 };
  #at = 0;

  constructor(title: string, ages: AgeText, signal: AbortSignal) {
    this.#title = title;
    this.#ages = ages;
    const draw = (surface: Surface, width: number, colours: Colours) => this.#draw(surface, width, colours);
    this.#figure = new CanvasFigure({ title, height, draw, textAt: (x, y) => this.#textAt(x, y) }, signal);
    this.element = this.#figure.card.element;
    this.#figure.host.addEventListener("keydown", (event) => this.#key(event));
  }

  /** `next`: the block of the next event, outlined; −1: none. */
  show(map: BlockMap, next: number, colourMode: ColourMode): void {
    this.#cells = new Cells(map);
    this.#next = next;
    this.#colourMode = colourMode;
    const { cells, blocksPerCell } = map;
    const perCell = blocksPerCell > 1 ? `, ${blocksPerCell} blocks per cell` : "";
    this.#figure.host.setAttribute(
      "aria-label",
      `${this.#title}: ${integer(cells * blocksPerCell)}${perCell}. Arrow keys read the cells.`,
    );
    this.#figure.card.note(
      blocksPerCell > 1 ? `A cell is ${blocksPerCell} adjacent blocks. ${blockStatesNote}` : blockStatesNote,
    );
    this.#figure.redraw();
  }

  #draw(surface: Surface, width: number, colours: Colours): void {
    const cells = this.#cells;
    if (!cells) return;
    const { map } = cells;
    this.#grid = gridOf(map.cells, width - 2 * margin, height - legendHeight(width) - 2 * margin);
    const { columns, size, gap } = this.#grid;
    const { palette, indices } = this.#cellColours(cells, colours);
    surface.cells(margin, margin, { columns, size, gap, colours: indices, palette, background: colours.background });
    if (this.#next >= 0) this.#frameNext(surface, colours);
    const legend = colourLegend(this.#colourMode, colours, this.#ages(map.oldestNs), blockStates);
    drawLegend(surface, height - legendHeight(width), width, [...legend, nextEventLegend(colours)], colours);
  }

  /** A palette and an index into it per cell; free blocks are index 0 in every colour mode. */
  #cellColours(cells: Cells, colours: Colours): { readonly palette: readonly string[]; readonly indices: Uint8Array } {
    const free = colours.states[0];
    if (this.#colourMode === "life") return { palette: colours.states, indices: cells.life };
    const { ages, hits, owners } = colours;
    const indices = new Uint8Array(cells.map.cells);
    const { life } = cells;
    const colourIndexOf: (cell: number) => number =
      this.#colourMode === "age"
        ? (cell) => ageColourIndex(cells.age[cell] / maxByte)
        : this.#colourMode === "hits"
          ? (cell) => hitColourIndex(cells.hits[cell])
          : (cell) => (cells.owner(cell) < 0 ? -1 : ownerColourIndex(cells.owner(cell), colours));
    for (let cell = 0; cell < indices.length; cell++) if (life[cell] > 0) indices[cell] = 1 + colourIndexOf(cell);
    return { palette: [free, ...{ age: ages, hits, owner: owners }[this.#colourMode]], indices };
  }

  #frameNext(surface: Surface, { background, nextEvent }: Colours): void {
    const { columns, size, gap } = this.#grid;
    const cell = Math.floor(this.#next / this.#cells!.map.blocksPerCell);
    const width = Math.max(10, size + 5);
    const x = margin + (cell % columns) * size + (size - gap - width) / 2;
    const y = margin + Math.floor(cell / columns) * size + (size - gap - width) / 2;
    surface.frame(x - 1.5, y - 1.5, width + 3, width + 3, background, 4);
    surface.frame(x, y, width, width, nextEvent, 2.5);
  }

  #textAt(x: number, y: number): string[] | undefined {
    const { columns, size } = this.#grid;
    const [column, row] = [Math.floor((x - margin) / size), Math.floor((y - margin) / size)];
    const cell = row * columns + column;
    if (column < 0 || column >= columns || row < 0 || cell >= (this.#cells?.map.cells ?? 0)) return undefined;
    this.#at = cell;
    return this.#describe(cell);
  }

  #key(event: KeyboardEvent): void {
    const { columns, size } = this.#grid;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (step === undefined || event.shiftKey || event.ctrlKey || event.altKey || event.metaKey || !this.#cells) return;
    event.preventDefault();
    event.stopPropagation();
    this.#at = Math.max(0, Math.min(this.#cells.map.cells - 1, this.#at + step));
    const lines = this.#describe(this.#at);
    const [column, row] = [this.#at % columns, Math.floor(this.#at / columns)];
    this.#figure.showTooltip(lines, margin + (column + 1) * size, margin + row * size);
    announce(lines.join(", "));
  }

  #describe(cell: number): string[] {
    const cells = this.#cells!;
    const { blocksPerCell, oldestNs } = cells.map;
    const first = cell * blocksPerCell;
    const name = blocksPerCell > 1 ? `blocks ${first} to ${first + blocksPerCell - 1}` : `block ${first}`;
    const life = cells.life[cell];
    if (blockStates[life] === "free") return [name, "free"];
    const owner = cells.owner(cell);
    const hits = cells.hits[cell];
    const isIdle = blockStates[life] === "cached, idle";
    const ownerText = owner < 0 ? [] : [`${isIdle ? "cached by" : "owned by"} request #${owner}`];
    const lastUse = isIdle ? `last used about ${this.#ages((cells.age[cell] / maxByte) * oldestNs)} ago` : "in use now";
    return [name, blockStates[life], ...ownerText, `${hits}${hits === maxByte ? " or more" : ""} hits, ${lastUse}`];
  }
}

/** The largest square cells that fit, up to 16 pixels, with the gap that is part of `size`. */
function gridOf(cells: number, width: number, height: number) {
  const fits = (size: number) => Math.ceil(cells / Math.floor(width / size)) * size <= height;
  let size = 16;
  while (size > 1 && !fits(size)) size -= size > 4 ? 1 : 0.25;
  return { columns: Math.max(1, Math.floor(width / size)), size, gap: size >= 4 ? 1 : 0 };
}
