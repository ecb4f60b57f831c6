import type { BlockMap } from "../../api.ts";
import { announce } from "../controls/dom.ts";
import { integer } from "../controls/format.ts";
import { Drawn } from "./drawn.ts";
import {
  type AgeText,
  ageStep,
  type Colouring,
  colourItems,
  drawLegend,
  hitClass,
  legendHeight,
  lives,
  livesMeaning,
  nextItem,
  ownerTurn,
  type Shades,
} from "./shades.ts";
import type { Surface } from "./surface.ts";

const height = 372;
const longest = 255;
/** Around the cells: room for the frame of one at the edge. */
const edge = 5;

/** The bytes of a map, each read when it is first needed. */
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

/** A cell for each block, in the order of their numbers. */
export class BlockFigure {
  readonly element: HTMLElement;
  readonly #drawn: Drawn;
  readonly #title: string;
  readonly #ages: AgeText;
  #cells: Cells | undefined;
  #colouring: Colouring = "age";
  #next = -1;
  #grid = { columns: 1, size: 1, gap: 0 };
  #at = 0;

  constructor(title: string, ages: AgeText, left: AbortSignal) {
    this.#title = title;
    this.#ages = ages;
    const draw = (surface: Surface, width: number, shades: Shades) => this.#draw(surface, width, shades);
    this.#drawn = new Drawn({ title, height, draw, wordsAt: (x, y) => this.#wordsAt(x, y) }, left);
    this.element = this.#drawn.figure.element;
    this.#drawn.host.addEventListener("keydown", (event) => this.#key(event));
  }

  /** `next`: the block of the next event; −1: none. */
  show(map: BlockMap, next: number, colouring: Colouring): void {
    this.#cells = new Cells(map);
    this.#next = next;
    this.#colouring = colouring;
    const { cells, blocksPerCell } = map;
    const each = blocksPerCell > 1 ? `, ${blocksPerCell} of them a cell` : "";
    this.#drawn.host.setAttribute(
      "aria-label",
      `${this.#title}: ${integer(cells * blocksPerCell)}${each}. Arrow keys read them.`,
    );
    this.#drawn.figure.note(blocksPerCell > 1 ? `${blocksPerCell} neighbouring blocks are a cell.` : "");
    this.#drawn.redraw();
  }

  #draw(surface: Surface, width: number, shades: Shades): void {
    const cells = this.#cells;
    if (!cells) return;
    const { map } = cells;
    this.#grid = gridOf(map.cells, width - 2 * edge, height - legendHeight(width) - 2 * edge);
    const { columns, size, gap } = this.#grid;
    const { palette, colours } = this.#colours(cells, shades);
    surface.cells(edge, edge, { columns, size, gap, colours, palette, ground: shades.ground });
    if (this.#next >= 0) this.#frameNext(surface, shades);
    const meaning = colourItems(this.#colouring, shades, this.#ages(map.oldestNs), lives);
    drawLegend(surface, height - legendHeight(width), width, [...meaning, nextItem(shades)], shades);
  }

  /** Free ones have a colour of their own, whatever the others say. */
  #colours(cells: Cells, shades: Shades): { readonly palette: readonly string[]; readonly colours: Uint8Array } {
    const free = shades.lives[0];
    if (this.#colouring === "life") return { palette: shades.lives, colours: cells.life };
    const { ages, hits, owners } = shades;
    const colours = new Uint8Array(cells.map.cells);
    const { life } = cells;
    const shadeOf: (cell: number) => number =
      this.#colouring === "age"
        ? (cell) => ageStep(cells.age[cell] / longest)
        : this.#colouring === "hits"
          ? (cell) => hitClass(cells.hits[cell])
          : (cell) => (cells.owner(cell) < 0 ? -1 : ownerTurn(cells.owner(cell), shades));
    for (let cell = 0; cell < colours.length; cell++) if (life[cell] > 0) colours[cell] = 1 + shadeOf(cell);
    return { palette: [free, ...{ age: ages, hits, owner: owners }[this.#colouring]], colours };
  }

  #frameNext(surface: Surface, { ground, next }: Shades): void {
    const { columns, size, gap } = this.#grid;
    const cell = Math.floor(this.#next / this.#cells!.map.blocksPerCell);
    const wide = Math.max(10, size + 5);
    const x = edge + (cell % columns) * size + (size - gap - wide) / 2;
    const y = edge + Math.floor(cell / columns) * size + (size - gap - wide) / 2;
    surface.frame(x - 1.5, y - 1.5, wide + 3, wide + 3, ground, 4);
    surface.frame(x, y, wide, wide, next, 2.5);
  }

  #wordsAt(x: number, y: number): string[] | undefined {
    const { columns, size } = this.#grid;
    const [column, row] = [Math.floor((x - edge) / size), Math.floor((y - edge) / size)];
    const cell = row * columns + column;
    if (column < 0 || column >= columns || row < 0 || cell >= (this.#cells?.map.cells ?? 0)) return undefined;
    this.#at = cell;
    return this.#words(cell);
  }

  #key(event: KeyboardEvent): void {
    const { columns, size } = this.#grid;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (step === undefined || event.shiftKey || event.ctrlKey || event.altKey || event.metaKey || !this.#cells) return;
    event.preventDefault();
    event.stopPropagation();
    this.#at = Math.max(0, Math.min(this.#cells.map.cells - 1, this.#at + step));
    const words = this.#words(this.#at);
    const [column, row] = [this.#at % columns, Math.floor(this.#at / columns)];
    this.#drawn.read(words, edge + (column + 1) * size, edge + row * size);
    announce(words.join(", "));
  }

  #words(cell: number): string[] {
    const cells = this.#cells!;
    const { blocksPerCell, oldestNs } = cells.map;
    const first = cell * blocksPerCell;
    const name = blocksPerCell > 1 ? `blocks ${first} to ${first + blocksPerCell - 1}` : `block ${first}`;
    const life = cells.life[cell];
    if (lives[life] === "free") return [name, "free"];
    const owner = cells.owner(cell);
    const hits = cells.hits[cell];
    const isIdle = lives[life] === "idle";
    const whose = owner < 0 ? [] : [`${isIdle ? "cached by" : "of"} request #${owner}`];
    const used = isIdle ? `last used about ${this.#ages((cells.age[cell] / longest) * oldestNs)} ago` : "in use now";
    return [name, livesMeaning[life], ...whose, `found ${hits}${hits === longest ? " or more" : ""} times, ${used}`];
  }
}

/** Squares as large as fit, up to 16 pixels, and what of them is gap. */
function gridOf(cells: number, width: number, high: number) {
  const fits = (size: number) => Math.ceil(cells / Math.floor(width / size)) * size <= high;
  let size = 16;
  while (size > 1 && !fits(size)) size -= size > 4 ? 1 : 0.25;
  return { columns: Math.max(1, Math.floor(width / size)), size, gap: size >= 4 ? 1 : 0 };
}
