import { grouped } from "../../core/counted.ts";
import { seededRandom } from "../../core/random.ts";
import { percent } from "../output/numbers.ts";
import type { Experiment, Row } from "./experiment.ts";
import { lengthsOf, traceOf } from "./requests.ts";
import { type ExperimentRunner, type Measured, usualMetrics } from "./runner.ts";

const requests = 1000;
const inputTokens = 336_509;
const outputTokens = 160_646;
const systemTokens = 110;
/** vLLM's benchmark leaves out what is shorter than 4 or longer than 1,024 tokens. */
const chats = { sigma: 1, least: 4, most: 1024 };

/** A thousand chats, each with the same system prompt in front; totals as published, to the token. */
export function shareGptLike(seed: number) {
  const random = seededRandom(seed);
  const own = lengthsOf(random, requests, inputTokens - requests * systemTokens, chats);
  const answers = lengthsOf(random, requests, outputTokens, chats);
  return traceOf(
    Array.from(own, (ownTokens, i) => ({
      prefix: { id: 0, tokens: systemTokens },
      ownTokens,
      outputTokens: answers[i],
    })),
  );
}

/** vLLM as it was then: whole prompts in steps of their own, of as many tokens as Llama 2's context has. */
const vllm = { preset: "vllm-v0", scheduler: "fcfs", schedulerOptions: { "max-num-batched-tokens": 4096 } } as const;

export const lmdeploy1407: Experiment = {
  name: "lmdeploy-1407",
  about: "prefix caching on and off: 1,000 chats behind one system prompt of 110 tokens, 13B",
  source: "vLLM's automatic prefix caching, measured in LMDeploy's issue 1407 (April 2024)",
  async run(laboratory: ExperimentRunner) {
    const machine = laboratory.machine({ model: "llama-2-13b", gpu: "a100-80gb" });
    const trace = shareGptLike(laboratory.seed);
    const off = await laboratory.run(trace, { ...vllm, machine, index: "none" });
    const on = await laboratory.run(trace, { ...vllm, machine });
    const coarse = await laboratory.run(trace, { ...vllm, machine, blockTokens: 64 });
    const roomy = { ...vllm, machine, blocks: 1_000_000 };
    const roomyOff = await laboratory.run(trace, { ...roomy, index: "none" });
    const roomyOn = await laboratory.run(trace, roomy);
    const row = (configuration: string, run: Measured, requestsPerS?: number): Row => ({
      configuration,
      ...(requestsPerS !== undefined && { published: { requestsPerS } }),
      simulated: { ...usualMetrics(run), promptS: run.sums.promptS },
    });
    const hits = on.counters.hitTokens / on.counters.lookupTokens;
    const prompts = off.sums.promptS / off.throughput.makespanS;
    const halfSpeed = (2 * prompts) / (1 + prompts);
    const published = 8.06 / 6.78;
    return {
      workload:
        `${requests} requests at once, ${grouped(inputTokens)} input tokens (${systemTokens} of each are the system ` +
        `prompt) and ${grouped(outputTokens)} output tokens, lengths spread as in chats, 4 to 1,024. The issue does not name ` +
        "the GPU: an A100 with 80 GB is assumed.",
      rows: [
        row("off", off, 6.78),
        row("on, blocks of 16", on, 8.06),
        row("on, blocks of 64", coarse),
        row("off, as many blocks as wanted", roomyOff),
        row("on, as many blocks as wanted", roomyOn),
      ],
      headlines: [{ ratio: "requests/s, on ÷ off", published, simulated: gain(on, off) }],
      explanations: [
        `The gain is computing: prompts take ${off.sums.promptS.toFixed(1)} s without and ${on.sums.promptS.toFixed(1)} s with the cache, answers ` +
          `${(off.throughput.makespanS - off.sums.promptS).toFixed(1)} and ${(on.throughput.makespanS - on.sums.promptS).toFixed(1)} s. ` +
          `With as many blocks as wanted it is ${gain(roomyOn, roomyOff).toFixed(2)}, so room adds nothing.`,
        `Ours is smaller because ${percent(prompts)} of the time without cache goes into prompts, and ${percent(hits)} of their tokens are hits: that makes ${(1 / (1 - prompts * hits)).toFixed(2)}. ` +
          `For the published ${published.toFixed(2)} prompts would have to take ${percent((1 - 1 / published) / hits)} of the time; computed at half the speed they would take ${percent(halfSpeed)}, and the gain be ${(1 / (1 - halfSpeed * hits)).toFixed(2)}. ` +
          "What vLLM 0.4 reached is not published; the efficiency factors are fitted on a newer engine.",
        `Blocks of 64 keep 64 of the ${systemTokens} tokens, those of 16 keep 96: the gain falls to ${gain(coarse, off).toFixed(2)}.`,
      ],
    };
  },
};

const gain = (on: Measured, off: Measured) => on.throughput.requestsPerS / off.throughput.requestsPerS;
