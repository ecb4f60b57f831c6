import FlatQueue from "flatqueue";
import { InputError } from "../core/errors.ts";
import { type Random, seededRandom } from "../core/random.ts";
import { type Nanos, type Trace, TraceBuilder, type TraceSource } from "../core/trace/trace.ts";
import { exponential, geometric, logNormal, zipf } from "./random.ts";

/** Options of generated chat traffic. Lengths and think times are means of distributions. */
export interface ChatOptions {
  readonly requests: number;
  readonly seed: number;
  /** Tokens per content id. */
  readonly unitTokens: number;
  /** New sessions per second; a Poisson process. */
  readonly sessionsPerS: number;
  /** Number of system prompts; a session begins with one of them. */
  readonly systemPrompts: number;
  readonly systemTokens: number;
  /** Zipf exponent: the k-th system prompt is chosen k^−zipf times as often as the first. */
  readonly zipf: number;
  /** Turns per session (geometric distribution). */
  readonly turns: number;
  /** Length of a user message in tokens. */
  readonly userTokens: number;
  readonly outputTokens: number;
  /** Time between the end of an output and the next turn. */
  readonly thinkS: number;
  /** Assumed rate of output tokens; the next turn arrives after the end of the output. */
  readonly outputTokensPerS: number;
  /** Longest prompt; a session ends before a longer one. */
  readonly maxInputTokens: number;
}

/** Defaults: a few minutes of a busy service; with a cache of a tenth of the content, hit ratios of policies differ. */
export const chatDefaults: ChatOptions = {
  requests: 4000,
  seed: 1,
  unitTokens: 16,
  sessionsPerS: 2,
  systemPrompts: 60,
  systemTokens: 600,
  zipf: 1,
  turns: 5,
  userTokens: 80,
  outputTokens: 160,
  thinkS: 40,
  outputTokensPerS: 40,
  maxInputTokens: 32_768,
};

/** Range of each option. */
const limits: { readonly [Name in keyof ChatOptions]: { least: number; most: number; integer: boolean } } = {
  requests: { least: 1, most: 100_000_000, integer: true },
  seed: { least: 0, most: 2 ** 32 - 1, integer: true },
  unitTokens: { least: 2, most: 65_536, integer: true },
  sessionsPerS: { least: 1e-3, most: 1e6, integer: false },
  systemPrompts: { least: 1, most: 1_000_000, integer: true },
  systemTokens: { least: 0, most: 1_000_000, integer: true },
  zipf: { least: 0, most: 10, integer: false },
  turns: { least: 1, most: 1000, integer: false },
  userTokens: { least: 1, most: 1_000_000, integer: true },
  outputTokens: { least: 1, most: 1_000_000, integer: true },
  thinkS: { least: 0, most: 86_400, integer: false },
  outputTokensPerS: { least: 0.1, most: 1e6, integer: false },
  maxInputTokens: { least: 1, most: 2 ** 31 - 1, integer: true },
};

const batchRequests = 8192;
const nanosPerS = 1e9;
/** Standard deviation of the logarithm of lengths. */
const messageSigma = 0.8;
const systemSigma = 0.5;

/**
 * Generated chat traffic: sessions arrive at random, begin with a system prompt that they share with others (Zipf), and
 * take several turns, each of which sends the whole history again with a new message. The system prompt is marked as a
 * prefix, for caches that store marked prefixes. The same options generate the same trace on every machine.
 *
 * @throws InputError if an option is out of range.
 */
export function chatSource(options: Partial<ChatOptions> = {}): TraceSource {
  const complete = { ...chatDefaults, ...options };
  for (const name of Object.keys(complete) as (keyof ChatOptions)[]) checkOption(name, complete[name]);
  return { format: "chat", files: [], content: "blocks", batches: () => chatBatches(complete) };
}

function checkOption(name: keyof ChatOptions, value: number): void {
  if (!Object.hasOwn(limits, name))
    throw new InputError(`chat has no option "${name}", expected one of ${Object.keys(limits).join(", ")}`);
  const { least, most, integer } = limits[name];
  if (value >= least && value <= most && (!integer || Number.isInteger(value))) return;
  throw new InputError(
    `${name} is ${value}, expected ${integer ? "a whole number" : "a number"} from ${least} to ${most}`,
  );
}

async function* chatBatches(options: ChatOptions): AsyncGenerator<Trace> {
  const builder = new TraceBuilder(options.unitTokens);
  const chat = new Chat(options);
  for (let left = options.requests; left > 0; left--) {
    chat.addNext(builder);
    if (builder.requestCount === batchRequests) yield builder.take();
  }
  if (builder.requestCount > 0) yield builder.take();
}

/** A system prompt: its length, and the content ids of its full blocks that some session has sent. */
interface SystemPrompt {
  readonly tokens: number;
  readonly keys: number[];
}

