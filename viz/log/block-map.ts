import type { BlockMap } from "../api.ts";
import { BlockLife, type BlockStates } from "./block-states.ts";
import type { EventHistory } from "./event-history.ts";

const mostCells = 65_536;

/** When something was used: ns before `now`, or events where there is no clock. */
export type AgeOf = (event: number) => number;

/** How long before the last of a state's events another one was. */
export function ageAt({ log, hasClock }: EventHistory, { events }: BlockStates): AgeOf {
  const { timeNs } = log.columns();
  const now = timeNs[events - 1];
  return hasClock ? (event) => now - timeNs[event] : (event) => events - 1 - event;
}

/** A cell for each block; where several share one, it shows the one that is most in use. */
export function blockMapOf(history: EventHistory, states: BlockStates): BlockMap {
  const { blocks, usedAt, publication } = states;
  const blocksPerCell = Math.max(1, Math.ceil(blocks / mostCells));
  const cells = Math.ceil(blocks / blocksPerCell);
  const { request } = history.log.columns();
  const { event } = history.publications;
  const ageOf = ageAt(history, states);
  const [life, hits, age] = [new Uint8Array(cells), new Uint8Array(cells), new Uint8Array(cells)];
  const owner = new Int32Array(cells);
  const ages = new Float64Array(cells);
  let oldest = 0;
  for (let cell = 0; cell < cells; cell++) {
    const block = blocksPerCell === 1 ? cell : shownOf(states, cell * blocksPerCell, blocksPerCell);
    life[cell] = states.life[block];
    owner[cell] = states.owner[block];
    if (life[cell] >= BlockLife.held) hits[cell] = Math.min(255, states.hits[block]);
    if (life[cell] !== BlockLife.idle) continue;
    owner[cell] = request[event[publication[block]]];
    ages[cell] = ageOf(usedAt[block]);
    if (ages[cell] > oldest) oldest = ages[cell];
  }
  if (oldest > 0) for (let cell = 0; cell < cells; cell++) age[cell] = Math.round((255 * ages[cell]) / oldest);
  return {
    blocksPerCell,
    cells,
    life: base64(life),
    age: base64(age),
    oldestNs: oldest,
    hits: base64(hits),
    owner: base64(owner),
  };
}

/** The request that cached a block. */
export function cachedBy({ log, publications }: EventHistory, states: BlockStates, block: number): number {
  return log.columns().request[publications.event[states.publication[block]]];
}

const inUse = [0, 2, 3, 1];

function shownOf({ blocks, life, usedAt }: BlockStates, from: number, count: number): number {
  let best = from;
  for (let block = from + 1; block < Math.min(from + count, blocks); block++) {
    const more = inUse[life[block]] - inUse[life[best]];
    if (more > 0 || (more === 0 && usedAt[block] > usedAt[best])) best = block;
  }
  return best;
}

const base64 = ({ buffer, byteOffset, byteLength }: Uint8Array | Int32Array) =>
  Buffer.from(buffer, byteOffset, byteLength).toString("base64");
