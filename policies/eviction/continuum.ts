import type { EvictionContext, EvictionPlugin, RequestView, SessionView, Signal } from "../../core/plugins/index.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { BySession } from "./by-session.ts";
import { bestTimeToLive, ToolDurations } from "./tool-durations.ts";

/** Admissions over which the queueing delay is averaged. */
const delayWindow = 100;

/** What the policy records about a session. */
interface Program {
  /** Tokens of its last prompt. */
  tokens: number;
  pausedNs: Nanos;
}

/**
 * While a session calls a tool, its entries are evicted after those of other sessions for a time to live, then in LRU order (Continuum,
 * arXiv 2511.02230). The time to live maximises P(τ) · (queueing delay + recomputation of the prompt) − τ, where P is the
 * distribution of the tool's observed durations, of all tools' as long as there are fewer than `samples` of the tool, and
 * before that it is `cold-s`. The queueing delay is the mean of the last 100 admissions.
 *
 * Differences: Continuum pins, so that entries of paused sessions are not evictable, and unpins the program that arrived last
 * if nothing else can run; here they are evicted last, those whose time ends first before the others. The queueing delay has
 * the weight 1, which is Continuum's for programs of equal length. The cost of recomputation is prompt tokens ÷ an option, not a
 * measured profile. The scheduler is a plug-in of its own; Continuum's serves programs in the order of their arrival.
 */
class Continuum extends BySession {
  readonly #coldNs: Nanos;
  readonly #leastSamples: number;
  readonly #nsPerToken: number;
  /** By number of the session. */
  readonly #programs = new Map<SessionView["number"], Program>();
  readonly #durations = new ToolDurations();
  readonly #delaysNs: Nanos[] = [];
  #delayNs: Nanos = 0;

  constructor(context: EvictionContext) {
    super(context);
    const { options } = context;
    this.#coldNs = options["cold-s"] * 1e9;
    this.#leastSamples = options.samples;
    this.#nsPerToken = 1e9 / options["prefill-tokens-per-s"];
  }

  override begin(request: RequestView, now: Nanos): void {
    super.begin(request, now);
    const session = this.context.sessions.of(request);
    if (session === undefined) return;
    this.#addDelay(now - request.arrivalNs);
    this.#programOf(session).tokens = request.inputTokens;
    // Its blocks are referenced now.
    this.clearScore(session);
  }

  override signal(signal: Signal, now: Nanos): void {
    super.signal(signal, now);
    if (signal.session?.state === "closed") this.#programs.delete(signal.session.number);
  }

  protected changed({ name }: Signal, session: SessionView, now: Nanos): void {
    const program = this.#programOf(session);
    if (name === "pause") {
      program.pausedNs = now;
      const ttlNs = this.#ttlNs(session, program);
      if (ttlNs > 0) this.setScore(session, now + ttlNs, now + ttlNs);
    } else if (name === "resume") {
      this.#durations.add(session.tool, now - program.pausedNs);
      // Until the waiting request is admitted, its entries are evicted after those of paused sessions, the last arrivals first.
      if (session.state === "running" && this.hasScore(session)) this.setScore(session, Number.MAX_SAFE_INTEGER - now);
    }
  }

  #ttlNs({ tool }: SessionView, { tokens }: Program): Nanos {
    const durations = this.#durations.of(tool, this.#leastSamples);
    if (durations === undefined) return this.#coldNs;
    return bestTimeToLive(durations, this.#delayNs + tokens * this.#nsPerToken);
  }

  #addDelay(delayNs: Nanos): void {
    const delays = this.#delaysNs;
    delays.push(delayNs);
    if (delays.length > delayWindow) delays.shift();
    this.#delayNs = delays.reduce((sum, each) => sum + each, 0) / delays.length;
  }

  #programOf({ number }: SessionView): Program {
    let program = this.#programs.get(number);
    if (program === undefined) this.#programs.set(number, (program = { tokens: 0, pausedNs: 0 }));
    return program;
  }
}

export const continuum: EvictionPlugin = {
  name: "continuum",
  about:
    "keeps a session's entries during a tool call for a time to live that follows from observed durations; else LRU",
  source: "Continuum (arXiv 2511.02230)",
  onlyByName: true,
  columns: ["lastAccess"],
  options: {
    "cold-s": { about: "time to live before enough tool calls were observed, in seconds", default: 2, fraction: true },
    samples: { about: "observed tool calls from which their distribution is used", default: 100, min: 1 },
    "prefill-tokens-per-s": { about: "prompt tokens that are recomputed in a second", default: 8000, min: 1 },
  },
  create: (context) => new Continuum(context),
};
