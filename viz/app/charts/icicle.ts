import type { TreeData } from "../../api.ts";
import { announce, h } from "../controls/dom.ts";
import { approximate, integer } from "../data/format.ts";
import {
  type AgeText,
  ageColourIndex,
  type ColourMode,
  type Colours,
  hitColourIndex,
  ownerColourIndex,
  textColourOn,
} from "./block-colours.ts";
import { CanvasFigure } from "./canvas-figure.ts";
import { type Surface, textWidth } from "./drawing-surface.ts";
import { colourLegend, drawLegend, type LegendItem, legendHeight, legendRow, nextEventLegend } from "./legend.ts";

/** A node and its position, pixels. */
interface Box {
  readonly node: number;
  readonly row: number;
  readonly x: number;
  readonly width: number;
}

/** The boxes of the visible nodes. */
interface Layout {
  readonly boxes: readonly Box[];
  /** Tokens of the whole width. */
  readonly tokens: number;
}

export interface IcicleOptions {
  readonly title: string;
  /** Capacity of the cache in tokens: the width of the figure unless it is zoomed. */
  readonly capacityTokens: number;
  readonly ages: AgeText;
}

const height = 236;
const top = 4;
/** Height of the mark of referenced blocks, pixels. */
const markHeight = 4;
/** Narrower boxes are not drawn, pixels. */
const minWidth = 0.2;

/** The tree of cached prefixes as an icicle plot: a node is as wide as the tokens of its subtree, its children are below it. */
export class Icicle {
  readonly element: HTMLElement;
  readonly #options: IcicleOptions;
  readonly #figure: CanvasFigure;
  readonly #zoomOut: HTMLElement;
  #tree: TreeData | undefined;
  #colourMode: ColourMode = "age";
  #oldest = 0;
  /** First block of the zoomed node, which identifies it across updates. */
  #zoomedBlock: number | undefined;
  #layout: Layout = { boxes: [], tokens: 1 };
  /** Largest number of rows so far: row heights do not change with every event. */
  #rows = 3;
  #rowHeight = 1;
  #selected: number | undefined;

