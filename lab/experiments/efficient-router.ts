import type { Experiment, Row } from "./experiment.ts";
import { mixedLengths, mixedLengthsText } from "./mixed-lengths.ts";
import { type ExperimentRunner, type Measured, type Setup, usualMetrics } from "./runner.ts";

const sharedTokens = 1024;
/** LightLLM's options for answers that are mostly shorter than what clients ask for; at its defaults all count in full. */
const usualAnswers = { "router-token-ratio": 0.8, "router-max-new-tokens": 256 };

export const efficientRouter: Experiment = {
  name: "efficient-router",
  about: "admission by the most tokens that all will hold at once, against room for the longest answers",
  source: "LightLLM, Efficient Router (2023); Past-Future scheduler (ASPLOS'25)",
  async run(laboratory: ExperimentRunner) {
    const machine = laboratory.machine({ model: "llama-7b", gpu: "rtx-4090" });
    const large = laboratory.machine({ model: "llama-7b", gpu: "a100-80gb" });
    const trace = mixedLengths(laboratory.seed);
    const sharing = mixedLengths(laboratory.seed, sharedTokens);
    const rows: Row[] = [];
    const run = async (configuration: string, own: Partial<Setup>, requests = trace): Promise<Measured> => {
      const measured = await laboratory.run(requests, { preset: "lightllm", index: "none", machine, ...own });
      const { preemptions } = measured.counters;
      rows.push({ configuration, simulated: { ...usualMetrics(measured), preemptions } });
      return measured;
    };
    const worst = { scheduler: "fcfs", rules: { reserve: "worst-case" } } as const;
    const none = await run("none: room for the longest answers", worst);
    const preempting = await run("none: who finds no room is sent back", { scheduler: "fcfs" });
    const full = await run("router, longest answers", {});
    const usual = await run("router, usual answers", { schedulerOptions: usualAnswers });
    const past = await run("past-future", { scheduler: "past-future" });
    const largeNone = await run("80 GB: none", { ...worst, machine: large });
    const largeUsual = await run("80 GB: router, usual answers", { machine: large, schedulerOptions: usualAnswers });
    const cached = { index: "radix-tree" } as const;
    const counted = await run("shared prefix: router", cached, sharing);
    const once = await run(
      "shared prefix: router, counts it once",
      { ...cached, scheduler: "efficient-router-shared" },
      sharing,
    );
    const gain = (of: Measured, over: Measured) => of.throughput.requestsPerS / over.throughput.requestsPerS;
    return {
      workload:
        `${mixedLengthsText} With a shared prefix: the same behind ${sharedTokens} tokens that all have, cached. The source names ` +
        "neither lengths nor GPU: llama-7b on an RTX 4090 (24 GB) is assumed, where room is short, and an A100 beside it.",
      rows,
      headlines: [
        { ratio: "requests/s, router with usual answers ÷ none", published: 1.5, simulated: gain(usual, none) },
        { ratio: "requests/s, router with longest answers ÷ none", simulated: gain(full, none) },
        { ratio: "requests/s, past-future ÷ none", simulated: gain(past, none) },
        { ratio: "requests/s, a shared prefix counted once ÷ for each", simulated: gain(once, counted) },
      ],
      explanations: [
        `Room reserved for every request's longest output is mostly never used: ${none.sums.batchMean.toFixed(1)} answers run at once, ` +
          `${usual.sums.batchMean.toFixed(1)} with the router. Those who run will not be at their longest at the same time, which alone ` +
          `makes ${gain(full, none).toFixed(2)}; that most answers are shorter than asked for makes the rest.`,
        `The gain is one of memory: with 80 GB it is ${gain(largeUsual, largeNone).toFixed(2)}, for ${largeNone.sums.batchMean.toFixed(1)} answers at once already fill ` +
          "the steps, whose time goes into reading keys and values.",
        `Admitting all and sending back who finds no room is ${gain(preempting, none).toFixed(2)} here: ${preempting.counters.preemptions} requests ` +
          `computed their prompts and answers again (${usual.counters.preemptions} with the router), which this workload of short prompts can afford.`,
        `LightLLM counts a shared prefix for every request that shares it, so it admits too few: ${counted.sums.batchMean.toFixed(1)} at once ` +
          `against ${once.sums.batchMean.toFixed(1)}.`,
      ],
    };
  },
};
