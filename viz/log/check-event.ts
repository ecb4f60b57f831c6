import { EventKind, eventNames } from "../../core/log/events.ts";
import { missReasons } from "../../core/log/miss-reasons.ts";
import { BlockLife, type BlockStates } from "./block-states.ts";

const { hit, adopt, evict, allocate, copy, publish, duplicate, release, drop, pin, miss } = EventKind;

/** More places than any prompt has. */
const mostPlaces = 2 ** 22;
const reasons = missReasons.length;

/** What a block may be: a bit for each life. */
const free = 1 << BlockLife.free;
const own = 1 << BlockLife.private;
const held = 1 << BlockLife.held;
const idle = 1 << BlockLife.idle;
const cached = held | idle;
const any = free | own | cached;
const lifeNames = ["free", "private", "held", "idle"];

/** Why an event cannot follow on what there is, in words; undefined if it can. */
export function problemOf(
  states: BlockStates,
  kind: number,
  block: number,
  key: number,
  value: number,
): string | undefined {
  switch (kind) {
    case hit:
    case adopt:
    case pin:
      return wrongBlock(states, block, cached) ?? wrongPlace(value);
    case allocate:
      return wrongBlock(states, block, free) ?? wrongPlace(value);
    case copy:
      return wrongBlock(states, block, free) ?? wrongBlock(states, key, any) ?? wrongPlace(value);
    case duplicate:
      return wrongBlock(states, block, own) ?? wrongBlock(states, key, cached) ?? wrongPlace(value);
    case publish:
      if (!Number.isSafeInteger(key) || key < 0) return `content is ${key}, expected a whole number`;
      return wrongBlock(states, block, own) ?? wrongPlace(value);
    case release:
      return wrongBlock(states, block, value === 1 ? held : own);
    case evict:
      return wrongBlock(states, block, idle);
    case drop:
      return wrongBlock(states, block, cached);
    case miss:
      return value >= 0 && value < reasons ? undefined : `its reason is ${value}, expected 0 to ${reasons - 1}`;
    default:
      return kind < eventNames.length ? undefined : `its kind is ${kind}, expected 0 to ${eventNames.length - 1}`;
  }
}

function wrongBlock(states: BlockStates, block: number, may: number): string | undefined {
  if (!(block >= 0 && block < states.blocks)) return `block ${block}, expected 0 to ${states.blocks - 1}`;
  const life = states.life[block];
  if ((1 << life) & may) return undefined;
  const expected = lifeNames.filter((_, other) => (1 << other) & may).join(" or ");
  return `block ${block} is ${lifeNames[life]}, expected ${expected}`;
}

const wrongPlace = (place: number) =>
  place >= 0 && place < mostPlaces ? undefined : `place ${place}, expected 0 to ${mostPlaces - 1}`;
