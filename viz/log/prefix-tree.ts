import { LoggedState } from "../../core/log/block-lives.ts";
import type { TreeData } from "../api.ts";
import { ageAt, cachedBy } from "./block-map.ts";
import type { BlockStates } from "./block-states.ts";
import type { EventHistory } from "./event-history.ts";

/** Runs of cached blocks without a branch, parents before their children: run i is `order[start[i] .. start[i + 1])`. */
export interface Runs {
  readonly count: number;
  readonly order: Int32Array;
  readonly start: Int32Array;
  /** −1: none. */
  readonly parent: Int32Array;
}

/**
 * The cached prefixes. The parent of a block is the preceding block in the request that published it, or another cached block
 * with the same content; without one, the block is a root. Contents are in the order of their first publication, so that a
 * node keeps its position among its siblings over time.
 */
export function runsOf({ publications }: EventHistory, states: BlockStates): Runs {
  const { blocks, publication } = states;
  const { parent: parentOf, content, contents } = publications;
  // Blocks with equal content, which some indexes keep, are a linked list.
  const byContent = new Int32Array(contents).fill(-1);
  const nextEqual = new Int32Array(blocks).fill(-1);
  for (let block = blocks - 1; block >= 0; block--) {
    if (!states.isCached(block)) continue;
    const here = content[publication[block]];
    nextEqual[block] = byContent[here];
    byContent[here] = block;
  }
  const above = (block: number) => {
    const before = parentOf[publication[block]];
    if (before < 0) return -1;
    const same = publications.block(before);
    const found = states.isCached(same) && publication[same] === before ? same : byContent[content[before]];
    if (found < 0) return -1;
    const isNext = publications.place(publication[found]) + 1 === publications.place(publication[block]);
    return isNext ? found : -1;
  };
  const child = new Int32Array(blocks).fill(-1);
  const sibling = new Int32Array(blocks).fill(-1);
  const children = new Int32Array(blocks);
  let root = -1;
  for (let here = contents - 1; here >= 0; here--)
    for (let block = byContent[here]; block >= 0; block = nextEqual[block]) {
      const parent = above(block);
      if (parent < 0) {
        sibling[block] = root;
        root = block;
      } else {
        sibling[block] = child[parent];
        child[parent] = block;
        children[parent]++;
      }
    }
  const { counts } = states;
  return inOrder(counts[LoggedState.referenced] + counts[LoggedState.idle], root, child, sibling, children);
}

function inOrder(count: number, root: number, child: Int32Array, sibling: Int32Array, children: Int32Array): Runs {
  const order = new Int32Array(count);
  const start = new Int32Array(count + 1);
  const parent = new Int32Array(count);
  const waiting: { block: number; parent: number }[] = [];
  let runs = 0;
  let at = 0;
  if (root >= 0) waiting.push({ block: root, parent: -1 });
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const run = runs++;
    start[run] = at;
    parent[run] = next.parent;
    let last = next.block;
    order[at++] = last;
    while (children[last] === 1) order[at++] = last = child[last];
    if (sibling[next.block] >= 0) waiting.push({ block: sibling[next.block], parent: next.parent });
    if (children[last] > 1) waiting.push({ block: child[last], parent: run });
  }
  start[runs] = at;
  return { count: runs, order, start, parent };
}

/** The tree as at most `mostNodes` nodes: those with the most blocks in and below them. `nextBlock`: the block of the next event. */
export function treeOf(history: EventHistory, states: BlockStates, mostNodes: number, nextBlock: number): TreeData {
  const runs = runsOf(history, states);
  return treeColumns(history, states, runs, nodesOf(runs, mostNodes), nextBlock);
}

/** The node of each run. Small runs share a node; those nodes are numbered last. */
interface Nodes {
  readonly count: number;
  readonly whole: number;
  readonly of: Int32Array;
  readonly parent: readonly number[];
}

