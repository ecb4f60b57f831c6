import { type SignalName, signalNames } from "../plugins/signals.ts";
import type { Nanos } from "../trace/trace.ts";
import { EventKind, type EventName, eventNames, type LogEvent } from "./events.ts";
import { type MissReason, missReasons } from "./miss-reasons.ts";

/** The columns of a log whose meaning depends on the kind of event; −1: unused. */
export interface EventRow {
  readonly block: number;
  readonly key: number;
  readonly value: number;
}

/**
 * One decoded row of an event log; a reader of many events reuses one record for all of them. Only the fields of the
 * event's own kind are valid, which the type `LogEvent` enforces. `rowOf` and the methods of `EventLog` encode.
 */
export class EventRecord {
  name: EventName = "admit";
  at = 0;
  timeNs: Nanos = 0;
  request = -1;
  block = -1;
  content = -1;
  place = -1;
  sourceBlock = -1;
  keptBlock = -1;
  rejectedBlock = -1;
  endToken = -1;
  hitTokens = -1;
  hitBlocks = -1;
  missReason: MissReason = "never-seen";
  keptCached = false;
  outputTokens = -1;
  requests = -1;
  tokens = -1;
  blocks = -1;
  signal: SignalName = "pause";
  session = 0;

  /** Decodes row `at` of a log; valid until the next call. `problemInRow` must have found nothing. Frequent kinds are first. */
  decode(
    at: number,
    kind: number,
    timeNs: Nanos,
    request: number,
    block: number,
    key: number,
    value: number,
  ): LogEvent {
    this.name = eventNames[kind];
    this.at = at;
    this.timeNs = timeNs;
    this.request = request;
    this.block = block;
    switch (kind) {
      case EventKind.release:
        this.keptCached = value === 1;
        break;
      case EventKind.hit:
      case EventKind.publish:
      case EventKind.adopt:
      case EventKind.pin:
        this.content = key;
        this.place = value;
        break;
      case EventKind.allocate:
        this.place = value;
        break;
      case EventKind.evict:
      case EventKind.drop:
        this.content = key;
        this.endToken = value;
        break;
      case EventKind.miss:
        this.content = key;
        this.missReason = missReasons[value];
        break;
      case EventKind.step:
        this.requests = key;
        this.tokens = value;
        break;
      case EventKind.admit:
        this.hitTokens = key;
        this.hitBlocks = value;
        break;
      case EventKind.copy:
        this.sourceBlock = key;
        this.place = value;
        break;
      case EventKind.duplicate:
        this.keptBlock = key;
        this.place = value;
        break;
      case EventKind.trim:
        this.rejectedBlock = key;
        this.place = value;
        break;
      case EventKind.signal:
        this.session = key;
        this.signal = signalNames[value];
        break;
      case EventKind.finish:
        this.outputTokens = key;
        break;
      case EventKind.clear:
        this.blocks = key;
        break;
      case EventKind.swapOut:
      case EventKind.swapIn:
      case EventKind.send:
      case EventKind.receive:
        this.tokens = key;
        this.blocks = value;
        break;
    }
    return this as LogEvent;
  }
}

/** The columns of a decoded event. */
export function rowOf(event: LogEvent): EventRow {
  const { block } = event;
  switch (event.name) {
    case "admit":
      return { block, key: event.hitTokens, value: event.hitBlocks };
    case "hit":
    case "adopt":
    case "publish":
    case "pin":
      return { block, key: event.content, value: event.place };
    case "miss":
      return { block, key: event.content, value: missReasons.indexOf(event.missReason) };
    case "evict":
    case "drop":
      return { block, key: event.content, value: event.endToken };
    case "allocate":
      return { block, key: -1, value: event.place };
    case "copy":
      return { block, key: event.sourceBlock, value: event.place };
    case "step":
      return { block, key: event.requests, value: event.tokens };
    case "duplicate":
      return { block, key: event.keptBlock, value: event.place };
    case "trim":
      return { block, key: event.rejectedBlock, value: event.place };
    case "release":
      return { block, key: -1, value: event.keptCached ? 1 : 0 };
    case "finish":
      return { block, key: event.outputTokens, value: -1 };
    case "signal":
      return { block, key: event.session, value: signalNames.indexOf(event.signal) };
    case "refuse":
    case "preempt":
    case "unpin":
      return { block, key: -1, value: -1 };
    case "clear":
      return { block, key: event.blocks, value: -1 };
    case "swapOut":
    case "swapIn":
    case "send":
    case "receive":
      return { block, key: event.tokens, value: event.blocks };
  }
}

/** The reason why a row read from a file cannot be decoded; undefined if it can. */
export function problemInRow(kind: number, key: number, value: number): string | undefined {
  if (!(kind < eventNames.length)) return `its kind is ${kind}, expected 0 to ${eventNames.length - 1}`;
  if (kind === EventKind.miss && !(value >= 0 && value < missReasons.length))
    return `its reason is ${value}, expected 0 to ${missReasons.length - 1}`;
  if (kind === EventKind.signal && !(value >= 0 && value < signalNames.length))
    return `its signal is ${value}, expected 0 to ${signalNames.length - 1}`;
  if (kind === EventKind.publish && !(Number.isSafeInteger(key) && key >= 0))
    return `content is ${key}, expected a whole number`;
  return undefined;
}
