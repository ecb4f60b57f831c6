import { LoggedState } from "../../core/log/block-lives.ts";
import type { BlockMap } from "../api.ts";
import type { BlockStates } from "./block-states.ts";
import type { EventHistory } from "./event-history.ts";

const mostCells = 65_536;

/** The age of an event: ns, or a number of events in a log without a clock. */
export type AgeOf = (event: number) => number;

/** Ages relative to the last event of a state. */
export function ageAt({ log, hasClock }: EventHistory, { events }: BlockStates): AgeOf {
  const { timeNs } = log.columns();
  const now = timeNs[events - 1];
  return hasClock ? (event) => now - timeNs[event] : (event) => events - 1 - event;
}

/** A cell for each block. Where several blocks share a cell, it shows the one that is most in use. */
export function blockMapOf(history: EventHistory, states: BlockStates): BlockMap {
  const { blocks, usedAt, publication } = states;
  const blocksPerCell = Math.max(1, Math.ceil(blocks / mostCells));
  const cells = Math.ceil(blocks / blocksPerCell);
  const ageOf = ageAt(history, states);
  const [life, hits, age] = [new Uint8Array(cells), new Uint8Array(cells), new Uint8Array(cells)];
  const owner = new Int32Array(cells);
  const ages = new Float64Array(cells);
  let oldest = 0;
  for (let cell = 0; cell < cells; cell++) {
    const block = blocksPerCell === 1 ? cell : shownOf(states, cell * blocksPerCell, blocksPerCell);
    life[cell] = states.life[block];
    owner[cell] = states.owner[block];
    if (life[cell] >= LoggedState.referenced) hits[cell] = Math.min(255, states.hits[block]);
    if (life[cell] !== LoggedState.idle) continue;
    owner[cell] = history.publications.request(publication[block]);
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

/** The request that published a cached block. */
export function cachedBy({ publications }: EventHistory, states: BlockStates, block: number): number {
  return publications.request(states.publication[block]);
}

/** By `BlockLife`: a referenced block is shown before a private one, then an idle one, then a free one. */
const priority = [0, 2, 3, 1];

function shownOf({ blocks, life, usedAt }: BlockStates, from: number, count: number): number {
  let best = from;
  for (let block = from + 1; block < Math.min(from + count, blocks); block++) {
    const more = priority[life[block]] - priority[life[best]];
    if (more > 0 || (more === 0 && usedAt[block] > usedAt[best])) best = block;
  }
  return best;
}

const base64 = ({ buffer, byteOffset, byteLength }: Uint8Array | Int32Array) =>
  Buffer.from(buffer, byteOffset, byteLength).toString("base64");
