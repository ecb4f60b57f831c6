import { seededRandom } from "../../core/random.ts";
import { percent } from "../output/numbers.ts";
import type { Experiment, Row } from "./experiment.ts";
import { lengthsOf, type Prompt, traceOf } from "./requests.ts";
import { commonMetrics, type ExperimentRunner, type Measured } from "./runner.ts";

const prefixes = 40;
const requestsEach = 25;
const shortest = 100;
const longest = 200;

/** Requests that cycle through all prefixes, so that a prefix is cached when it is used again. */
function workload(seed: number): Prompt[] {
  const random = seededRandom(seed);
  const count = prefixes * requestsEach;
  const chats = { sigma: 1, least: 4, most: 1024 };
  const promptLengths = lengthsOf(random, count, 226 * count, chats);
  const outputs = lengthsOf(random, count, 160 * count, chats);
  const lengths = Array.from({ length: prefixes }, () => shortest + random.below(longest - shortest + 1));
  return Array.from(promptLengths, (ownTokens, i) => ({
    prefix: { id: i % prefixes, tokens: lengths[i % prefixes] },
    ownTokens,
    outputTokens: outputs[i],
  }));
}

export const blockSize: Experiment = {
  name: "block-size",
  about: "blocks of 64, 16 and 1 tokens: tokens of prefixes of 100 to 200 tokens that miss in a partial last block",
  source: "the discussion in LMDeploy's issue 1407 (April 2024)",
  async run(runner: ExperimentRunner) {
    const machine = runner.machine({ model: "llama-2-13b", gpu: "a100-80gb" });
    const prompts = workload(runner.seed);
    const trace = traceOf(prompts);
    const sizes = [64, 32, 16, 1];
    const runs: Measured[] = [];
    for (const blockTokens of sizes) runs.push(await runner.run(trace, { preset: "lmdeploy", machine, blockTokens }));
    const off = await runner.run(trace, { preset: "lmdeploy", machine, index: "none" });
    const losses = runs.map((run, i) => lost(prompts, sizes[i], run));
    const rows: Row[] = runs.map((run, i) => ({
      configuration: `blocks of ${sizes[i]}`,
      ...(sizes[i] === 64 && { published: { lostTokensMax: 63 } }),
      simulated: {
        ...commonMetrics(run),
        lostTokensMean: losses[i].lostTokensMean,
        lostTokensMax: losses[i].lostTokensMax,
      },
    }));
    const perS = (run: Measured) => run.throughput.requestsPerS;
    const possible =
      prompts.slice(prefixes).reduce((sum, { prefix }) => sum + prefix!.tokens, 0) / off.counters.lookupTokens;
    return {
      workload:
        `${prompts.length} requests at once, which cycle through ${prefixes} system prompts of ${shortest} to ${longest} tokens; on average 226 further ` +
        "prompt tokens and 160 output tokens. Model and GPU are not published: those of lmdeploy-1407 are assumed.",
      rows: [...rows, { configuration: "no cache", simulated: commonMetrics(off) }],
      headlines: [
        { ratio: "most prefix tokens lost, blocks of 64", published: 63, simulated: losses[0].lostTokensMax },
        { ratio: "requests/s, blocks of 16 ÷ 64", simulated: perS(runs[2]) / perS(runs[0]) },
        { ratio: "requests/s, blocks of 1 ÷ 16", simulated: perS(runs[3]) / perS(runs[2]) },
      ],
      explanations: [
        `Only whole blocks hit, so each prefix loses up to one token less than a block, half a block on average: ` +
          `${losses[0].lostTokensMean.toFixed(1)} tokens at 64, ${losses[2].lostTokensMean.toFixed(1)} at 16, none at 1. ` +
          `This excludes ${losses[0].absent} requests whose prefix was used for the first time or had been evicted. ${percent(possible)} of all prompt tokens belong to prefixes seen before: an upper bound of the hit ratios.`,
        `Small blocks have no cost in the simulation, although real GPUs read them less efficiently: that depends on the ` +
          "kernels, which are not simulated.",
      ],
    };
  },
};

/**
 * Prefix tokens that missed although the prefix was cached: less than a block for each request. Requests that missed more used
 * their prefix for the first time, or after its eviction, and are not counted.
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
