import { backendOf } from "../run/target.ts";
import type { Experiment, Headline, Row } from "./experiment.ts";
import { traceOf } from "./requests.ts";
import { commonMetrics, type ExperimentRunner, type Measured, type Setup } from "./runner.ts";

const requests = 64;
const promptTokens = 856;
const outputTokens = 16;
/** roseinfer computes a prompt when its request is added. */
const schedulerOptions = { "prompts-per-step": 1 };

/**
 * GPT-2 small, 124 million parameters. Its feed-forward network has two matrices, modelled here as three of the same total
 * size.
 */
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
  about: "cache of whole prompts on and off, with roseinfer's three schedulers: 64 times the same prompt of 856 tokens",
  source: "roseinfer (rosellm), benchmark_scheduler.py",
  takesEngine: true,
  async run(runner: ExperimentRunner) {
    const machine = runner.machine({ model: gpt2, gpu: "rtx-4090" });
    const prefix = { id: 0, tokens: promptTokens };
    const trace = traceOf(Array.from({ length: requests }, () => ({ prefix, ownTokens: 0, outputTokens })));
    const rows: Row[] = [];
    const headlines: Headline[] = [];
    const run = async (
      configuration: string,
      own: Partial<Setup>,
      measuredAs?: Row["published"],
    ): Promise<Measured> => {
      const measured = await runner.run(trace, { preset: "roseinfer", machine, ...own });
      const { hitRatioToken, batchMean } = commonMetrics(measured);
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
      const numbers = published[scheduler];
      const options = scheduler === "naive" ? {} : { schedulerOptions };
      const as = (i: 0 | 1) => numbers && { promptS: numbers.promptS[i], totalTokensPerS: numbers.totalTokensPerS[i] };
      const off = await run(`${scheduler}, off`, { ...options, scheduler, index: "none" }, as(0));
      if (!numbers) continue;
      const on = await run(`${scheduler}, on`, { ...options, scheduler }, as(1));
      runs.push(off, on);
      const [promptsOff, promptsOn] = numbers.promptS;
      const [tokensOff, tokensOn] = numbers.totalTokensPerS;
      headlines.push(
        {
          ratio: `${scheduler}: prefill time, off ÷ on`,
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
    const explanations = runner.target === "sim" ? await explainSimulated(runs, run) : explainMeasured(runs);
    return {
      workload:
        `${requests} requests at once with the same prompt of ${promptTokens} tokens, ${outputTokens} tokens each, batches of 8 (online). ` +
        `${runner.target === "sim" ? assumed : `Model and GPU are not published: another model is served on ${backendOf(runner.target).device} of this machine. `}roseinfer computes a prompt when ` +
        "its request is added, one prompt per step: --scheduler-option prompts-per-step=1. naive has no cache.",
      rows,
      headlines,
      explanations,
    };
  },
};

const assumed = "Model and GPU are not published: GPT-2 small in 16 bits on an RTX 4090 is assumed. ";

/** Runs a configuration and adds its row. */
type Run = (configuration: string, own: Partial<Setup>) => Promise<Measured>;

/** Explanation of the ratios measured with the engine. */
function explainMeasured([off, on]: readonly Measured[]): string[] {
  const decodeS = (measured: Measured) => measured.throughput.makespanS - measured.sums.promptS;
  return [
    `A prompt is computed once and hit ${requests - 1} times, so prefill could be up to ${requests} times shorter: a cached prompt ` +
      `takes ${((on.sums.promptS / requests) * 1e3).toFixed(1)} of ${((off.sums.promptS / requests) * 1e3).toFixed(1)} ms, the first one included. Decode takes ${decodeS(off).toFixed(1)} s ` +
      `without the cache and ${decodeS(on).toFixed(1)} s with it, so tokens a second gain less. As published, a cached prompt still costs ` +
      `${((0.251 / requests) * 1e3).toFixed(1)} of ${((1.087 / requests) * 1e3).toFixed(1)} ms, and decode takes ${((requests * (promptTokens + outputTokens)) / 13_454 / 1.087 - 1).toFixed(1)} times as long as prefill.`,
  ];
}

/** Explanation of the simulated ratios, with additional rows that show the causes. */
async function explainSimulated([off, on]: readonly Measured[], run: Run): Promise<string[]> {
  const freeHost = { schedulerOptions, scheduler: "offline", efficiency: { stepUs: 0 } };
  const freeOff = await run("offline, off, no host overhead", { ...freeHost, index: "none" });
  const freeOn = await run("offline, on, no host overhead", freeHost);
  const oneStepOff = await run("offline, off, one step", { scheduler: "offline", index: "none" });
  const oneStepOn = await run("offline, on, one step", { scheduler: "offline" });
  // The published time and ours without prefill.
  const decodeS = (requests * (promptTokens + outputTokens)) / 13_454 - 1.087;
  const outputSteps = outputTokens - 1;
  const decodeSOf = (measured: Measured) => measured.throughput.makespanS - measured.sums.promptS;
  const each = (measured: Measured) => (measured.sums.promptS / requests) * 1e3;
  return [
    `A cached prompt computes nothing, so the rest of its step is the engine's overhead: ${each(on).toFixed(2)} of ${each(off).toFixed(2)} ms a prompt here, ` +
      `${((0.251 / requests) * 1e3).toFixed(1)} of ${((1.087 / requests) * 1e3).toFixed(1)} ms as published. Without host overhead the ratio is ` +
      `${(freeOff.sums.promptS / freeOn.sums.promptS).toFixed(0)}. roseinfer runs PyTorch operator by operator and computes logits for all ${promptTokens} tokens of a prompt: prefill ` +
      "takes far longer than the GPU needs, so hits save more. The efficiency factors are fitted to a fast engine.",
    `Tokens a second gain less than prefill, because decode is as slow with the cache as without. How much less depends on ` +
      `the time of decode: as published, it took ${(decodeS / 1.087).toFixed(1)} times as long as prefill, ${((decodeS / outputSteps / requests) * 1e3).toFixed(1)} ms a request and ` +
      "step for any batch size, because keys and values are gathered request by request. Here steps are batched, and it is " +
      `${(decodeSOf(off) / off.sums.promptS).toFixed(1)} times. With the published share of decode, the ratio ${(off.sums.promptS / on.sums.promptS).toFixed(2)} of prefill makes ` +
      `${((1 + decodeS / 1.087) / (on.sums.promptS / off.sums.promptS + decodeS / 1.087)).toFixed(2)} of tokens a second.`,
    `If all ${requests} prompts are in one step, all miss, because none is cached yet: ${(oneStepOff.sums.promptS / oneStepOn.sums.promptS).toFixed(2)}. (Later versions detect equal prompts in a batch.)`,
  ];
}

const tokensPerS = ({ throughput }: Measured) => throughput.inputTokensPerS + throughput.outputTokensPerS;
