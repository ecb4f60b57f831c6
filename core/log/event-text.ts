import { counted } from "../counted.ts";
import type { EventName } from "./events.ts";
import { missReasons } from "./miss-reasons.ts";

/** One event of a log. What it says nothing about is −1. */
export interface LoggedEvent {
  readonly name: EventName;
  readonly request: number;
  readonly block: number;
  readonly key: number;
  readonly value: number;
  /** If its block was cached just before it: by which request, and which one used it last. */
  readonly cachedBy?: number | undefined;
  readonly usedBy?: number | undefined;
}

/** What a log alone does not say. */
export interface EventNames {
  /** Of a content that is missed, evicted, forgotten or kept; such as "content 17". */
  content(content: number): string;
  /** How many of a request's blocks are looked up when it is admitted; such as "3 prompt blocks". */
  blocks(request: number): string;
}

/** An event as a sentence about its request. */
export function sentenceOf(event: LoggedEvent, names: EventNames): string {
  if (event.name === "step") return `a step ${actOf(event, names)}`;
  return `${event.request < 0 ? "an operator" : `request ${event.request}`} ${actOf(event, names)}`;
}

/** What the event's request does. */
export function actOf({ name, request, block, key, value, cachedBy, usedBy }: LoggedEvent, names: EventNames): string {
  const past =
    (cachedBy === undefined ? "" : `, cached by request ${cachedBy}`) +
    (usedBy === undefined ? "" : `, last used by request ${usedBy}`);
  switch (name) {
    case "admit":
      return `is admitted with ${value} of its ${names.blocks(request)} cached (${counted(key, "token")})`;
    case "hit":
      return `finds its block ${value}, content ${key}${past}; cache block ${block}`;
    case "adopt":
      return `takes its block ${value} from behind a hole, content ${key}${past}, to compute it again in place; cache block ${block}`;
    case "miss":
      return `misses ${names.content(key)}: ${missReasons[value]}`;
    case "evict":
      return `evicts ${names.content(key)}${past}; cache block ${block}`;
    case "drop":
      return `makes the index forget ${names.content(key)}${past}; cache block ${block}`;
    case "allocate":
      return `gets cache block ${block} for its block ${value}`;
    case "copy":
      return `gets cache block ${block}, a copy of cache block ${key}, for its block ${value}`;
    case "step":
      return `computes ${counted(value, "token")} of ${counted(key, "request")}`;
    case "publish":
      return `caches its block ${value}, content ${key}; cache block ${block}`;
    case "duplicate":
      return `gives cache block ${block} up for cache block ${key}, which has the same content, as its block ${value}`;
    case "release":
      return `lets cache block ${block} go, which ${value === 1 ? "stays cached" : "is free then"}`;
    case "finish":
      return `ends after ${counted(key, "generated token")}`;
    case "refuse":
      return "is refused: it needs more blocks than there are";
    case "preempt":
      return "goes back to the queue";
    case "clear":
      return `empties the cache of ${counted(key, "block")}`;
    case "pin":
      return `keeps ${names.content(key)}; cache block ${block}`;
    case "unpin":
      return "lets what it kept go";
    case "swapOut":
      return `has its ${counted(key, "token")} moved to the host, ${counted(value, "block")}`;
    case "swapIn":
      return `has ${counted(key, "token")} moved back from the host, ${counted(value, "block")}`;
  }
}
