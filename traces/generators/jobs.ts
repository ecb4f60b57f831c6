import FlatQueue from "flatqueue";
import { chanceOf, type Random, seededRandom } from "../../core/random.ts";
import type { Nanos, TraceBuilder, TraceRow } from "../../core/trace/trace.ts";
import { exponential, logNormal } from "../random.ts";
import type { Workload } from "./generator.ts";
import { type Prompt, PromptKeys } from "./prompt.ts";

/** A conversation; it is numbered when it sends its first request. */
export interface Session {
  number?: number;
}

/** A request before its row is known. */
export interface Request {
  readonly atNs: Nanos;
  readonly prompt: Prompt;
  readonly outputTokens: number;
  readonly maxOutputTokens: number;
  readonly session?: Session;
  /** The previous turn, which has been sent. */
  readonly parent?: Sent;
  readonly thinkNs?: Nanos;
  /** Length of the marked prefix, in tokens. */
  readonly markedTokens?: number;
  readonly namespace?: number;
  readonly category?: number;
  readonly priority?: number;
  /** Set when the request is sent. */
  readonly sent: Sent;
}

/** The row of a request that has been sent. */
export interface Sent {
  row: number;
}

/** The requests of one session or tree, in the order of their arrival. At least one. */
export type Job = Iterator<Request, void>;

interface Waiting {
  readonly job: Job;
  readonly request: Request;
}

/** Merges jobs that begin at given times into one sequence of requests. Memory depends on the number of active jobs. */
export class Jobs implements Workload {
  readonly #keys: PromptKeys;
  readonly #nextStartNs: () => Nanos;
  readonly #begin: (atNs: Nanos, number: number) => Job;
  readonly #waiting = new FlatQueue<Waiting>();
  #startNs: Nanos;
  #jobCount = 0;
  #sessionCount = 0;
  #row = 0;

  /** `nextStartNs` returns the start of each job in turn, never decreasing; `begin` is called in this order. */
  constructor(unitTokens: number, nextStartNs: () => Nanos, begin: (atNs: Nanos, number: number) => Job) {
    this.#keys = new PromptKeys(unitTokens);
    this.#nextStartNs = nextStartNs;
    this.#begin = begin;
    this.#startNs = nextStartNs();
  }

  addNext(builder: TraceBuilder): void {
    // At equal times an active job precedes a new one.
    for (let first = this.#waiting.peekValue(); first === undefined || first > this.#startNs; ) {
      this.#advance(this.#begin(this.#startNs, this.#jobCount++));
      this.#startNs = this.#nextStartNs();
      first = this.#waiting.peekValue();
    }
    const { job, request } = this.#waiting.pop()!;
    builder.add(this.#rowOf(request));
    this.#advance(job);
  }

  #advance(job: Job): void {
    const next = job.next();
    if (!next.done) this.#waiting.push({ job, request: next.value }, next.value.atNs);
  }

  #rowOf(request: Request): TraceRow {
    const { session, parent, thinkNs, markedTokens, namespace, category, priority, prompt } = request;
    request.sent.row = this.#row++;
    if (session) session.number ??= ++this.#sessionCount;
    return {
      arrivalNs: request.atNs,
      inputTokens: prompt.tokens,
      outputTokens: request.outputTokens,
      maxOutputTokens: request.maxOutputTokens,
      keys: this.#keys.of(prompt),
      ...(session && { session: session.number!, parent: parent ? parent.row : -1, thinkNs: thinkNs ?? 0 }),
      ...(markedTokens !== undefined && { markedTokens }),
      ...(namespace !== undefined && { namespace }),
      ...(category !== undefined && { category }),
      ...(priority !== undefined && { priority }),
    };
  }
}

/** Start times of a Poisson process. */
export function poisson(random: Random, perS: number): () => Nanos {
  let atNs = 0;
  return () => {
    const startNs = atNs;
    atNs += nanos(exponential(random) / perS);
    return startNs;
  };
}

export const nanos = (seconds: number): Nanos => Math.round(seconds * 1e9);

/** Random numbers for one quantity of a trace, or for one of its jobs or documents. */
export const stream = (seed: number, quantity: number, number = 0): Random =>
  seededRandom(Math.floor(2 ** 32 * chanceOf(seed ^ Math.imul(quantity, 0x5bd1e995), number)));

/** Standard deviation of the logarithm of lengths of messages. */
const messageSigma = 0.8;
/** The same for system prompts and documents, which vary less. */
export const documentSigma = 0.5;

/** A random length with about this mean; 0 only if the mean is 0. */
export const lengthOf = (random: Random, mean: number, sigma = messageSigma): number =>
  Math.min(Math.ceil(logNormal(random, mean, sigma)), 64 * mean);

/** Random output lengths, with the limits that clients request: round numbers, which outputs seldom reach. */
export function outputOf(random: Random, mean: number): Pick<Request, "outputTokens" | "maxOutputTokens"> {
  const outputTokens = lengthOf(random, mean);
  return { outputTokens, maxOutputTokens: Math.ceil((outputTokens + random.below(mean) + 1) / 64) * 64 };
}
