import { grouped } from "../../core/counted.ts";
import { seededRandom } from "../../core/random.ts";
import { percent } from "../output/numbers.ts";
import type { Experiment, Row } from "./experiment.ts";
import { lengthsOf, traceOf } from "./requests.ts";
import { commonMetrics, type ExperimentRunner, type Measured } from "./runner.ts";

const requests = 1000;
const inputTokens = 336_509;
const outputTokens = 160_646;
const systemPromptTokens = 110;
/** vLLM's benchmark drops prompts and outputs shorter than 4 or longer than 1,024 tokens. */
const chats = { sigma: 1, least: 4, most: 1024 };

/**
 * A thousand chats that begin with the same system prompt; the numbers of tokens are exactly the published ones. With another
 * `maxOutputTokens` than the output length, the client's limit is the same for all.
 */
export function shareGptLike(seed: number, systemTokens = systemPromptTokens, maxOutputTokens?: number) {
  const random = seededRandom(seed);
  const promptLengths = lengthsOf(random, requests, inputTokens - requests * systemPromptTokens, chats);
  const outputs = lengthsOf(random, requests, outputTokens, chats);
  return traceOf(
    Array.from(promptLengths, (ownTokens, i) => ({
      ...(systemTokens > 0 && { prefix: { id: 0, tokens: systemTokens } }),
      ownTokens,
      outputTokens: outputs[i],
      ...(maxOutputTokens !== undefined && { maxOutputTokens }),
    })),
  );
}

/** vLLM in April 2024: prefill steps of whole prompts, with at most as many tokens as the context of Llama 2. */
const vllm = { preset: "vllm-v0", scheduler: "fcfs", schedulerOptions: { "max-num-batched-tokens": 4096 } } as const;

export const lmdeploy1407: Experiment = {
  name: "lmdeploy-1407",
  about: "prefix caching on and off: 1,000 chats with a system prompt of 110 tokens, 13B",
  source: "vLLM's automatic prefix caching, measured in LMDeploy's issue 1407 (April 2024)",
  async run(runner: ExperimentRunner) {
    const machine = runner.machine({ model: "llama-2-13b", gpu: "a100-80gb" });
    const trace = shareGptLike(runner.seed);
    const off = await runner.run(trace, { ...vllm, machine, index: "none" });
    const on = await runner.run(trace, { ...vllm, machine });
    const coarse = await runner.run(trace, { ...vllm, machine, blockTokens: 64 });
    const ample = { ...vllm, machine, blocks: 1_000_000 };
    const ampleOff = await runner.run(trace, { ...ample, index: "none" });
    const ampleOn = await runner.run(trace, ample);
    const row = (configuration: string, run: Measured, requestsPerS?: number): Row => ({
      configuration,
      ...(requestsPerS !== undefined && { published: { requestsPerS } }),
      simulated: { ...commonMetrics(run), promptS: run.sums.promptS },
    });
    const hits = on.counters.hitTokens / on.counters.lookupTokens;
    const prefill = off.sums.promptS / off.throughput.makespanS;
    const halfSpeed = (2 * prefill) / (1 + prefill);
    const published = 8.06 / 6.78;
    return {
      workload:
        `${requests} requests at once, ${grouped(inputTokens)} input tokens (${systemPromptTokens} of each are the system ` +
        `prompt) and ${grouped(outputTokens)} output tokens, lengths distributed as in chats, 4 to 1,024. The issue does not name ` +
        "the GPU: an A100 with 80 GB is assumed.",
      rows: [
        row("off", off, 6.78),
        row("on, blocks of 16", on, 8.06),
        row("on, blocks of 64", coarse),
        row("off, enough blocks for all", ampleOff),
        row("on, enough blocks for all", ampleOn),
      ],
      headlines: [{ ratio: "requests/s, on ÷ off", published, simulated: gain(on, off) }],
      explanations: [
        `The gain comes from computation: prefill takes ${off.sums.promptS.toFixed(1)} s without and ${on.sums.promptS.toFixed(1)} s with the cache, decode ` +
          `${(off.throughput.makespanS - off.sums.promptS).toFixed(1)} and ${(on.throughput.makespanS - on.sums.promptS).toFixed(1)} s. ` +
          `With enough blocks for all requests it is ${gain(ampleOn, ampleOff).toFixed(2)}, so saving memory adds nothing.`,
        `Our gain is smaller because prefill takes ${percent(prefill)} of the time without cache, and ${percent(hits)} of its tokens are hits: that gains ${(1 / (1 - prefill * hits)).toFixed(2)}. ` +
          `For the published ${published.toFixed(2)}, prefill would have to take ${percent((1 - 1 / published) / hits)} of the time; at half its speed it would take ${percent(halfSpeed)}, and the gain would be ${(1 / (1 - halfSpeed * hits)).toFixed(2)}. ` +
          "The efficiency of vLLM 0.4 is not published; the rates of the GPU are those of a newer engine.",
        `Blocks of 64 cache 64 of the ${systemPromptTokens} tokens, blocks of 16 cache 96: the gain falls to ${gain(coarse, off).toFixed(2)}.`,
        "The issue names three indexes: a sorted vector of prefixes, a hash table and a radix tree, of which the hash table is said to match and " +
          "insert more slowly than the radix tree. That does not hold here: a block reference takes 25 ns in a hash table and 32 ns in a radix tree " +
          "(npm run bench -- scaling). A sorted vector (index sorted-list) has the same hits and moves all elements behind an insertion.",
      ],
    };
  },
};

const gain = (on: Measured, off: Measured) => on.throughput.requestsPerS / off.throughput.requestsPerS;
