import type { StepLoad } from "../../core/serving/step-load.ts";
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

/** An engine that plans a step after the previous one has ended: the device waits for it. An assumption. */
const host = { stepUs: 1000 };

/** The preset's pool: blocks of 64 tokens for 256 sequences of the model's longest context, 1,024. */
const poolBlocks = (256 * 1024) / 64;

/** Totals of prompt and output tokens per second, and seconds of prefill, without and with the cache. naive does not use it. */
const published = {
  naive: { totalTokensPerS: [13_220, 13_301] },
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
      const measured = await runner.run(trace, {
        preset: "roseinfer",
        machine,
        blocks: poolBlocks,
        efficiency: host,
        ...own,
      });
      const { hitRatioToken, batchMean } = commonMetrics(measured);
      const { promptS } = measured.sums;
      rows.push({
        configuration,
        ...(measuredAs && { published: measuredAs }),
        simulated: { promptS, totalTokensPerS: tokensPerS(measured), hitRatioToken, batchMean },
      });
      return measured;
    };
    const runs: Record<string, readonly [off: Measured, on: Measured]> = {};
    for (const scheduler of ["naive", "offline", "online"] as const) {
      const { totalTokensPerS } = published[scheduler];
      const options = scheduler === "naive" ? {} : { schedulerOptions };
      const as = (i: 0 | 1) => ({
        ...(scheduler !== "naive" && { promptS: published[scheduler].promptS[i] }),
        totalTokensPerS: totalTokensPerS[i],
      });
      const off = await run(`${scheduler}, off`, { ...options, scheduler, index: "none" }, as(0));
      const withCache = scheduler === "naive" ? { index: "none" } : {};
      const on = await run(`${scheduler}, on`, { ...options, scheduler, ...withCache }, as(1));
      runs[scheduler] = [off, on];
      if (scheduler === "naive") continue;
      const [promptsOff, promptsOn] = published[scheduler].promptS;
      const [tokensOff, tokensOn] = totalTokensPerS;
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
        {
          ratio: `tokens/s without cache, ${scheduler} ÷ naive`,
          published: tokensOff / published.naive.totalTokensPerS[0],
          simulated: tokensPerS(off) / tokensPerS(runs["naive"][0]),
        },
      );
    }
    const explanations =
      runner.target === "sim" ? await explainSimulated(runs["offline"], run) : explainMeasured(runs["offline"]);
    return {
      workload:
        `${requests} requests at once with the same prompt of ${promptTokens} tokens, ${outputTokens} tokens each, batches of 8 (online). ` +
        `${runner.target === "sim" ? assumed : `Model and GPU are not published: another model is served on ${backendOf(runner.target).device} of this machine. `}roseinfer computes a prompt when ` +
        "its request is added, one prompt per step: --scheduler-option prompts-per-step=1. naive does not use the cache. The pool has " +
        `${poolBlocks} blocks of 64 tokens and the cache at most 256 entries, roseinfer's defaults.`,
      rows,
      headlines,
      explanations,
    };
  },
};

const assumed =
  "Model and GPU are not published: GPT-2 small in 16 bits on an RTX 4090 that waits 1 ms per step for the engine is assumed. ";

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

/** Seconds of decode as published, without the cache; the prefill of naive is not published, and is the same work. */
const publishedDecodeS = (scheduler: keyof typeof published) =>
  (requests * (promptTokens + outputTokens)) / published[scheduler].totalTokensPerS[0] - published.offline.promptS[0];

/** Decode steps of all requests: the first output token belongs to prefill. */
const decodeTokens = requests * (outputTokens - 1);

/**
 * Step times of an engine whose steps have no gain from batching: a constant for each prompt, cached or not, and for each output
 * token of a sequence. The constants are those of the published run of `naive` without cache, and of the published prompts.
 */
const perSequence = {
  name: "per-sequence",
  promptNs: (1.087e9 / requests) | 0,
  cachedPromptNs: (0.251e9 / requests) | 0,
  decodeNs: ((publishedDecodeS("naive") * 1e9) / decodeTokens) | 0,
  stepNs({ logits, prefillSequences, decodeTokens }: Readonly<StepLoad>): number {
    const cachedPrompts = logits - prefillSequences - decodeTokens;
    const { promptNs, cachedPromptNs, decodeNs } = perSequence;
    return prefillSequences * promptNs + cachedPrompts * cachedPromptNs + decodeTokens * decodeNs;
  },
};