function nodesOf({ count, start, parent }: Runs, mostNodes: number): Nodes {
  const below = new Int32Array(count);
  const left = new Int32Array(count + 1);
  for (let run = count - 1; run >= 0; run--) {
    below[run] += start[run + 1] - start[run];
    if (parent[run] >= 0) below[parent[run]] += below[run];
    left[parent[run] + 1]++;
  }
  // The children of a node that are left out share one node, until the last of them is included.
  const isKept = new Uint8Array(count);
  const hasChildren = left.map((children) => Math.min(children, 1));
  let room = mostNodes - hasChildren[0];
  const order = Uint32Array.from({ length: count }, (_, run) => run).sort((a, b) => below[b] - below[a] || a - b);
  for (const run of order) {
    const above = parent[run];
    if (above >= 0 && isKept[above] === 0) continue;
    const cost = 1 + hasChildren[run + 1] - (left[above + 1] === 1 ? 1 : 0);
    if (cost > room) continue;
    room -= cost;
    left[above + 1]--;
    isKept[run] = 1;
  }
  const of = new Int32Array(count);
  const parents: number[] = [];
  for (let run = 0; run < count; run++)
    if (isKept[run] === 1) {
      of[run] = parents.length;
      parents.push(parent[run] < 0 ? -1 : of[parent[run]]);
    }
  const whole = parents.length;
  const others = new Map<number, number>();
  for (let run = 0; run < count; run++) {
    if (isKept[run] === 1) continue;
    const above = parent[run];
    if (above >= 0 && isKept[above] === 0) {
      of[run] = of[above];
      continue;
    }
    const node = above < 0 ? -1 : of[above];
    if (!others.has(node)) {
      others.set(node, parents.length);
      parents.push(node);
    }
    of[run] = others.get(node)!;
  }
  return { count: parents.length, whole, of, parent: parents };
}

/** Sums over the runs of each node. */
function treeColumns(
  history: EventHistory,
  states: BlockStates,
  runs: Runs,
  nodes: Nodes,
  nextBlock: number,
): TreeData {
  const { blockTokens, publications } = history;
  const { life, hits, usedAt, publication } = states;
  const { count, whole, parent } = nodes;
  const [block, owner] = [new Int32Array(count).fill(-1), new Int32Array(count).fill(-1)];
  const [merged, blocks, heldBlocks] = [new Int32Array(count), new Int32Array(count), new Int32Array(count)];
  const [found, usedLast] = [new Float64Array(count), new Int32Array(count)];
  const place = new Int32Array(count);
  let next = -1;
  for (let run = 0; run < runs.count; run++) {
    const node = nodes.of[run];
    const first = runs.order[runs.start[run]];
    const from = publications.place(publication[first]);
    if (block[node] < 0) {
      block[node] = first;
      place[node] = from;
      if (node < whole) owner[node] = cachedBy(history, states, first);
    }
    merged[node]++;
    place[node] = Math.min(place[node], from);
    blocks[node] += runs.start[run + 1] - runs.start[run];
    for (let at = runs.start[run]; at < runs.start[run + 1]; at++) {
      const one = runs.order[at];
      if (one === nextBlock) next = node;
      if (life[one] === LoggedState.referenced) heldBlocks[node]++;
      found[node] += hits[one];
      if (usedAt[one] > usedLast[node]) usedLast[node] = usedAt[one];
    }
  }
  const ageOf = ageAt(history, states);
  return {
    blockTokens,
    parent,
    fromToken: Array.from(place, (from) => from * blockTokens),
    tokens: Array.from(blocks, (size) => size * blockTokens),
    block: [...block],
    heldBlocks: [...heldBlocks],
    hits: [...found],
    ageNs: Array.from(usedLast, (event, node) => (heldBlocks[node] > 0 ? 0 : ageOf(event))),
    owner: [...owner],
    merged: [...merged],
    next,
  };
}
