import { percent } from "../output/numbers.ts";
import type { Experiment, Row } from "./experiment.ts";
import { mixedLengths, mixedLengthsText } from "./mixed-lengths.ts";
import { commonMetrics, type ExperimentRunner, type Measured, type Setup } from "./runner.ts";

/** The default of `--max-batch-total-tokens` in TGI of 2023. */
const tgiTokens = 16_000;
/** As in efficient-router: outputs that are mostly shorter than maxOutputTokens. */
const typicalOutputs = { "router-token-ratio": 0.8, "router-max-new-tokens": 256 };

export const tokenAttention: Experiment = {
  name: "token-attention",
  about: "KV cache by token and by block; TGI with token allocator and router, and plain TGI",
  source: "LightLLM, TokenAttention and Efficient Router, also built into TGI (2023)",
  async run(runner: ExperimentRunner) {
    const machine = runner.machine({ model: "llama-7b", gpu: "a100-80gb" });
    const trace = mixedLengths(runner.seed);
    const rows: Row[] = [];
    const run = async (configuration: string, own: Partial<Setup>): Promise<Measured> => {
      const measured = await runner.run(trace, { machine, ...own });
      rows.push({ configuration, simulated: { ...commonMetrics(measured), wasted: measured.sums.wasted } });
      return measured;
    };
    const plain = { index: "none", preset: "lightllm", schedulerOptions: typicalOutputs } as const;
    const token = await run("by token", plain);
    const block16 = await run("blocks of 16", { ...plain, allocator: "block", blockTokens: 16 });
    const block64 = await run("blocks of 64", { ...plain, allocator: "block", blockTokens: 64 });
    const block256 = await run("blocks of 256", { ...plain, allocator: "block", blockTokens: 256 });
    const tgi = await run(`TGI, ${tgiTokens} tokens a batch`, {
      preset: "tgi-simple",
      schedulerOptions: { "max-batch-total-tokens": tgiTokens },
    });
    const wholeMemory = await run("TGI, all of the memory", { preset: "tgi-simple" });
    const withTokenAttention = {
      preset: "tgi",
      allocator: "token",
      scheduler: "efficient-router",
      schedulerOptions: typicalOutputs,
    };
    const reserving = await run("TGI, token, router, reserving", withTokenAttention);
    const both = await run("TGI, token, router", { ...withTokenAttention, rules: { reserve: "grow" } });
    const grouped = runner.machine({ model: "llama-3.1-8b", gpu: "a100-80gb" });
    const tgiGrouped = await run(`llama-3.1-8b: TGI, ${tgiTokens} tokens`, {
      machine: grouped,
      preset: "tgi-simple",
      schedulerOptions: { "max-batch-total-tokens": tgiTokens },
    });
    const bothGrouped = await run("llama-3.1-8b: TGI, token, router", {
      machine: grouped,
      ...withTokenAttention,
      rules: { reserve: "grow" },
    });
    const gain = (of: Measured, over: Measured) => of.throughput.requestsPerS / over.throughput.requestsPerS;
    return {
      workload:
        `${mixedLengthsText} Neither lengths nor GPU are published: llama-7b on an A100 with 80 GB is assumed. Wasted: the ` +
        "share of slots in referenced blocks that are empty.",
      rows,
      headlines: [
        {
          ratio: "requests/s, TGI with token and router ÷ plain TGI",
          published: [4, Number.POSITIVE_INFINITY],
          simulated: gain(both, tgi),
        },
        { ratio: "requests/s, the same ÷ TGI with all of the memory", simulated: gain(both, wholeMemory) },
        { ratio: "requests/s, by token ÷ blocks of 16", simulated: gain(token, block16) },
        { ratio: "requests/s, by token ÷ blocks of 256", simulated: gain(token, block256) },
      ],
      explanations: [
        `By token nothing is wasted; with blocks, each request wastes half a block: ${percent(block16.sums.wasted)} at 16 tokens, ` +
          `${percent(block64.sums.wasted)} at 64, ${percent(block256.sums.wasted)} at 256. Reserving the longest output wastes ${percent(wholeMemory.sums.wasted)}.`,
        `Most of the gain over TGI comes from its token budget: with ${tgiTokens} tokens a batch, longest outputs included, ${tgi.sums.batchMean.toFixed(1)} sequences run at once, ` +
          `with all of the memory ${wholeMemory.sums.batchMean.toFixed(1)}, and with token and router ${both.sums.batchMean.toFixed(1)}. A batch ${(both.sums.batchMean / tgi.sums.batchMean).toFixed(1)} times as large is ` +
          `${gain(both, tgi).toFixed(1)} times as fast and not more, because every sequence reads its own keys and values: with a model that has a quarter of ` +
          `them it is ${gain(bothGrouped, tgiGrouped).toFixed(1)} times. TGI of 2023 also moved and padded ` +
          "them whenever a batch changed. This is not simulated, because TGI has blocks here, so our gain is below 4.",
        `--preset tgi --allocator token --scheduler efficient-router alone changes nothing (${gain(reserving, wholeMemory).toFixed(2)} of TGI with all of the memory): ` +
          "the preset still reserves the longest output at admission. --rule reserve=grow allocates slots as tokens are generated, as TokenAttention does.",
      ],
    };
  },
};
