import type { Packing } from "./packing.ts";

/**
 * Prices that prove the largest value of a packing exactly, from a flow of least cost (successive shortest paths), for small
 * problems. Nodes are the gaps between requests. As many units flow from the first gap to the last as the most slots that are
 * free anywhere; a unit passes a request on its arc, or jumps over all that an interval crosses and gains its weight.
 *
 *   gap    0 ──request 0──▶ 1 ──request 1──▶ 2 ──request 2──▶ 3
 *                           └──── interval from 0 to 3 ──────▶
 *
 * Where fewer slots are free, units are forced onto the arc of the request by a cost below that of all intervals together.
 * The fall of the shortest distance over a request is the price of its slots.
 */
export function cheapestFlow({ free, start, end, copies, weight }: Packing): Float64Array {
  const gaps = free.length + 1;
  const units = free.reduce((most, slots) => Math.max(most, slots), 0);
  const force = 1 + weight.reduce((sum, value, i) => sum + value * copies[i], 0);
  const graph = new FlowGraph(gaps);
  for (let t = 0; t < free.length; t++) {
    graph.add(t, t + 1, units - free[t], -force);
    graph.add(t, t + 1, units + 1, 0);
  }
  for (let i = 0; i < start.length; i++) {
    if (end[i] > start[i] + 1) graph.add(start[i] + 1, end[i], copies[i], -weight[i]);
  }
  for (let sent = 0; sent < units; ) sent += graph.send(0, gaps - 1, units - sent);
  const distance = graph.distances(0);
  return Float64Array.from(free, (_, t) => Math.max(0, distance[t] - distance[t + 1]));
}

/** Arcs with a capacity and a cost; arc i ^ 1 is the reverse of arc i. */
class FlowGraph {
  readonly #from: number[] = [];
  readonly #to: number[] = [];
  readonly #left: number[] = [];
  readonly #cost: number[] = [];
  readonly #arcsOf: number[][];
  /** By node: the arc by which the last search has reached it. */
  #reachedBy: number[] = [];

  constructor(nodes: number) {
    this.#arcsOf = Array.from({ length: nodes }, () => []);
  }

  add(from: number, to: number, capacity: number, cost: number): void {
    this.#addArc(from, to, capacity, cost);
    this.#addArc(to, from, 0, -cost);
  }

  #addArc(from: number, to: number, capacity: number, cost: number): void {
    this.#arcsOf[from].push(this.#from.length);
    this.#from.push(from);
    this.#to.push(to);
    this.#left.push(capacity);
    this.#cost.push(cost);
  }

  /** Costs of the cheapest paths from a node, by Bellman and Ford's algorithm with a queue; tolerates rounding errors. */
  distances(source: number): number[] {
    const distance = this.#arcsOf.map(() => Number.POSITIVE_INFINITY);
    this.#reachedBy = this.#arcsOf.map(() => -1);
    const isQueued = this.#arcsOf.map(() => false);
    distance[source] = 0;
    const queue = [source];
    for (let at = 0; at < queue.length; at++) {
      const node = queue[at];
      isQueued[node] = false;
      for (const arc of this.#arcsOf[node]) {
        const [to, cost] = [this.#to[arc], distance[node] + this.#cost[arc]];
        if (this.#left[arc] === 0 || cost >= distance[to] - 1e-9) continue;
        distance[to] = cost;
        this.#reachedBy[to] = arc;
        if (!isQueued[to]) queue.push(to);
        isQueued[to] = true;
      }
    }
    return distance;
  }

  /** Sends at most `units` along the cheapest path; returns how many. */
  send(source: number, sink: number, units: number): number {
    this.distances(source);
    const path: number[] = [];
    for (let node = sink; node !== source; node = this.#from[path.at(-1)!]) path.push(this.#reachedBy[node]);
    const sent = Math.min(units, ...path.map((arc) => this.#left[arc]));
    for (const arc of path) {
      this.#left[arc] -= sent;
      this.#left[arc ^ 1] += sent;
    }
    return sent;
  }
}
