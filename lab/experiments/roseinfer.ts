import { backendOf } from "../run/target.ts";
import type { Experiment, Headline, Row } from "./experiment.ts";
import { traceOf } from "./requests.ts";
import { type ExperimentRunner, type Measured, type Setup, usualMetrics } from "./runner.ts";

const requests = 64;
const promptTokens = 856;
const outputTokens = 16;
/** roseinfer computes a prompt when its request is added. */
const schedulerOptions = { "prompts-per-step": 1 };

/** GPT-2 small, 124 million parameters: its two matrices of a feed-forward network as three of the same size together. */
const gpt2 = {
  name: "gpt2",
  config: {
    model_type: "llama",
    num_hidden_layers: 12,
    hidden_size: 768,
    intermediate_size: 2048,
    num_attention_heads: 12,
    vocab_size: 50_257,
    tie_word_embeddings: true,
    torch_dtype: "float16",
  },
};

const published = {
  naive: undefined,
  offline: { promptS: [1.087, 0.251], totalTokensPerS: [13_454, 16_923] },
  online: { promptS: [1.087, 0.251], totalTokensPerS: [12_282, 15_716] },
} as const;

export const roseinfer: Experiment = {
  name: "roseinfer",
  about: "whole prompts kept or not, with roseinfer's three schedulers: 64 times the same prompt of 856 tokens",
  source: "roseinfer (rosellm), benchmark_scheduler.py",
  takesEngine: true,
  async run(laboratory: ExperimentRunner) {
    const machine = laboratory.machine({ model: gpt2, gpu: "rtx-4090" });
    const prefix = { id: 0, tokens: promptTokens };
    const trace = traceOf(Array.from({ length: requests }, () => ({ prefix, ownTokens: 0, outputTokens })));
    const rows: Row[] = [];
    const headlines: Headline[] = [];
    const run = async (
      configuration: string,
      own: Partial<Setup>,
      measuredAs?: Row["published"],
    ): Promise<Measured> => {
      const measured = await laboratory.run(trace, { preset: "roseinfer", machine, ...own });
      const { hitRatioToken, batchMean } = usualMetrics(measured);
      const { promptS } = measured.sums;
      rows.push({
        configuration,
        ...(measuredAs && { published: measuredAs }),
        simulated: { promptS, totalTokensPerS: tokensPerS(measured), hitRatioToken, batchMean },
      });
      return measured;
    };
    const runs: Measured[] = [];
    for (const scheduler of ["naive", "offline", "online"] as const) {
      const figures = published[scheduler];
      const options = scheduler === "naive" ? {} : { schedulerOptions };
      const as = (i: 0 | 1) => figures && { promptS: figures.promptS[i], totalTokensPerS: figures.totalTokensPerS[i] };
      const off = await run(`${scheduler}, off`, { ...options, scheduler, index: "none" }, as(0));
      if (!figures) continue;
      const on = await run(`${scheduler}, on`, { ...options, scheduler }, as(1));
      runs.push(off, on);
      const [promptsOff, promptsOn] = figures.promptS;
      const [tokensOff, tokensOn] = figures.totalTokensPerS;
      headlines.push(
        {
          ratio: `${scheduler}: time of prompts, off ÷ on`,
          published: promptsOff / promptsOn,
          simulated: off.sums.promptS / on.sums.promptS,
        },
        {
          ratio: `${scheduler}: tokens/s, on ÷ off`,
          published: tokensOn / tokensOff,
          simulated: tokensPerS(on) / tokensPerS(off),
        },
      );
    }
    const explanations = laboratory.target === "sim" ? await whySimulated(runs, run) : whyMeasured(runs);
    return {
      workload:
        `${requests} requests at once with the same prompt of ${promptTokens} tokens, ${outputTokens} tokens each, batches of 8 (online). ` +
        `${laboratory.target === "sim" ? assumed : `Model and GPU are not published: another model, on ${backendOf(laboratory.target).device} of this machine. `}roseinfer computes a prompt when ` +
        "its request is added, by itself: --scheduler-option prompts-per-step=1. naive has no cache.",
      rows,
      headlines,
      explanations,
    };
  },
};

