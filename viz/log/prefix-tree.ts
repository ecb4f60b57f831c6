import type { TreeData } from "../api.ts";
import { ageAt, cachedBy } from "./block-map.ts";
import { type BlockStates, Life } from "./block-states.ts";
import type { EventHistory } from "./event-history.ts";

/** Runs of cached blocks that nothing branches off, parents before their children: run i is `order[start[i] .. start[i + 1])`. */
export interface Runs {
  readonly count: number;
  readonly order: Int32Array;
  readonly start: Int32Array;
  /** −1: none. */
  readonly parent: Int32Array;
}

/**
 * The cached prefixes. What a block follows on is the block that was before it in the request that cached it, or another
 * one with that content; where that is no longer cached, it follows on nothing. Contents are in the order in which the log
 * has them first, so that a node keeps its place among others as time goes by.
 */
export function runsOf({ log, publications }: EventHistory, states: BlockStates): Runs {
  const { blocks, publication } = states;
  const { event, parent: parentOf, content } = publications;
  const { block: blockOf, value: placeOf } = log.columns();
  const byContent = new Int32Array(publications.contents).fill(-1);
  const cached = sortedByContent(states, content);
  for (const block of cached) byContent[content[publication[block]]] = block;

  const child = new Int32Array(blocks).fill(-1);
  const sibling = new Int32Array(blocks).fill(-1);
  const children = new Int32Array(blocks);
  let root = -1;
  for (let i = cached.length - 1; i >= 0; i--) {
    const block = cached[i];
    const before = parentOf[publication[block]];
    let above = -1;
    if (before >= 0) {
      const same = blockOf[event[before]];
      above = states.isCached(same) && publication[same] === before ? same : byContent[content[before]];
      const isNext = above >= 0 && placeOf[event[publication[above]]] + 1 === placeOf[event[publication[block]]];
      if (!isNext) above = -1;
    }
    if (above < 0) {
      sibling[block] = root;
      root = block;
    } else {
      sibling[block] = child[above];
      child[above] = block;
      children[above]++;
    }
  }
  return inOrder(cached.length, root, child, sibling, children);
}

function sortedByContent(states: BlockStates, content: Int32Array): Int32Array {
  const { blocks, publication } = states;
  const places = new Float64Array(states.counts[Life.held] + states.counts[Life.idle]);
  let count = 0;
  for (let block = 0; block < blocks; block++)
    if (states.isCached(block)) places[count++] = content[publication[block]] * blocks + block;
  places.sort();
  return Int32Array.from(places, (place) => place % blocks);
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

/** The tree as at most `mostNodes` nodes: those with most in and below them; `nextBlock` is the next event's. */
export function treeOf(history: EventHistory, states: BlockStates, mostNodes: number, nextBlock: number): TreeData {
  const runs = runsOf(history, states);
  return treeColumns(history, states, runs, nodesOf(runs, mostNodes), nextBlock);
}

/** For each run its node; those that are small share one, which is numbered after all others. */
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
  // A node has nodes below it that are left out, and so one for them all, until the last of them is there.
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
  const { blockTokens, log, publications } = history;
  const { value: placeOf } = log.columns();
  const { life, hits, usedAt, publication } = states;
  const ageOf = ageAt(history, states);
  const column = (initial: number) => new Array<number>(nodes.count).fill(initial);
  const [block, owner, fromToken] = [column(-1), column(-1), column(Number.POSITIVE_INFINITY)];
  const [tokens, heldBlocks, hitCount, merged] = [column(0), column(0), column(0), column(0)];
  const ageNs = column(Number.POSITIVE_INFINITY);
  let next = -1;
  for (let run = 0; run < runs.count; run++) {
    const node = nodes.of[run];
    const first = runs.order[runs.start[run]];
    if (block[node] < 0) {
      block[node] = first;
      if (node < nodes.whole) owner[node] = cachedBy(history, states, first);
    }
    merged[node]++;
    fromToken[node] = Math.min(fromToken[node], placeOf[publications.event[publication[first]]] * blockTokens);
    for (let at = runs.start[run]; at < runs.start[run + 1]; at++) {
      const one = runs.order[at];
      const isHeld = life[one] === Life.held;
      if (one === nextBlock) next = node;
      if (isHeld) heldBlocks[node]++;
      tokens[node] += blockTokens;
      hitCount[node] += hits[one];
      ageNs[node] = Math.min(ageNs[node], isHeld ? 0 : ageOf(usedAt[one]));
    }
  }
  const { parent } = nodes;
  return { blockTokens, parent, fromToken, tokens, block, heldBlocks, hits: hitCount, ageNs, owner, merged, next };
}
