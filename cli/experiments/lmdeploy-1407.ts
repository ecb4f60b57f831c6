import { seededRandom } from "../../core/random.ts";
import type { Experiment, Row } from "./experiment.ts";
import { type Laboratory, type Measured, throughputOf } from "./laboratory.ts";
import { lengthsOf, traceOf } from "./requests.ts";

const requests = 1000;
const inputTokens = 336_509;
const outputTokens = 160_646;
const systemTokens = 110;
/** Chats differ much in length: the standard deviation of the logarithm of ShareGPT's turns is about that. */
const sigma = 1;

/** A thousand chats, each with the same system prompt in front; totals as published, to the token. */
export function shareGptLike(seed: number) {
  const random = seededRandom(seed);
  const own = lengthsOf(random, requests, inputTokens - requests * systemTokens, sigma);
  const answers = lengthsOf(random, requests, outputTokens, sigma);
  return traceOf(
    Array.from(own, (ownTokens, i) => ({
      prefix: { id: 0, tokens: systemTokens },
      ownTokens,
      outputTokens: answers[i],
    })),
  );
}

/** vLLM as it was then: whole prompts in steps of their own, of as many tokens as Llama 2's context has. */
const vllm = { policy: "vllm-v0", scheduler: "fcfs", schedulerOptions: { "max-num-batched-tokens": 4096 } } as const;

export const lmdeploy1407: Experiment = {
  name: "lmdeploy-1407",
  about: "prefix caching on and off: 1,000 chats behind one system prompt of 110 tokens, 13B",
  source: "vLLM's automatic prefix caching, measured in LMDeploy's issue 1407 (April 2024)",
  async run(laboratory: Laboratory) {
    const machine = laboratory.machine({ model: "llama-2-13b", gpu: "a100-80gb" });
    const trace = shareGptLike(laboratory.seed);
    const off = await laboratory.run(trace, { ...vllm, machine, index: "none" });
    const on = await laboratory.run(trace, { ...vllm, machine });
    const blocks64 = await laboratory.run(trace, { ...vllm, machine, blockTokens: 64 });
    // As much room as without, of which shared blocks take a part once: what is left of the gain is computing.
    const onlyRoom = await laboratory.run(trace, { ...vllm, machine, blocks: 1_000_000, index: "none" });
    const row = (configuration: string, run: Measured, requestsPerS?: number): Row => ({
      configuration,
      ...(requestsPerS !== undefined && { published: { requestsPerS } }),
      simulated: throughputOf(run),
    });
    return {
      workload: "",
      rows: [row("off", off, 6.78), row("on, blocks of 16", on, 8.06), row("on, blocks of 64", blocks64), row("off, unlimited", onlyRoom)],
      headlines: [
        { ratio: "requests/s, on ÷ off", published: 8.06 / 6.78, simulated: on.throughput.requestsPerS / off.throughput.requestsPerS },
      ],
      explanations: [],
    };
  },
};
