import { LoggedState } from "../../core/log/block-lives.ts";
import { ignore, type LogEvent, type WithoutBlock } from "../../core/log/events.ts";
import type { BlockStates } from "./block-states.ts";

/** More places than the block table of any prompt has. */
const mostPlaces = 2 ** 22;

/** Sets of states of a block: a bit for each. */
const free = 1 << LoggedState.free;
const own = 1 << LoggedState.private;
const referenced = 1 << LoggedState.referenced;
const idle = 1 << LoggedState.idle;
const cached = referenced | idle;
const any = free | own | cached;
const lifeNames = Object.keys(LoggedState);

/** Why an event is impossible in these states, as a message; undefined if it is possible. */
export function problemOf(states: BlockStates, event: LogEvent): string | undefined {
  const { block } = event;
  switch (event.name) {
    case "hit":
    case "adopt":
    case "pin":
      return wrongBlock(states, block, cached) ?? wrongPlace(event.place);
    case "allocate":
      return wrongBlock(states, block, free) ?? wrongPlace(event.place);
    case "copy":
      return wrongBlock(states, block, free) ?? wrongBlock(states, event.sourceBlock, any) ?? wrongPlace(event.place);
    case "duplicate":
      return wrongBlock(states, block, own) ?? wrongBlock(states, event.keptBlock, cached) ?? wrongPlace(event.place);
    case "publish":
      return wrongBlock(states, block, own) ?? wrongPlace(event.place);
    case "release":
      return wrongBlock(states, block, event.keptCached ? referenced : own);
    case "evict":
      return wrongBlock(states, block, idle);
    case "drop":
      return wrongBlock(states, block, cached);
    default:
      ignore<WithoutBlock>(event);
      return undefined;
  }
}

function wrongBlock(states: BlockStates, block: number, allowed: number): string | undefined {
  if (!(block >= 0 && block < states.blocks)) return `block ${block}, expected 0 to ${states.blocks - 1}`;
  const life = states.life[block];
  if ((1 << life) & allowed) return undefined;
  const expected = lifeNames.filter((_, other) => (1 << other) & allowed).join(" or ");
  return `block ${block} is ${lifeNames[life]}, expected ${expected}`;
}

const wrongPlace = (place: number) =>
  place >= 0 && place < mostPlaces ? undefined : `place ${place}, expected 0 to ${mostPlaces - 1}`;
