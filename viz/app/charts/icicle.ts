import type { TreeData } from "../../api.ts";
import { announce, h } from "../controls/dom.ts";
import { approximate, integer } from "../controls/format.ts";
import { Drawn } from "./drawn.ts";
import {
  type AgeText,
  ageStep,
  type Colouring,
  colourItems,
  drawLegend,
  hitClass,
  inkOn,
  type LegendItem,
  legendHeight,
  legendRow,
  nextItem,
  ownerTurn,
  type Shades,
} from "./shades.ts";
import { type Surface, widthOf } from "./surface.ts";

/** A node where it is drawn. */
interface Box {
  readonly node: number;
  readonly row: number;
  readonly x: number;
  readonly width: number;
}

/** The tree as it is drawn. */
interface Layout {
  readonly boxes: readonly Box[];
  /** Tokens that the whole width stands for. */
  readonly tokens: number;
}

export interface IcicleOptions {
  readonly title: string;
  /** Tokens that all blocks have room for: the width of the figure, as long as all is shown. */
  readonly roomTokens: number;
  readonly ages: AgeText;
}

const height = 236;
const top = 4;
const strip = 4;
/** Thinner boxes are left out. */
const leastWidth = 0.2;

/** The cached prefixes from the top down: as wide as they have tokens, with all that goes on from them below. */
export class Icicle {
  readonly element: HTMLElement;
  readonly #options: IcicleOptions;
  readonly #drawn: Drawn;
  readonly #out: HTMLElement;
  #tree: TreeData | undefined;
  #colouring: Colouring = "age";
  #oldest = 0;
  /** By its first block, which stays the same from moment to moment. */
  #zoomed: number | undefined;
  #layout: Layout = { boxes: [], tokens: 1 };
  /** The deepest so far, lest rows change their height with every event. */
  #rows = 3;
  #rowHeight = 1;
  #pointed: number | undefined;

