import { grouped } from "../../core/counted.ts";
import { LoggedState } from "../../core/log/block-lives.ts";
import type { BlockStates } from "./block-states.ts";
import type { EventHistory } from "./event-history.ts";

/** Configuration of a cache that is not in its event log. */
export interface Policy {
  readonly eviction: string;
  /** Only leaves are evictable: blocks that no cached block extends. */
  readonly leavesOnly: boolean;
}

/** The rank of an eviction victim among the evictable blocks; the first criterion is the one that its policy orders by. */
export function rankOf(
  history: EventHistory,
  states: BlockStates,
  victim: number,
  policy: Policy,
  ageOf: (event: number) => string,
): string {
  const { usedAt, publication, hits } = states;
  const { publications } = history;
  const { event, batch } = publications;
  const place = (block: number) => publications.place(publication[block]);
  const others = candidates(history, states, policy.leavesOnly);
  const rank = (word: string, of: (block: number) => number) => {
    const own = of(victim);
    return placeAmong(
      others.reduce((before, block) => before + (of(block) < own ? 1 : 0), 0),
      word,
    );
  };
  const facts = {
    idle: `has been idle for ${ageOf(usedAt[victim])}, ${rank("longest", (block) => usedAt[block])}`,
    age: `was cached ${ageOf(event[publication[victim]])} ago, ${rank("longest ago", (block) => batch[publication[block]])}`,
    hits: `was hit ${times(hits[victim])}, ${rank("least often", (block) => hits[block])}`,
    depth: `is at block ${grouped(place(victim))} of its prompt, ${rank("deepest", (block) => -place(block))}`,
  };
  const { [firstOf(policy.eviction)]: first, ...rest } = facts;
  return `${first} of ${grouped(others.length)} evictable; it ${Object.values(rest).join("; ")}`;
}

const firstOf = (eviction: string) => (eviction === "fifo" ? "age" : eviction === "lfu" ? "hits" : "idle");

/** Evictable blocks: idle and, in a tree, leaves. */
function candidates({ publications }: EventHistory, states: BlockStates, leavesOnly: boolean): number[] {
  const { blocks, life, publication } = states;
  const { parent } = publications;
  const extended = new Uint8Array(blocks);
  if (leavesOnly)
    for (let block = 0; block < blocks; block++) {
      const before = states.isCached(block) ? parent[publication[block]] : -1;
      if (before < 0) continue;
      const extendedBlock = publications.block(before);
      if (publication[extendedBlock] === before) extended[extendedBlock] = 1;
    }
  const found: number[] = [];
  for (let block = 0; block < blocks; block++)
    if (life[block] === LoggedState.idle && extended[block] === 0) found.push(block);
  return found;
}

export const times = (count: number) => (count === 0 ? "never" : count === 1 ? "once" : `${grouped(count)} times`);

/** "the longest", "the 2nd longest" */
function placeAmong(before: number, word: string): string {
  if (before === 0) return `the ${word}`;
  const place = before + 1;
  const isTeen = Math.floor(place / 10) % 10 === 1;
  const ending = isTeen ? "th" : (["th", "st", "nd", "rd"][place % 10] ?? "th");
  return `the ${grouped(place)}${ending} ${word}`;
}
