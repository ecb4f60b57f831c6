import type { Random } from "../../core/random.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { exponential, geometric } from "../random.ts";
import { common, generator, mean, outputRate, perSecond, seconds, share, tokens, type Values } from "./generator.ts";
import { type Job, Jobs, lengthOf, nanos, outputOf, poisson, type Request, type Sent, stream } from "./jobs.ts";
import { Prompt } from "./prompt.ts";

const parameters = {
  ...common,
  sessionsPerS: perSecond("new parent agents per second, a Poisson process", 0.05),
  systemTokens: tokens("tokens of the system prompt and tools, the same for all agents", 6000),
  taskTokens: tokens("mean tokens of a task", 300),
  rounds: mean("mean fan-outs of a parent agent", 3, 1, 1000),
  children: mean("mean sub-agents of a fan-out", 4, 1, 100),
  steps: mean("mean requests of a sub-agent", 4, 1, 1000),
  inherited: share(
    "share of fan-outs whose sub-agents begin with the parent's context; the others have its system prompt only",
    0.7,
  ),
  toolTokens: tokens("mean tokens of a tool's result", 700),
  outputTokens: tokens("mean output tokens", 180),
  toolS: seconds("mean time of a tool", 3),
  outputTokensPerS: outputRate,
};

/** A point where an agent continues: the end of a request, and the context with its output. */
interface Ended {
  readonly prompt: Prompt;
  readonly endNs: Nanos;
  readonly sent: Sent;
}

/**
 * Fan-out and join: a parent agent starts several sub-agents at once, each with the parent's context and a task of its own,
 * and continues with their last outputs when all of them have ended. The parent's next request follows the sub-agent that
 * ends last.
 */
export const subAgents = generator({
  name: "sub-agents",
  about: "parent agents that fan out into sub-agents with their context, and join their results",
  source: "sub-agents in the sessions of kv-cache-tester (github.com/callanjfox/kv-cache-tester)",
  parameters,
  start(values) {
    const { seed } = values;
    const system = new Prompt(undefined, values.systemTokens);
    return new Jobs(values.unitTokens, poisson(stream(seed, 1), values.sessionsPerS), (startNs, number) =>
      new ParentAgent(values, stream(seed, 2, number), system).run(startNs),
    );
  },
});

type Names = Exclude<keyof typeof parameters, symbol>;

class ParentAgent {
  readonly #values: Values<Names>;
  readonly #random: Random;
  readonly #system: Prompt;

  constructor(values: Values<Names>, random: Random, system: Prompt) {
    this.#values = values;
    this.#random = random;
    this.#system = system;
  }

  *run(startNs: Nanos): Job {
    const { rounds, taskTokens, outputTokensPerS } = this.#values;
    const session = {};
    let request = this.#request(startNs, this.#system.extend(this.#length(taskTokens)), session);
    yield request;
    for (let left = geometric(this.#random, rounds); left > 0; left--) {
      const before = endOf(request, outputTokensPerS);
      const children = this.#fanOut(before);
      // All their requests, in the order of time: what follows does not depend on when they are sent.
      const requests = children.flat().sort((a, b) => a.atNs - b.atNs);
      yield* requests;
      const ends = children.map((child) => endOf(child[child.length - 1], outputTokensPerS));
      const last = ends.reduce((latest, end) => (end.endNs > latest.endNs ? end : latest));
      const results = children.reduce((sum, child) => sum + child[child.length - 1].outputTokens, 0);
      request = this.#request(last.endNs, before.prompt.extend(results), session, last);
      yield request;
    }
  }

  /** The requests of each sub-agent. All of them begin when the parent's request has ended. */
  #fanOut(parent: Ended): Request[][] {
    const { children, inherited } = this.#values;
    const context = this.#random.unit() < inherited ? parent.prompt : this.#system;
    return Array.from({ length: geometric(this.#random, children) }, () => this.#child(context, parent));
  }

  #child(context: Prompt, parent: Ended): Request[] {
    const { steps, taskTokens, toolTokens, toolS, outputTokensPerS } = this.#values;
    const session = {};
    let before = parent;
    let prompt = context.extend(this.#length(taskTokens));
    let thinkNs = 0;
    const requests: Request[] = [];
    for (let left = geometric(this.#random, steps); left > 0; left--) {
      const request = this.#request(before.endNs + thinkNs, prompt, session, before);
      requests.push(request);
      before = endOf(request, outputTokensPerS);
      thinkNs = nanos(exponential(this.#random) * toolS);
      prompt = before.prompt.extend(this.#length(toolTokens));
    }
    return requests;
  }

  #request(atNs: Nanos, prompt: Prompt, session: object, after?: Ended): Request {
    return {
      ...{ atNs, prompt, session, ...outputOf(this.#random, this.#values.outputTokens) },
      ...{ markedTokens: this.#system.tokens, sent: { row: -1 } },
      ...(after && { parent: after.sent, thinkNs: atNs - after.endNs }),
    };
  }

  #length(tokens: number): number {
    return lengthOf(this.#random, tokens);
  }
}

const endOf = ({ atNs, prompt, outputTokens, sent }: Request, outputTokensPerS: number): Ended => ({
  prompt: prompt.extend(outputTokens),
  endNs: atNs + nanos(outputTokens / outputTokensPerS),
  sent,
});