  constructor(options: IcicleOptions, signal: AbortSignal) {
    this.#options = options;
    const draw = (surface: Surface, width: number, colours: Colours) => this.#draw(surface, width, colours);
    const { title } = options;
    this.#figure = new CanvasFigure({ title, height, draw, textAt: (x, y) => this.#select(this.#boxAt(x, y)) }, signal);
    const { card, host } = this.#figure;
    this.element = card.element;
    this.#zoomOut = h("button", { type: "button", hidden: true, click: () => this.#zoom(undefined) }, "Whole cache");
    card.tools.append(h("span", { class: "hint wide" }, "Click to zoom in"), this.#zoomOut);
    host.addEventListener("click", () => this.#zoom(this.#selected));
    host.addEventListener("keydown", (event) => this.#key(event));
  }

  /** `oldest`: the age that the last colour of the scale stands for. */
  show(tree: TreeData, oldest: number, colourMode: ColourMode): void {
    this.#tree = tree;
    this.#colourMode = colourMode;
    this.#oldest = oldest;
    this.#selected = undefined;
    const { length } = tree.parent;
    const cached = tree.tokens.reduce((sum, tokens) => sum + tokens, 0);
    const referenced = tree.heldBlocks.reduce((sum, blocks) => sum + blocks, 0);
    this.#figure.host.setAttribute(
      "aria-label",
      `${this.#options.title}: ${integer(cached)} cached tokens in ${integer(length)} nodes, ${integer(referenced)} referenced blocks. ` +
        "Arrow keys read the nodes, Enter zooms in, Escape zooms out.",
    );
    this.#figure.redraw();
  }

  #draw(surface: Surface, width: number, colours: Colours): void {
    const tree = this.#tree;
    if (!tree) return;
    const zoomed = this.#zoomedBlock === undefined ? -1 : tree.block.indexOf(this.#zoomedBlock);
    if (zoomed < 0) this.#zoomedBlock = undefined;
    this.#zoomOut.hidden = zoomed < 0;
    this.#layout = layoutOf(tree, zoomed, width, this.#options.capacityTokens);
    const { boxes, tokens } = this.#layout;
    this.#rows = Math.max(this.#rows, ...boxes.map(({ row }) => row + 1));
    const bottom = height - legendHeight(width);
    this.#rowHeight = Math.max(3, Math.min(64, Math.floor((bottom - top - 8) / this.#rows)));
    for (const box of boxes) this.#drawBox(surface, box, tree, colours);
    const next = boxes.find(({ node }) => node === tree.next);
    if (next) this.#frameNext(surface, next, colours);
    this.#drawLegend(surface, bottom, width, tokens, colours);
  }

  #drawBox(surface: Surface, { node, row, x, width }: Box, tree: TreeData, colours: Colours): void {
    const y = top + row * this.#rowHeight;
    const gap = width > 3 ? 1 : width > 1.5 ? 0.5 : 0;
    const boxHeight = this.#rowHeight - 1;
    const share = referencedShare(tree, node);
    const colour = this.#colourOf(tree, node, colours);
    surface.rect(x, y, width - gap, boxHeight, colour);
    if (this.#colourMode === "life" && share > 0)
      surface.rect(x, y, (width - gap) * share, boxHeight, colours.states[2]);
    else if (share > 0 && boxHeight > markHeight + 2)
      surface.rect(x, y + boxHeight - markHeight, (width - gap) * share, markHeight, colours.text);
    const label = labelOf(tree, node);
    if (boxHeight >= 15 && width > 44 && textWidth(label, colours.fontFamily) < width - 12) {
      const background = this.#colourMode === "life" && share > 0.3 ? colours.states[2] : colour;
      surface.text(x + 6, y + (boxHeight - (share > 0 ? markHeight : 0)) / 2, label, textColourOn(background));
    }
  }

  #colourOf(tree: TreeData, node: number, colours: Colours): string {
    const { ageNs, hits, owner } = tree;
    if (this.#colourMode === "age")
      return colours.ages[ageColourIndex(this.#oldest > 0 ? ageNs[node] / this.#oldest : 0)];
    if (this.#colourMode === "hits") return colours.hits[hitColourIndex(hits[node] / blocksOf(tree, node))];
    if (this.#colourMode === "life") return colours.states[3];
    return owner[node] < 0 ? colours.states[0] : colours.owners[ownerColourIndex(owner[node], colours)];
  }

  #frameNext(surface: Surface, { row, x, width }: Box, { background, nextEvent }: Colours): void {
    const frameWidth = Math.max(10, width + 1);
    const at = Math.max(2, x - Math.max(0, (10 - width) / 2));
    const y = top + row * this.#rowHeight - 2;
    surface.frame(at - 2, y - 1, frameWidth + 3, this.#rowHeight + 5, background, 5);
    surface.frame(at - 1, y, frameWidth + 1, this.#rowHeight + 3, nextEvent, 2.5);
  }

  /** The legend, and a scale bar in tokens. */
  #drawLegend(surface: Surface, bottom: number, width: number, tokens: number, colours: Colours): void {
    const { mutedText, text, fontFamily } = colours;
    const legend = colourLegend(this.#colourMode, colours, this.#options.ages(this.#oldest), [
      "cached, referenced",
      "cached, idle",
    ]);
    const referenced: LegendItem = {
      text: "referenced",
      width: 20,
      draw: (on, x, middle) => on.rect(x, middle - markHeight / 2, 14, markHeight, text),
    };
    const items = [...legend, ...(this.#colourMode === "life" ? [] : [referenced]), nextEventLegend(colours)];
    const { x, middle } = drawLegend(surface, bottom, width, items, colours);
    const length = Math.min(100, width / 5);
    const scale = `${approximate((tokens * length) / width)} tokens`;
    const from = width - textWidth(scale, fontFamily) - length - 8;
    const y = from < x ? middle + legendRow : middle;
    if (y + legendRow / 2 > height) return;
    for (const end of [from, from + length]) surface.rect(end, y - 4, 1, 9, mutedText);
    surface.rect(from, y, length, 1, mutedText);
    surface.text(from + length + 8, y, scale, mutedText);
  }

  #boxAt(x: number, y: number): Box | undefined {
    const row = Math.floor((y - top) / this.#rowHeight);
    return this.#layout.boxes.find((box) => box.row === row && x >= box.x && x < box.x + Math.max(box.width, 1));
  }

  /** Selects a node, which a click or Enter zooms into, and describes it. */
  #select(box: Box | undefined): string[] | undefined {
    this.#selected = box?.node;
    this.#figure.host.style.cursor = box ? "zoom-in" : "";
    return box && this.#tree ? describe(this.#tree, box.node, this.#options.ages) : undefined;
  }

  #key(event: KeyboardEvent): void {
    if (event.shiftKey || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Escape") {
      event.preventDefault();
      this.#zoom(undefined);
      announce("Whole cache");
      return;
    }
    const { boxes } = this.#layout;
    const selected = boxes.find(({ node }) => node === this.#selected);
    if (event.key === "Enter" && selected) {
      this.#zoom(selected.node);
      return;
    }
    const neighbour = this.#neighbour(event.key, selected);
    if (neighbour === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const lines = this.#select(neighbour);
    this.#figure.showTooltip(
      lines,
      neighbour.x + Math.min(neighbour.width, 200) / 2,
      top + (neighbour.row + 1) * this.#rowHeight,
    );
    announce(lines?.join(", ") ?? "");
  }

  /** The next box in the row, the parent, or the first child. */
  #neighbour(key: string, selected: Box | undefined): Box | undefined {
    const { boxes } = this.#layout;
    if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(key)) return undefined;
    if (!selected) return boxes[0];
    const parents = this.#tree!.parent;
    if (key === "ArrowUp") return boxes.find(({ node }) => node === parents[selected.node]) ?? selected;
    if (key === "ArrowDown") return boxes.find(({ node }) => parents[node] === selected.node) ?? selected;
    const row = boxes.filter((box) => box.row === selected.row).sort((a, b) => a.x - b.x);
    return row[row.indexOf(selected) + (key === "ArrowLeft" ? -1 : 1)] ?? selected;
  }

  #zoom(node: number | undefined): void {
    const tree = this.#tree;
    const block = node === undefined || !tree ? undefined : tree.block[node];
    // A click on the zoomed node zooms out to its parent. Merged nodes have no block and cannot be zoomed.
    const parent = tree && node !== undefined ? tree.parent[node] : -1;
    if (block !== undefined && block === this.#zoomedBlock)
      this.#zoomedBlock = parent < 0 ? undefined : tree!.block[parent];
    else if (block === undefined || block >= 0) this.#zoomedBlock = block;
    this.#figure.redraw();
  }
}

function layoutOf(tree: TreeData, zoomed: number, width: number, capacityTokens: number): Layout {
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
  const tokens = zoomed >= 0 ? total[zoomed] : Math.max(capacityTokens, cached, 1);
  const place = (nodes: readonly number[], row: number, from: number) => {
    let x = from;
    for (const node of nodes) {
      const boxWidth = (total[node] / tokens) * width;
      if (boxWidth >= minWidth) {
        boxes.push({ node, row, x, width: boxWidth });
        place(children[node], row + 1, x);
      }
      x += boxWidth;
    }
  };
  place(zoomed >= 0 ? children[zoomed] : roots, path.length, 0);
  return { boxes, tokens };
}

const blocksOf = ({ tokens, blockTokens }: TreeData, node: number) => Math.ceil(tokens[node] / blockTokens);
const referencedShare = (tree: TreeData, node: number) => Math.min(1, tree.heldBlocks[node] / blocksOf(tree, node));

const labelOf = ({ merged, owner, tokens }: TreeData, node: number) =>
  owner[node] < 0
    ? `${integer(merged[node])} merged · ${approximate(tokens[node])}`
    : `#${owner[node]} · ${approximate(tokens[node])}`;

function describe(tree: TreeData, node: number, ages: AgeText): string[] {
  const { fromToken, tokens, block, hits, heldBlocks, ageNs, owner, merged } = tree;
  const from = fromToken[node];
  const count = blocksOf(tree, node);
  const size = `${integer(tokens[node])} tokens in ${integer(count)} ${count === 1 ? "block" : "blocks"}`;
  const each = (hits[node] / count).toFixed(1).replace(".0", "");
  const hitText = count === 1 ? `${each} hits` : `${each} hits per block`;
  const lastUse = ageNs[node] === 0 ? "in use now" : `last used ${ages(ageNs[node])} ago`;
  const referenced = heldBlocks[node] > 0 ? [`${integer(heldBlocks[node])} blocks referenced`] : [];
  const details = [size, `${hitText}, ${lastUse}`, ...referenced];
  if (owner[node] < 0) return [`${integer(merged[node])} small prefixes`, ...details];
  const place = `tokens ${integer(from)} to ${integer(from + tokens[node])}, from block ${block[node]}`;
  return [`cached by request #${owner[node]}`, place, ...details];
}
