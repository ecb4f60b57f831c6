import type { Experiment, Row } from "./experiment.ts";
import { mixedLengths, mixedLengthsText } from "./mixed-lengths.ts";
import { commonMetrics, type ExperimentRunner, type Measured, type Setup } from "./runner.ts";

const sharedTokens = 1024;
/**
 * LightLLM's options for outputs that are mostly shorter than maxOutputTokens; with LightLLM's defaults, every output is
 * estimated at maxOutputTokens.
 */
const typicalOutputs = { "router-token-ratio": 0.8, "router-max-new-tokens": 256 };

export const efficientRouter: Experiment = {
  name: "efficient-router",
  about: "admission by the estimated peak of cached tokens, compared with reserving the longest outputs",
  source: "LightLLM, Efficient Router (2023); Past-Future scheduler (ASPLOS'25)",
  async run(runner: ExperimentRunner) {
    const machine = runner.machine({ model: "llama-7b", gpu: "rtx-4090" });
    const large = runner.machine({ model: "llama-7b", gpu: "a100-80gb" });
    const trace = mixedLengths(runner.seed);
    const sharing = mixedLengths(runner.seed, sharedTokens);
    const rows: Row[] = [];
    const run = async (configuration: string, own: Partial<Setup>, requests = trace): Promise<Measured> => {
      const measured = await runner.run(requests, { preset: "lightllm", index: "none", machine, ...own });
      const { preemptions } = measured.counters;
      rows.push({ configuration, simulated: { ...commonMetrics(measured), preemptions } });
      return measured;
    };
    const worst = { scheduler: "fcfs", rules: { reserve: "worst-case" } } as const;
    const none = await run("no router: longest outputs reserved", worst);
    const preempting = await run("no router: preemption if blocks run out", { scheduler: "fcfs" });
    const full = await run("router, longest outputs", {});
    const first = await run("router as first published, longest outputs", { scheduler: "efficient-router-first" });
    const typical = await run("router, typical outputs", { schedulerOptions: typicalOutputs });
    const past = await run("past-future", { scheduler: "past-future" });
    const largeNone = await run("80 GB: no router", { ...worst, machine: large });
    const largeTypical = await run("80 GB: router, typical outputs", {
      machine: large,
      schedulerOptions: typicalOutputs,
    });
    const cached = { index: "radix-tree" } as const;
    const counted = await run("shared prefix: router", cached, sharing);
    const once = await run(
      "shared prefix: router, counted once",
      { ...cached, scheduler: "efficient-router-shared" },
      sharing,
    );
    const gain = (of: Measured, over: Measured) => of.throughput.requestsPerS / over.throughput.requestsPerS;
    return {
      workload:
        `${mixedLengthsText} With a shared prefix: the same requests after a cached prefix of ${sharedTokens} tokens. The source gives ` +
        "neither lengths nor GPU: llama-7b on an RTX 4090 (24 GB), where memory is scarce, is assumed, and an A100 for comparison.",
      rows,
      headlines: [
        {
          ratio: "requests/s, router with typical outputs ÷ no router",
          published: 1.5,
          simulated: gain(typical, none),
        },
        { ratio: "requests/s, router with longest outputs ÷ no router", simulated: gain(full, none) },
        { ratio: "requests/s, router as first published ÷ router", simulated: gain(first, full) },
        { ratio: "requests/s, past-future ÷ no router", simulated: gain(past, none) },
        { ratio: "requests/s, prefix counted once ÷ per request", simulated: gain(once, counted) },
      ],
      explanations: [
        `Blocks reserved for the longest outputs are mostly unused: ${none.sums.batchMean.toFixed(1)} sequences run at once, ` +
          `${typical.sums.batchMean.toFixed(1)} with the router. Running sequences do not reach their full length at the same time, which alone ` +
          `gains ${gain(full, none).toFixed(2)}; the rest is gained because most outputs are shorter than their maximum.`,
        `The gain comes from memory: with 80 GB it is ${gain(largeTypical, largeNone).toFixed(2)}, because ${largeNone.sums.batchMean.toFixed(1)} sequences at once already make ` +
          "steps long: most of their time is spent on reading keys and values.",
        `Admitting all requests and preempting if blocks run out gains ${gain(preempting, none).toFixed(2)} here: ${preempting.counters.preemptions} preempted requests ` +
          `recomputed their tokens (${typical.counters.preemptions} with the router), which is cheap for this workload of short prompts.`,
        `LightLLM counts a shared prefix once for every request that shares it, so it admits too few requests: ${counted.sums.batchMean.toFixed(1)} at once ` +
          `instead of ${once.sums.batchMean.toFixed(1)}.`,
        `As first published, the router admits up to the whole capacity and adds no spare steps, which gives ` +
          `${gain(first, full).toFixed(3)} times the requests a second: six steps of a few sequences are few tokens of the capacity.`,
      ],
    };
  },
};
