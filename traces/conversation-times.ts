import FlatQueue from "flatqueue";
import { seededRandom } from "../core/random.ts";
import type { Nanos, TraceRow } from "../core/trace/trace.ts";
import type { Notes } from "./format.ts";
import { exponential } from "./random.ts";
import type { TokenizedRequest } from "./text-requests.ts";

const meanIntervalS = 1;
const meanThinkS = 40;
const outputTokensPerS = 40;
const seed = 1;

/** Random arrival times of requests or conversations that have none: a Poisson process of one a second, the same in every run. */
export class RandomArrivals {
  readonly #random = seededRandom(seed);
  #nextNs: Nanos = 0;

  next(): Nanos {
    const arrivalNs = this.#nextNs;
    this.#nextNs += this.#exponentialNs(meanIntervalS);
    return arrivalNs;
  }

  /** A random think time. */
  thinkNs(): Nanos {
    return this.#exponentialNs(meanThinkS);
  }

  note(notes: Notes, what: string): void {
    notes.add(`the trace has no arrival times: ${what} at random, one a second (--rate changes the rate)`);
  }

  #exponentialNs(meanS: number): Nanos {
    return nanos(exponential(this.#random) * meanS);
  }
}

/** The requests of a conversation. */
export interface Turns {
  readonly count: number;
  request(turn: number): TokenizedRequest;
}

/** A conversation with turns that have not arrived. */
interface Waiting {
  readonly turns: Turns;
  /** The next turn. */
  turn: number;
  lastRow: number;
  thinkNs: Nanos;
}

/**
 * Gives arrival times to the turns of conversations that have none. Conversations start in order, by a Poisson process of one
 * a second. Each further turn arrives when the output before it is complete, at 40 tokens a second, and a think time has
 * passed, which is exponential with a mean of 40 s.
 */
export async function* withArrivalTimes(conversations: AsyncIterable<Turns>, notes: Notes): AsyncGenerator<TraceRow> {
  const random = new RandomArrivals();
  const waiting = new FlatQueue<Waiting>();
  let row = 0;

  function next(): TraceRow {
    const arrivalNs = waiting.peekValue()!;
    const conversation = waiting.pop()!;
    const { turns, lastRow, thinkNs } = conversation;
    const request = turns.request(conversation.turn++);
    conversation.lastRow = row++;
    if (conversation.turn < turns.count) {
      conversation.thinkNs = random.thinkNs();
      waiting.push(conversation, arrivalNs + nanos(request.outputTokens / outputTokensPerS) + conversation.thinkNs);
    }
    return { ...request, arrivalNs, ...(turns.count > 1 && { parent: lastRow, thinkNs }) };
  }

  for await (const turns of conversations) {
    const startNs = random.next();
    while (waiting.length > 0 && waiting.peekValue()! <= startNs) yield next();
    waiting.push({ turns, turn: 0, lastRow: -1, thinkNs: 0 }, startNs);
  }
  while (waiting.length > 0) yield next();
  random.note(notes, "conversations start");
}

function nanos(seconds: number): Nanos {
  return Math.round(seconds * 1e9);
}
