import FlatQueue from "flatqueue";
import type { Random } from "../../core/random.ts";
import { type Nanos, type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import { EarlierRequests } from "./earlier-requests.ts";
import { stream } from "./jobs.ts";
import type { SessionTurns, TraceModel, Turn } from "./trace-model.ts";

/** Neighbouring sessions that are drawn in random order, so that changes of the load over the trace are kept. */
const windowSessions = 64;
const batchRequests = 8192;

interface LikeOptions {
  readonly requests: number;
  readonly seed: number;
  /** The model of which depth and age of shared prefixes are drawn, for a trace of lengths. */
  readonly sharing?: TraceModel;
}

/**
 * Requests drawn from a model. Sessions are drawn whole, and start at drawn intervals. A turn shares a prefix with an earlier
 * turn of its session, or with an earlier request of about the same age as in the trace; the rest is new content.
 */
export async function* likeBatches(model: TraceModel, options: LikeOptions): AsyncGenerator<Trace> {
  const sessions = new LikeSessions(model, options);
  const builder = new TraceBuilder(model.unitTokens);
  for (let row = 0; row < options.requests; row++) {
    sessions.addNext(builder, row);
    if (builder.requestCount === batchRequests) yield builder.take();
  }
  if (builder.requestCount > 0) yield builder.take();
}

/** A session that has further turns. */
interface OpenSession {
  readonly turns: SessionTurns;
  /** 0 for a request without a session. */
  readonly id: number;
  /** Content ids of the turns so far. */
  readonly keys: Uint32Array[];
  lastRow: number;
}

class LikeSessions {
  readonly #model: TraceModel;
  readonly #sessions: Draws;
  readonly #gaps: Draws;
  readonly #random: Random;
  readonly #sharing: readonly Turn[] | undefined;
  readonly #due = new FlatQueue<OpenSession>();
  readonly #earlier = new EarlierRequests();
  #nextStartNs: Nanos = 0;
  #started = 0;
  #sessionCount = 0;
  #distinct = 0;

  constructor(model: TraceModel, { seed, sharing }: LikeOptions) {
    this.#model = model;
    this.#sessions = new Draws(model, stream(seed, 1));
    this.#gaps = new Draws(model, stream(seed, 2));
    this.#random = stream(seed, 3);
    this.#sharing = sharing?.samples.flat();
  }

  /** Adds the next request. */
  addNext(builder: TraceBuilder, row: number): void {
    const dueNs = this.#due.peekValue();
    // At equal times an active session precedes a new one.
    if (dueNs !== undefined && dueNs <= this.#nextStartNs) {
      this.#add(builder, row, dueNs, this.#due.pop()!);
      return;
    }
    const startNs = this.#nextStartNs;
    this.#nextStartNs += this.#gaps.next()[0].gapNs;
    const { samples, stride, tailNs } = this.#model;
    // The trace begins again after its last request.
    if (++this.#started % (samples.length * stride) === 0) this.#nextStartNs += tailNs;
    this.#add(builder, row, startNs, this.#begin(this.#sessions.next()));
  }

  #begin(turns: SessionTurns): OpenSession {
    const hasId = this.#model.hasSessions || turns.length > 1;
    return {
      turns,
      id: hasId ? ++this.#sessionCount : 0,
      keys: [],
      lastRow: -1,
    };
  }

  #add(builder: TraceBuilder, row: number, arrivalNs: Nanos, session: OpenSession): void {
    const { turns, id, lastRow: parent } = session;
    const turn = turns[session.keys.length];
    const { inputTokens, outputTokens, thinkNs } = turn;
    const keys = this.#keysOf(turn, session, row);
    const isLater = parent >= 0;
    builder.add({
      ...{ arrivalNs, inputTokens, outputTokens, keys },
      ...(id > 0 && { session: id }),
      ...(isLater && { parent }),
      ...(isLater && thinkNs !== undefined && { thinkNs }),
    });
    session.keys.push(keys);
    session.lastRow = row;
    const next = turns[session.keys.length];
    if (next) this.#due.push(session, arrivalNs + next.gapNs);
  }

  /** Content ids of a turn: shared ones, then new ones. */
  #keysOf(turn: Turn, session: OpenSession, row: number): Uint32Array {
    const { inputTokens, from } = turn;
    const { unitTokens } = this.#model;
    const whole = Math.floor(inputTokens / unitTokens);
    const keys = new Uint32Array(this.#sharing ? Math.ceil(inputTokens / unitTokens) : turn.blocks);
    const { seen, age } = this.#sharing ? this.#drawnSharing(keys.length) : turn;
    const shared =
      from !== undefined && !this.#sharing
        ? session.keys[from].subarray(0, seen)
        : this.#earlier.prefix(row, age, Math.min(seen, whole));
    keys.set(shared);
    for (let i = shared.length; i < keys.length; i++) keys[i] = this.#distinct++;
    this.#earlier.add(row, keys.subarray(0, whole));
    return keys;
  }

  #drawnSharing(blocks: number): { readonly seen: number; readonly age: number } {
    const turns = this.#sharing!;
    const drawn = turns[this.#random.below(turns.length)];
    return { seen: drawn.blocks === 0 ? 0 : Math.round((drawn.seen / drawn.blocks) * blocks), age: drawn.age };
  }
}

/** The sessions of a model: those of each window in random order, the windows in order, again and again. */
class Draws {
  readonly #model: TraceModel;
  readonly #random: Random;
  #order: SessionTurns[] = [];
  #next = 0;

  constructor(model: TraceModel, random: Random) {
    this.#model = model;
    this.#random = random;
  }

  next(): SessionTurns {
    const { samples, stride } = this.#model;
    // A sample represents `stride` sessions.
    const at = Math.floor(this.#next++ / stride) % samples.length;
    const place = at % windowSessions;
    if (place === 0) this.#order = this.#shuffled(samples.slice(at, at + windowSessions));
    return this.#order[place];
  }

  #shuffled(sessions: SessionTurns[]): SessionTurns[] {
    for (let i = sessions.length - 1; i > 0; i--) {
      const j = this.#random.below(i + 1);
      [sessions[i], sessions[j]] = [sessions[j], sessions[i]];
    }
    return sessions;
  }
}