const assumed = "Model and GPU are not published: GPT-2 small in 16 bits on an RTX 4090 is assumed. ";

/** Runs a configuration as a row of its own. */
type Run = (configuration: string, own: Partial<Setup>) => Promise<Measured>;

/** What the ratios depend on here. */
function whyMeasured([off, on]: readonly Measured[]): string[] {
  const answersS = (measured: Measured) => measured.throughput.makespanS - measured.sums.promptS;
  return [
    `A prompt is computed once and found ${requests - 1} times, so that the time of prompts could be ${requests} times shorter: a prompt that ` +
      `is kept takes ${((on.sums.promptS / requests) * 1e3).toFixed(1)} of ${((off.sums.promptS / requests) * 1e3).toFixed(1)} ms, the first one included. Answers take ${answersS(off).toFixed(1)} s ` +
      `without the cache and ${answersS(on).toFixed(1)} s with it, and with them the tokens a second gain less. As published, a prompt that is kept still costs ` +
      `${((0.251 / requests) * 1e3).toFixed(1)} of ${((1.087 / requests) * 1e3).toFixed(1)} ms, and answers ${((requests * (promptTokens + outputTokens)) / 13_454 / 1.087 - 1).toFixed(1)} times as long as the prompts.`,
  ];
}

/** What the ratios depend on in the simulator, with the rows that show it. */
async function whySimulated([off, on]: readonly Measured[], run: Run): Promise<string[]> {
  const freeHost = { schedulerOptions, scheduler: "offline", efficiency: { stepUs: 0 } };
  const freeOff = await run("offline, off, host costs nothing", { ...freeHost, index: "none" });
  const freeOn = await run("offline, on, host costs nothing", freeHost);
  const oneStepOff = await run("offline, off, one step", { scheduler: "offline", index: "none" });
  const oneStepOn = await run("offline, on, one step", { scheduler: "offline" });
  // What is left of the published time, without its prompts, and of ours.
  const answersS = (requests * (promptTokens + outputTokens)) / 13_454 - 1.087;
  const outputSteps = outputTokens - 1;
  const answersOf = (measured: Measured) => measured.throughput.makespanS - measured.sums.promptS;
  const each = (measured: Measured) => (measured.sums.promptS / requests) * 1e3;
  return [
    `A prompt that is kept computes nothing, so what is left of its step is the engine's own work: ${each(on).toFixed(2)} of ${each(off).toFixed(2)} ms a prompt here, ` +
      `${((0.251 / requests) * 1e3).toFixed(1)} of ${((1.087 / requests) * 1e3).toFixed(1)} ms as published. Where the host costs nothing the ratio is ` +
      `${(freeOff.sums.promptS / freeOn.sums.promptS).toFixed(0)}. roseinfer runs PyTorch operator by operator, and makes logits of all ${promptTokens} tokens of a prompt: a prompt ` +
      "takes it far longer than the GPU needs, so hits spare it more. The engine that the factors are fitted on is a fast one.",
    `Tokens a second gain less than prompts do, for answers are as slow with the cache as without. How much less depends on ` +
      `how slow: as published, writing them took ${(answersS / 1.087).toFixed(1)} times as long as the prompts, ${((answersS / outputSteps / requests) * 1e3).toFixed(1)} ms a request and ` +
      "step however many there are, as keys and values are gathered request by request. Here steps are batched, and it is " +
      `${(answersOf(off) / off.sums.promptS).toFixed(1)} times. With the published share, the ${(off.sums.promptS / on.sums.promptS).toFixed(2)} of the prompts makes ` +
      `${((1 + answersS / 1.087) / (on.sums.promptS / off.sums.promptS + answersS / 1.087)).toFixed(2)} of tokens a second.`,
    `Put into one step, all ${requests} prompts miss, for none is there yet: ${(oneStepOff.sums.promptS / oneStepOn.sums.promptS).toFixed(2)}. (Later versions look for equal prompts in a batch.)`,
  ];
}

const tokensPerS = ({ throughput }: Measured) => throughput.inputTokensPerS + throughput.outputTokensPerS;