interface Session {
  /** From 1, in the order of their first requests. */
  readonly id: number;
  readonly system: SystemPrompt;
  turnsLeft: number;
  /** Length of the next prompt: the history and the new message. */
  inputTokens: number;
  /** Content ids of the full blocks sent so far. */
  readonly keys: number[];
  lastRow: number;
  thinkNs: Nanos;
}

/** All active sessions, in the order of their next requests. */
class Chat {
  readonly #options: ChatOptions;
  /** One random generator per quantity, so that, for example, the number of turns does not change arrivals. */
  readonly #arrivals: Random;
  readonly #lengths: Random;
  readonly #systems: SystemPrompt[];
  readonly #popular: () => number;
  readonly #next = new FlatQueue<Session>();
  #nextSessionNs: Nanos = 0;
  #sessionCount = 0;
  #row = 0;
  #distinctKeys = 0;

  constructor(options: ChatOptions) {
    this.#options = options;
    this.#arrivals = seededRandom(options.seed);
    this.#lengths = seededRandom(options.seed ^ 0x5bd1e995);
    const { systemPrompts, systemTokens, maxInputTokens } = options;
    // At least one token of a prompt belongs to the session alone, so that no two sessions send the same prompt.
    const tokens = () => Math.min(this.#length(systemTokens, systemSigma), maxInputTokens - 1);
    this.#systems = Array.from({ length: systemPrompts }, () => ({ tokens: tokens(), keys: [] }));
    this.#popular = zipf(this.#arrivals, systemPrompts, options.zipf);
  }

  /** Appends the next request. */
  addNext(builder: TraceBuilder): void {
    const waiting = this.#next.peekValue();
    // At equal times an active session precedes a new one.
    if (waiting === undefined || waiting > this.#nextSessionNs) {
      const arrivalNs = this.#nextSessionNs;
      this.#nextSessionNs += nanos(exponential(this.#arrivals) / this.#options.sessionsPerS);
      this.#add(builder, arrivalNs, this.#newSession());
    } else this.#add(builder, waiting, this.#next.pop()!);
  }

  #newSession(): Session {
    const { turns, userTokens, maxInputTokens } = this.#options;
    const system = this.#systems[this.#popular()];
    return {
      id: ++this.#sessionCount,
      system,
      turnsLeft: geometric(this.#arrivals, turns),
      inputTokens: Math.min(maxInputTokens, system.tokens + Math.max(1, this.#length(userTokens))),
      keys: [],
      lastRow: -1,
      thinkNs: 0,
    };
  }

  #add(builder: TraceBuilder, arrivalNs: Nanos, session: Session): void {
    const { outputTokens, userTokens, thinkS, outputTokensPerS, maxInputTokens } = this.#options;
    const output = Math.max(1, this.#length(outputTokens));
    builder.add({
      arrivalNs,
      inputTokens: session.inputTokens,
      outputTokens: output,
      // Clients request round limits, which outputs seldom reach.
      maxOutputTokens: Math.ceil((output + this.#lengths.below(outputTokens) + 1) / 64) * 64,
      keys: this.#keysOf(session),
      session: session.id,
      parent: session.lastRow,
      thinkNs: session.thinkNs,
      markedTokens: session.system.tokens,
    });
    session.lastRow = this.#row++;
    session.inputTokens += output + Math.max(1, this.#length(userTokens));
    if (--session.turnsLeft === 0 || session.inputTokens > maxInputTokens) return;
    session.thinkNs = nanos(exponential(this.#arrivals) * thinkS);
    this.#next.push(session, arrivalNs + nanos(output / outputTokensPerS) + session.thinkNs);
  }

  /**
   * Content ids of the prompt. Each part has equal ids in these other prompts:
   *
   *     prompt   [system prompt, whole blocks) [the rest, whole blocks) [partial block)
   *     equal    in all its sessions           in later turns           nowhere: later it is longer
   */
  #keysOf(session: Session): number[] {
    const { unitTokens } = this.#options;
    const { system, keys, inputTokens } = session;
    const wholeBlocks = Math.floor(inputTokens / unitTokens);
    const systemBlocks = Math.min(wholeBlocks, Math.floor(system.tokens / unitTokens));
    while (system.keys.length < systemBlocks) system.keys.push(this.#distinctKeys++);
    for (let block = keys.length; block < wholeBlocks; block++)
      keys.push(block < systemBlocks ? system.keys[block] : this.#distinctKeys++);
    return inputTokens % unitTokens === 0 ? keys : [...keys, this.#distinctKeys++];
  }

  /** A random length with this mean; 0 only if the mean is 0. */
  #length(mean: number, sigma = messageSigma): number {
    return Math.min(Math.ceil(logNormal(this.#lengths, mean, sigma)), 64 * mean);
  }
}

function nanos(seconds: number): Nanos {
  return Math.round(seconds * nanosPerS);
}