/** Rows with step times that batching does not reduce; returns an explanation of the throughput of the three schedulers. */
async function explainBatching(run: Run): Promise<string> {
  const rates: string[] = [];
  const linear = async (scheduler: keyof typeof published, own: Partial<Setup>) => {
    const options = scheduler === "naive" ? {} : { schedulerOptions };
    const isOff = own.index === "none" ? "off" : "on";
    return tokensPerS(
      await run(`${scheduler}, ${isOff}, per sequence`, { ...options, scheduler, cost: perSequence, ...own }),
    );
  };
  const naive = await linear("naive", { index: "none" });
  for (const scheduler of ["offline", "online"] as const) {
    const off = await linear(scheduler, { index: "none" });
    const on = await linear(scheduler, {});
    const [asOff, asOn] = published[scheduler].totalTokensPerS;
    rates.push(
      `${scheduler} ÷ naive ${(off / naive).toFixed(2)} (${(asOff / published.naive.totalTokensPerS[0]).toFixed(2)} as published), on ÷ off ${(on / off).toFixed(2)} (${(asOn / asOff).toFixed(2)})`,
    );
  }
  const each = (scheduler: keyof typeof published) => ((publishedDecodeS(scheduler) / decodeTokens) * 1e3).toFixed(2);
  return (
    "As published, batching gains nothing: an output token costs the same in a step of one sequence " +
    `(naive, ${each("naive")} ms), of 8 (online, ${each("online")} ms) and of ${requests} (offline, ${each("offline")} ms). So a step of that engine costs ` +
    `${(perSequence.decodeNs / 1e6).toFixed(2)} ms for each sequence and nothing for the step. With that, ${(perSequence.promptNs / 1e6).toFixed(1)} ms a prompt and ` +
    `${(perSequence.cachedPromptNs / 1e6).toFixed(1)} ms a cached prompt, taken from the published times of naive and of cached prompts (rows "per sequence"): ${rates.join("; ")}.`
  );
}

/** Explanation of the simulated ratios, with additional rows that show the causes. */
async function explainSimulated([off, on]: readonly Measured[], run: Run): Promise<string[]> {
  const freeHost = { schedulerOptions, scheduler: "offline", efficiency: { stepUs: 0 } };
  const freeOff = await run("offline, off, no host overhead", { ...freeHost, index: "none" });
  const freeOn = await run("offline, on, no host overhead", freeHost);
  const oneStepOff = await run("offline, off, one step", { scheduler: "offline", index: "none" });
  const oneStepOn = await run("offline, on, one step", { scheduler: "offline" });
  const batching = await explainBatching(run);
  // The published time and ours without prefill.
  const decodeS = publishedDecodeS("offline");
  const outputSteps = outputTokens - 1;
  const decodeSOf = (measured: Measured) => measured.throughput.makespanS - measured.sums.promptS;
  const each = (measured: Measured) => (measured.sums.promptS / requests) * 1e3;
  return [
    `A cached prompt computes nothing, so the rest of its step is the engine's overhead: ${each(on).toFixed(2)} of ${each(off).toFixed(2)} ms a prompt here, ` +
      `${((0.251 / requests) * 1e3).toFixed(1)} of ${((1.087 / requests) * 1e3).toFixed(1)} ms as published. Without host overhead the ratio is ` +
      `${(freeOff.sums.promptS / freeOn.sums.promptS).toFixed(0)}. roseinfer runs PyTorch operator by operator and computes logits for all ${promptTokens} tokens of a prompt: prefill ` +
      "takes far longer than the GPU needs, so hits save more. The rates of the GPU are those of a fast engine.",
    `Tokens a second gain less than prefill, because decode is as slow with the cache as without. How much less depends on ` +
      `the time of decode: as published, it took ${(decodeS / 1.087).toFixed(1)} times as long as prefill, ${((decodeS / outputSteps / requests) * 1e3).toFixed(1)} ms a request and ` +
      "step for any batch size, because keys and values are gathered request by request. Here steps are batched, and it is " +
      `${(decodeSOf(off) / off.sums.promptS).toFixed(1)} times. With the published share of decode, the ratio ${(off.sums.promptS / on.sums.promptS).toFixed(2)} of prefill makes ` +
      `${((1 + decodeS / 1.087) / (on.sums.promptS / off.sums.promptS + decodeS / 1.087)).toFixed(2)} of tokens a second.`,
    batching,
    `If all ${requests} prompts are in one step, all miss, because none is cached yet: ${(oneStepOff.sums.promptS / oneStepOn.sums.promptS).toFixed(2)}. (Later versions detect equal prompts in a batch.)`,
  ];
}

const tokensPerS = ({ throughput }: Measured) => throughput.inputTokensPerS + throughput.outputTokensPerS;
