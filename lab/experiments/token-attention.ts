import { percent } from "../output/numbers.ts";
import type { Experiment, Row } from "./experiment.ts";
import { mixedLengths, mixedLengthsText } from "./mixed-lengths.ts";
import { type ExperimentRunner, type Measured, type Setup, usualMetrics } from "./runner.ts";

/** The default of `--max-batch-total-tokens` in TGI of 2023. */
const tgiTokens = 16_000;
/** As in efficient-router: answers that are mostly shorter than what clients ask for. */
const usualAnswers = { "router-token-ratio": 0.8, "router-max-new-tokens": 256 };

export const tokenAttention: Experiment = {
  name: "token-attention",
  about: "keys and values by token against by block; TGI with token allocator and router against plain TGI",
  source: "LightLLM, TokenAttention and Efficient Router, also built into TGI (2023)",
  async run(laboratory: ExperimentRunner) {
    const machine = laboratory.machine({ model: "llama-7b", gpu: "a100-80gb" });
    const trace = mixedLengths(laboratory.seed);
    const rows: Row[] = [];
    const run = async (configuration: string, own: Partial<Setup>): Promise<Measured> => {
      const measured = await laboratory.run(trace, { machine, ...own });
      rows.push({ configuration, simulated: { ...usualMetrics(measured), wasted: measured.sums.wasted } });
      return measured;
    };
    const plain = { index: "none", preset: "lightllm", schedulerOptions: usualAnswers } as const;
    const token = await run("by token", plain);
    const block16 = await run("blocks of 16", { ...plain, allocator: "block", blockTokens: 16 });
    const block64 = await run("blocks of 64", { ...plain, allocator: "block", blockTokens: 64 });
    const block256 = await run("blocks of 256", { ...plain, allocator: "block", blockTokens: 256 });
    const tgi = await run(`TGI, ${tgiTokens} tokens a batch`, {
      preset: "tgi-simple",
      schedulerOptions: { "max-batch-total-tokens": tgiTokens },
    });
    const roomy = await run("TGI, all of the memory", { preset: "tgi-simple" });
    const lent = { preset: "tgi", allocator: "token", scheduler: "efficient-router", schedulerOptions: usualAnswers };
    const reserving = await run("TGI, token, router, reserving", lent);
    const both = await run("TGI, token, router", { ...lent, rules: { reserve: "grow" } });
    const grouped = laboratory.machine({ model: "llama-3.1-8b", gpu: "a100-80gb" });
    const tgiGrouped = await run(`llama-3.1-8b: TGI, ${tgiTokens} tokens`, {
      machine: grouped,
      preset: "tgi-simple",
      schedulerOptions: { "max-batch-total-tokens": tgiTokens },
    });
    const bothGrouped = await run("llama-3.1-8b: TGI, token, router", {
      machine: grouped,
      ...lent,
      rules: { reserve: "grow" },
    });
    const gain = (of: Measured, over: Measured) => of.throughput.requestsPerS / over.throughput.requestsPerS;
    return {
      workload:
        `${mixedLengthsText} Neither lengths nor GPU are published: llama-7b on an A100 with 80 GB is assumed. Wasted is the ` +
        "room in blocks that answers hold and that has nothing in it.",
      rows,
      headlines: [
        {
          ratio: "requests/s, TGI with token and router ÷ TGI as it came",
          published: [4, Number.POSITIVE_INFINITY],
          simulated: gain(both, tgi),
        },
        { ratio: "requests/s, the same ÷ TGI with all of the memory", simulated: gain(both, roomy) },
        { ratio: "requests/s, by token ÷ blocks of 16", simulated: gain(token, block16) },
        { ratio: "requests/s, by token ÷ blocks of 256", simulated: gain(token, block256) },
      ],
      explanations: [
        `By token nothing is wasted; blocks lose half a block a request: ${percent(block16.sums.wasted)} at 16 tokens, ` +
          `${percent(block64.sums.wasted)} at 64, ${percent(block256.sums.wasted)} at 256. Reserving the longest answer wastes ${percent(roomy.sums.wasted)}.`,
        `Most of the gain over TGI is its budget: ${tgiTokens} tokens a batch, longest answers included, keep ${tgi.sums.batchMean.toFixed(1)} answers running, ` +
          `all of the memory ${roomy.sums.batchMean.toFixed(1)}, and token and router ${both.sums.batchMean.toFixed(1)}. A batch ${(both.sums.batchMean / tgi.sums.batchMean).toFixed(1)} times as large is ` +
          `${gain(both, tgi).toFixed(1)} times as fast and not more, for every answer reads its own keys and values: with a model that has a quarter of ` +
          `these it is ${gain(bothGrouped, tgiGrouped).toFixed(1)} times. That TGI of 2023 moved and padded ` +
          "these whenever a batch changed, which cost it more, is not simulated: it has blocks here, and ours stays short of 4.",
        `--preset tgi --allocator token --scheduler efficient-router alone changes nothing (${gain(reserving, roomy).toFixed(2)} of TGI with all of the memory): ` +
          "the preset still reserves the longest answer at admission. --rule reserve=grow takes tokens as they come, which is what TokenAttention is.",
      ],
    };
  },
};