  constructor(options: IcicleOptions, left: AbortSignal) {
    this.#options = options;
    const draw = (surface: Surface, width: number, shades: Shades) => this.#draw(surface, width, shades);
    const { title } = options;
    this.#drawn = new Drawn({ title, height, draw, wordsAt: (x, y) => this.#wordsOf(this.#boxAt(x, y)) }, left);
    const { figure, host } = this.#drawn;
    this.element = figure.element;
    this.#out = h("button", { type: "button", hidden: true, click: () => this.#zoom(undefined) }, "Whole cache");
    figure.tools.append(h("span", { class: "hint wide" }, "Click to zoom in"), this.#out);
    host.addEventListener("click", () => this.#zoom(this.#pointed));
    host.addEventListener("keydown", (event) => this.#key(event));
  }

  /** `oldest`: the age that the last of the ages' colours stands for. */
  show(tree: TreeData, oldest: number, colouring: Colouring): void {
    this.#tree = tree;
    this.#colouring = colouring;
    this.#oldest = oldest;
    this.#pointed = undefined;
    const { length } = tree.parent;
    const cached = tree.tokens.reduce((sum, tokens) => sum + tokens, 0);
    const held = tree.heldBlocks.reduce((sum, blocks) => sum + blocks, 0);
    this.#drawn.host.setAttribute(
      "aria-label",
      `${this.#options.title}: ${integer(cached)} cached tokens in ${integer(length)} nodes, ${integer(held)} blocks held. ` +
        "Arrow keys read them, Enter zooms in, Escape out.",
    );
    this.#drawn.redraw();
  }

  #draw(surface: Surface, width: number, shades: Shades): void {
    const tree = this.#tree;
    if (!tree) return;
    const zoomed = this.#zoomed === undefined ? -1 : tree.block.indexOf(this.#zoomed);
    if (zoomed < 0) this.#zoomed = undefined;
    this.#out.hidden = zoomed < 0;
    this.#layout = layoutOf(tree, zoomed, width, this.#options.roomTokens);
    const { boxes, tokens } = this.#layout;
    this.#rows = Math.max(this.#rows, ...boxes.map(({ row }) => row + 1));
    const bottom = height - legendHeight(width);
    this.#rowHeight = Math.max(3, Math.min(64, Math.floor((bottom - top - 8) / this.#rows)));
    for (const box of boxes) this.#drawBox(surface, box, tree, shades);
    const next = boxes.find(({ node }) => node === tree.next);
    if (next) this.#frameNext(surface, next, shades);
    this.#drawKey(surface, bottom, width, tokens, shades);
  }

  #drawBox(surface: Surface, { node, row, x, width }: Box, tree: TreeData, shades: Shades): void {
    const y = top + row * this.#rowHeight;
    const gap = width > 3 ? 1 : width > 1.5 ? 0.5 : 0;
    const high = this.#rowHeight - 1;
    const share = heldShare(tree, node);
    const colour = this.#colourOf(tree, node, shades);
    surface.rect(x, y, width - gap, high, colour);
    if (this.#colouring === "life" && share > 0) surface.rect(x, y, (width - gap) * share, high, shades.lives[2]);
    else if (share > 0 && high > strip + 2) surface.rect(x, y + high - strip, (width - gap) * share, strip, shades.ink);
    const words = labelOf(tree, node);
    if (high >= 15 && width > 44 && widthOf(words, shades.family) < width - 12) {
      const under = this.#colouring === "life" && share > 0.3 ? shades.lives[2] : colour;
      surface.text(x + 6, y + (high - (share > 0 ? strip : 0)) / 2, words, inkOn(under));
    }
  }

  #colourOf(tree: TreeData, node: number, shades: Shades): string {
    const { ageNs, hits, owner } = tree;
    if (this.#colouring === "age") return shades.ages[ageStep(this.#oldest > 0 ? ageNs[node] / this.#oldest : 0)];
    if (this.#colouring === "hits") return shades.hits[hitClass(hits[node] / blocksOf(tree, node))];
    if (this.#colouring === "life") return shades.lives[3];
    return owner[node] < 0 ? shades.lives[0] : shades.owners[ownerTurn(owner[node], shades)];
  }

  #frameNext(surface: Surface, { row, x, width }: Box, { ground, next }: Shades): void {
    const wide = Math.max(10, width + 1);
    const at = Math.max(2, x - Math.max(0, (10 - width) / 2));
    const y = top + row * this.#rowHeight - 2;
    surface.frame(at - 2, y - 1, wide + 3, this.#rowHeight + 5, ground, 5);
    surface.frame(at - 1, y, wide + 1, this.#rowHeight + 3, next, 2.5);
  }

  /** What the colours and marks mean, and how long a number of tokens is. */
  #drawKey(surface: Surface, bottom: number, width: number, tokens: number, shades: Shades): void {
    const { soft, ink, family } = shades;
    const colours = colourItems(this.#colouring, shades, this.#options.ages(this.#oldest), ["held", "idle"]);
    const held: LegendItem = {
      words: "held",
      width: 20,
      draw: (on, x, middle) => on.rect(x, middle - strip / 2, 14, strip, ink),
    };
    const items = [...colours, ...(this.#colouring === "life" ? [] : [held]), nextItem(shades)];
    const { x, middle } = drawLegend(surface, bottom, width, items, shades);
    const length = Math.min(100, width / 5);
    const words = `${approximate((tokens * length) / width)} tokens`;
    const from = width - widthOf(words, family) - length - 8;
    const y = from < x ? middle + legendRow : middle;
    if (y + legendRow / 2 > height) return;
    for (const end of [from, from + length]) surface.rect(end, y - 4, 1, 9, soft);
    surface.rect(from, y, length, 1, soft);
    surface.text(from + length + 8, y, words, soft);
  }

  #boxAt(x: number, y: number): Box | undefined {
    const row = Math.floor((y - top) / this.#rowHeight);
    return this.#layout.boxes.find((box) => box.row === row && x >= box.x && x < box.x + Math.max(box.width, 1));
  }

  /** What a node is; a click, or Enter, zooms into it then. */
  #wordsOf(box: Box | undefined): string[] | undefined {
    this.#pointed = box?.node;
    this.#drawn.host.style.cursor = box ? "zoom-in" : "";
    return box && this.#tree ? wordsOf(this.#tree, box.node, this.#options.ages) : undefined;
  }

  #key(event: KeyboardEvent): void {
    if (event.shiftKey || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Escape") {
      event.preventDefault();
      this.#zoom(undefined);
      announce("The whole cache");
      return;
    }
    const { boxes } = this.#layout;
    const now = boxes.find(({ node }) => node === this.#pointed);
    if (event.key === "Enter" && now) {
      this.#zoom(now.node);
      return;
    }
    const moved = this.#moved(event.key, now);
    if (moved === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const words = this.#wordsOf(moved);
    this.#drawn.read(words, moved.x + Math.min(moved.width, 200) / 2, top + (moved.row + 1) * this.#rowHeight);
    announce(words?.join(", ") ?? "");
  }

  /** The neighbour in the row, the parent, or the first child. */
  #moved(key: string, now: Box | undefined): Box | undefined {
    const { boxes } = this.#layout;
    if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(key)) return undefined;
    if (!now) return boxes[0];
    const parents = this.#tree!.parent;
    if (key === "ArrowUp") return boxes.find(({ node }) => node === parents[now.node]) ?? now;
    if (key === "ArrowDown") return boxes.find(({ node }) => parents[node] === now.node) ?? now;
    const row = boxes.filter((box) => box.row === now.row).sort((a, b) => a.x - b.x);
    return row[row.indexOf(now) + (key === "ArrowLeft" ? -1 : 1)] ?? now;
  }

  #zoom(node: number | undefined): void {
    const tree = this.#tree;
    const block = node === undefined || !tree ? undefined : tree.block[node];
    // A click on what is zoomed already goes a step back; what has no block of its own cannot be zoomed.
    const parent = tree && node !== undefined ? tree.parent[node] : -1;
    if (block !== undefined && block === this.#zoomed) this.#zoomed = parent < 0 ? undefined : tree!.block[parent];
    else if (block === undefined || block >= 0) this.#zoomed = block;
    this.#drawn.redraw();
  }
}

function layoutOf(tree: TreeData, zoomed: number, width: number, roomTokens: number): Layout {
  const { parent } = tree;
  const total = Float64Array.from(tree.tokens);
  const children: number[][] = parent.map(() => []);
  const roots: number[] = [];
  parent.forEach((above, node) => {
    (above >= 0 ? children[above] : roots).push(node);
  });
  for (let node = parent.length - 1; node >= 0; node--) if (parent[node] >= 0) total[parent[node]] += total[node];
  const boxes: Box[] = [];
  const path: number[] = [];
  for (let node = zoomed; node >= 0; node = parent[node]) path.unshift(node);
  path.forEach((node, row) => {
    boxes.push({ node, row, x: 0, width });
  });
  const cached = roots.reduce((sum, node) => sum + total[node], 0);
  const tokens = zoomed >= 0 ? total[zoomed] : Math.max(roomTokens, cached, 1);
  const place = (nodes: readonly number[], row: number, from: number) => {
    let x = from;
    for (const node of nodes) {
      const wide = (total[node] / tokens) * width;
      if (wide >= leastWidth) {
        boxes.push({ node, row, x, width: wide });
        place(children[node], row + 1, x);
      }
      x += wide;
    }
  };
  place(zoomed >= 0 ? children[zoomed] : roots, path.length, 0);
  return { boxes, tokens };
}

const blocksOf = ({ tokens, blockTokens }: TreeData, node: number) => Math.ceil(tokens[node] / blockTokens);
const heldShare = (tree: TreeData, node: number) => Math.min(1, tree.heldBlocks[node] / blocksOf(tree, node));

const labelOf = ({ merged, owner, tokens }: TreeData, node: number) =>
  owner[node] < 0
    ? `${integer(merged[node])} more · ${approximate(tokens[node])}`
    : `#${owner[node]} · ${approximate(tokens[node])}`;

function wordsOf(tree: TreeData, node: number, ages: AgeText): string[] {
  const { fromToken, tokens, block, hits, heldBlocks, ageNs, owner, merged } = tree;
  const from = fromToken[node];
  const count = blocksOf(tree, node);
  const size = `${integer(tokens[node])} tokens in ${integer(count)} ${count === 1 ? "block" : "blocks"}`;
  const each = (hits[node] / count).toFixed(1).replace(".0", "");
  const found = count === 1 ? `found ${each} times` : `each block found ${each} times`;
  const used = ageNs[node] === 0 ? "in use now" : `last used ${ages(ageNs[node])} ago`;
  const held = heldBlocks[node] > 0 ? [`${integer(heldBlocks[node])} of its blocks are held`] : [];
  const both = [size, `${found}, ${used}`, ...held];
  if (owner[node] < 0) return [`${integer(merged[node])} small prefixes`, ...both];
  const place = `tokens ${integer(from)} to ${integer(from + tokens[node])}, from block ${block[node]}`;
  return [`cached by request #${owner[node]}`, place, ...both];
}
