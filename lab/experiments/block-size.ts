import { seededRandom } from "../../core/random.ts";
import { percent } from "../output/numbers.ts";
import type { Experiment, Row } from "./experiment.ts";
import { lengthsOf, type Prompt, traceOf } from "./requests.ts";
import { type ExperimentRunner, type Measured, usualMetrics } from "./runner.ts";

const prefixes = 40;
const requestsEach = 25;
const shortest = 100;
const longest = 200;

/** Requests of all prefixes in turn, so that a prefix is cached when it comes again. */
function workload(seed: number): Prompt[] {
  const random = seededRandom(seed);
  const count = prefixes * requestsEach;
  const chats = { sigma: 1, least: 4, most: 1024 };
  const own = lengthsOf(random, count, 226 * count, chats);
  const answers = lengthsOf(random, count, 160 * count, chats);
  const lengths = Array.from({ length: prefixes }, () => shortest + random.below(longest - shortest + 1));
  return Array.from(own, (ownTokens, i) => ({
    prefix: { id: i % prefixes, tokens: lengths[i % prefixes] },
    ownTokens,
    outputTokens: answers[i],
  }));
}

export const blockSize: Experiment = {
  name: "block-size",
  about: "blocks of 64, 16 and 1 tokens: what the last block loses of prefixes of 100 to 200 tokens",
  source: "the discussion in LMDeploy's issue 1407 (April 2024)",
  async run(laboratory: ExperimentRunner) {
    const machine = laboratory.machine({ model: "llama-2-13b", gpu: "a100-80gb" });
    const prompts = workload(laboratory.seed);
    const trace = traceOf(prompts);
    const sizes = [64, 32, 16, 1];
    const runs: Measured[] = [];
    for (const blockTokens of sizes)
      runs.push(await laboratory.run(trace, { preset: "lmdeploy", machine, blockTokens }));
    const off = await laboratory.run(trace, { preset: "lmdeploy", machine, index: "none" });
    const losses = runs.map((run, i) => lost(prompts, sizes[i], run));
    const rows: Row[] = runs.map((run, i) => ({
      configuration: `blocks of ${sizes[i]}`,
      ...(sizes[i] === 64 && { published: { lostTokensMax: 63 } }),
      simulated: {
        ...usualMetrics(run),
        lostTokensMean: losses[i].lostTokensMean,
        lostTokensMax: losses[i].lostTokensMax,
      },
    }));
    const perS = (run: Measured) => run.throughput.requestsPerS;
    const possible =
      prompts.slice(prefixes).reduce((sum, { prefix }) => sum + prefix!.tokens, 0) / off.counters.lookupTokens;
    return {
      workload:
        `${prompts.length} requests at once behind ${prefixes} system prompts of ${shortest} to ${longest} tokens, in turn; chats of ` +
        "226 tokens and answers of 160 on average. Model and GPU are not given: those of lmdeploy-1407 are assumed.",
      rows: [...rows, { configuration: "no cache", simulated: usualMetrics(off) }],
      headlines: [
        { ratio: "most tokens of a prefix lost, blocks of 64", published: 63, simulated: losses[0].lostTokensMax },
        { ratio: "requests/s, blocks of 16 ÷ 64", simulated: perS(runs[2]) / perS(runs[0]) },
        { ratio: "requests/s, blocks of 1 ÷ 16", simulated: perS(runs[3]) / perS(runs[2]) },
      ],
      explanations: [
        `A block is a hit only as a whole, so of a prefix up to one token less than a block is lost, half a block on average: ` +
          `${losses[0].lostTokensMean.toFixed(1)} tokens at 64, ${losses[2].lostTokensMean.toFixed(1)} at 16, none at 1. ` +
          `Not in it are ${losses[0].absent} requests that came first with their prefix or found it evicted. ${percent(possible)} of all prompt tokens are prefixes that were there before; the hit ratios say how much of that is left.`,
        `Small blocks cost the simulated GPU nothing, though a real one reads them less well: how small they may be is a matter of ` +
          "kernels, which is not simulated.",
      ],
    };
  },
};

/**
 * Tokens of their prefixes that requests did not find although they were there: less than a block. Who lost more came first
 * with its prefix, or found it evicted.
 */
function lost(prompts: readonly Prompt[], blockTokens: number, { requests: { hitTokens } }: Measured) {
  const all = prompts.map(({ prefix }, i) => prefix!.tokens - hitTokens[i]);
  const losses = all.filter((tokens) => tokens < blockTokens);
  return {
    lostTokensMean: losses.reduce((sum, tokens) => sum + tokens, 0) / losses.length,
    lostTokensMax: Math.max(...losses),
    absent: all.length - losses.length,
  };
}
