import type { Nanos } from "../../core/trace/trace.ts";
import { common, count, generator, outputRate, perSecond, tokens } from "./generator.ts";
import { Jobs, lengthOf, nanos, outputOf, poisson, type Request, type Sent, stream } from "./jobs.ts";
import { Prompt } from "./prompt.ts";

/** A partial solution: the prompt that continues it, and the request whose output completed it. */
interface State {
  readonly prompt: Prompt;
  readonly sent: Sent;
  readonly endNs: Nanos;
}

/**
 * Tree of thought by breadth-first search: each state of a level is sent `breadth` times with the same prompt, which gives
 * as many thoughts; `beam` random ones of the new states are kept, and the next level begins when all requests of the level
 * have ended. The first request of a problem is its root; the instructions are the same for all problems.
 */
export const treeOfThought = generator({
  name: "tree-of-thought",
  about: "trees of prompts that branch from a common prefix, level by level",
  source: "tree of thoughts (arXiv 2305.10601), as a benchmark in SGLang (arXiv 2312.07104)",
  parameters: {
    ...common,
    problemsPerS: perSecond("new problems per second, a Poisson process", 0.3),
    instructionTokens: tokens("tokens of the instructions, the same for all problems", 500, 0),
    problemTokens: tokens("mean tokens of a problem", 150),
    breadth: count("thoughts that continue a state", 3, 1, 100),
    depth: count("levels of a tree after its root", 4, 1, 100),
    beam: count("states that are kept on each level", 4, 1, 100),
    thoughtTokens: tokens("mean tokens of a thought, which is an output", 120),
    outputTokensPerS: outputRate,
  },
  start(values) {
    const { seed, breadth, depth, beam, thoughtTokens, outputTokensPerS } = values;
    const instructions = values.instructionTokens === 0 ? undefined : new Prompt(undefined, values.instructionTokens);
    const starts = poisson(stream(seed, 1), values.problemsPerS);
    return new Jobs(values.unitTokens, starts, function* (startNs, number) {
      const random = stream(seed, 2, number);
      const session = {};
      const markedTokens = values.instructionTokens;
      const requestAt = (atNs: Nanos, prompt: Prompt, from?: State): Request => ({
        ...{ atNs, prompt, session, markedTokens, ...outputOf(random, thoughtTokens), sent: { row: -1 } },
        ...(from && { parent: from.sent, thinkNs: atNs - from.endNs }),
      });
      const stateAfter = (request: Request): State => ({
        prompt: request.prompt.extend(request.outputTokens),
        sent: request.sent,
        endNs: request.atNs + nanos(request.outputTokens / outputTokensPerS),
      });
      const root = requestAt(startNs, new Prompt(instructions, lengthOf(random, values.problemTokens)));
      yield root;
      let kept = [stateAfter(root)];
      let atNs = kept[0].endNs;
      for (let level = 1; level <= depth; level++) {
        const states: State[] = [];
        for (const state of kept) {
          for (let i = 0; i < breadth; i++) {
            const request = requestAt(atNs, state.prompt, state);
            yield request;
            states.push(stateAfter(request));
          }
        }
        for (const { endNs } of states) atNs = Math.max(atNs, endNs);
        while (states.length > beam) states.splice(random.below(states.length), 1);
        kept = states;
      }
    });
  },
});
