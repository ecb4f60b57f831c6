import FlatQueue from "flatqueue";
import { type Random, seededRandom } from "../../core/random.ts";
import type { Nanos, TraceBuilder, TraceSource } from "../../core/trace/trace.ts";
import { exponential, geometric, zipf } from "../random.ts";
import {
  common,
  count,
  generated,
  generator,
  mean,
  type OptionsOf,
  outputRate,
  perSecond,
  seconds,
  tokens,
  type Values,
  type Workload,
  zipfExponent,
} from "./generator.ts";
import { documentSigma, lengthOf, nanos } from "./jobs.ts";

/** Defaults: a few minutes of a busy service; with a cache of a tenth of the content, hit ratios of policies differ. */
const parameters = {
  ...common,
  sessionsPerS: perSecond("new sessions per second, a Poisson process", 2),
  systemPrompts: count("number of system prompts; a session begins with one of them", 60, 1, 1_000_000),
  systemTokens: tokens("mean tokens of a system prompt", 600, 0),
  zipf: zipfExponent("system prompts"),
  turns: mean("mean requests per session", 5, 1, 1000),
  userTokens: tokens("mean tokens of a user message", 80),
  outputTokens: tokens("mean output tokens", 160),
  thinkS: seconds("mean think time between an output and the next request", 40),
  outputTokensPerS: outputRate,
  maxInputTokens: tokens("longest prompt; a session ends before exceeding it", 32_768, 1, 2 ** 31 - 1),
};

/**
 * Chat sessions: they arrive at random, begin with a system prompt that they share with others (Zipf), and take several
 * turns, each of which sends the whole history again with a new message. The system prompt is marked as a prefix, for caches
 * that store marked prefixes.
 */
export const chat = generator({
  name: "chat",
  about: "chat sessions that share system prompts and repeat their history in each turn",
  source: "multi-turn conversations of ShareGPT (sharegpt.com) and Mooncake (FAST '25)",
  parameters,
  start: (values) => new Chat(values),
});

/** Options of the chat generator. */
export type ChatOptions = OptionsOf<typeof chat>;
type ChatValues = Values<Exclude<keyof typeof parameters, symbol>>;

/** Generated chat traffic; with the defaults it is the built-in example. @throws InputError if an option is out of range */
export const chatSource = (options: ChatOptions = {}): TraceSource => generated(chat, options);

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
class Chat implements Workload {
  readonly #options: ChatValues;
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

  constructor(options: ChatValues) {
    this.#options = options;
    this.#arrivals = seededRandom(options.seed);
    this.#lengths = seededRandom(options.seed ^ 0x5bd1e995);
    const { systemPrompts, systemTokens, maxInputTokens } = options;
    // At least one token of a prompt belongs to the session alone, so that no two sessions send the same prompt.
    const tokens = () => Math.min(this.#length(systemTokens, documentSigma), maxInputTokens - 1);
    this.#systems = Array.from({ length: systemPrompts }, () => ({ tokens: tokens(), keys: [] }));
    this.#popular = zipf(this.#arrivals, systemPrompts, options.zipf);
  }

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

  #length(mean: number, sigma?: number): number {
    return lengthOf(this.#lengths, mean, sigma);
  }
}
