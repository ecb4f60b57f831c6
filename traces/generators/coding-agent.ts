import { exponential, geometric } from "../random.ts";
import { common, count, generator, mean, outputRate, perSecond, seconds, share, tokens } from "./generator.ts";
import { documentSigma, Jobs, lengthOf, nanos, outputOf, poisson, type Sent, stream } from "./jobs.ts";
import { Prompt } from "./prompt.ts";

/**
 * Coding agents: every session begins with the system prompt and tools of its agent, and each step sends the whole context
 * again with the output of the step before and the result of a tool. Before a context would exceed its limit it is compacted: a
 * summary replaces all that follows the system prompt and tools, so that only these are shared with the context before.
 */
export const codingAgent = generator({
  name: "coding-agent",
  about: "agent sessions with a growing context, tool pauses and compaction",
  source:
    "coding-agent sessions of kv-cache-tester (github.com/callanjfox/kv-cache-tester); SWE-agent (arXiv 2405.15793)",
  parameters: {
    ...common,
    sessionsPerS: perSecond("new sessions per second, a Poisson process", 0.1),
    agents: count("kinds of agents, each with its system prompt and tools", 2, 1, 1000),
    systemTokens: tokens("mean tokens of a system prompt and its tools", 12_000),
    taskTokens: tokens("mean tokens of the user's task", 300),
    steps: mean("mean requests per session", 40, 1, 10_000),
    toolTokens: tokens("mean tokens of a tool's result", 900),
    outputTokens: tokens("mean output tokens", 200),
    toolS: seconds("mean time of a tool", 4),
    pauseShare: share("share of steps that wait for the user instead of a tool", 0.05),
    pauseS: seconds("mean time that the user takes", 90),
    contextTokens: tokens("longest prompt; it is compacted before exceeding it", 100_000, 1000, 2 ** 31 - 1),
    summaryTokens: tokens("mean tokens of the summary that replaces a context", 3000),
    outputTokensPerS: outputRate,
  },
  start(values) {
    const { seed, systemTokens, contextTokens, outputTokensPerS } = values;
    const systems: Prompt[] = [];
    // A quarter of the context at most, so that a compacted one has room to grow.
    const within = (length: number) => Math.max(1, Math.min(length, Math.floor(contextTokens / 4)));
    const systemOf = (agent: number) =>
      (systems[agent] ??= new Prompt(undefined, within(lengthOf(stream(seed, 1, agent), systemTokens, documentSigma))));
    return new Jobs(values.unitTokens, poisson(stream(seed, 2), values.sessionsPerS), function* (startNs, number) {
      const random = stream(seed, 3, number);
      const agent = random.below(values.agents);
      const system = systemOf(agent);
      const about = { session: {}, category: agent + 1, markedTokens: system.tokens };
      let prompt = system.extend(within(lengthOf(random, values.taskTokens)));
      let atNs = startNs;
      let thinkNs = 0;
      let parent: Sent | undefined;
      for (let left = geometric(random, values.steps); left > 0; left--) {
        const output = outputOf(random, values.outputTokens);
        const sent: Sent = { row: -1 };
        yield { atNs, prompt, ...output, ...about, thinkNs, ...(parent && { parent }), sent };
        parent = sent;
        const waits = random.unit() < values.pauseShare ? values.pauseS : values.toolS;
        thinkNs = nanos(exponential(random) * waits);
        atNs += nanos(output.outputTokens / outputTokensPerS) + thinkNs;
        const result = within(output.outputTokens + lengthOf(random, values.toolTokens));
        if (prompt.tokens + result > contextTokens)
          prompt = system.extend(within(lengthOf(random, values.summaryTokens)));
        prompt = prompt.extend(result);
      }
    });
  },
});
