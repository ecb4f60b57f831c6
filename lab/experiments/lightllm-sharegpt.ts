import type { Experiment, Row } from "./experiment.ts";
import { shareGptLike } from "./lmdeploy-1407.ts";
import { commonMetrics, type ExperimentRunner, type Measured, type Setup } from "./runner.ts";

/** LLaMA of February 2023, whose keys and values have as many heads as its queries. */
const llama65b = {
  name: "llama-65b",
  config: {
    model_type: "llama",
    vocab_size: 32_000,
    num_hidden_layers: 80,
    hidden_size: 8192,
    intermediate_size: 22_016,
    num_attention_heads: 64,
    torch_dtype: "float16",
  },
};

/** The output limit of every request; LightLLM's benchmark sends the recorded output length, others a limit for all. */
const longestOutput = 1024;
/** As in token-attention: the default of `--max-batch-total-tokens` in TGI of 2023. */
const tgiTokens = 16_000;
/** As in efficient-router: outputs that are mostly shorter than maxOutputTokens. */
const typicalOutputs = { "router-token-ratio": 0.8, "router-max-new-tokens": 256 };

export const lightllmSharegpt: Experiment = {
  name: "lightllm-sharegpt",
  about: "LightLLM, TGI, vLLM and static batches on ShareGPT with LLaMA-65B, and the Efficient Router on and off",
  source: "LightLLM (2023): throughput of LLaMA-65B on 8 A100; the Router's gain on ShareGPT is described as small",
  async run(runner: ExperimentRunner) {
    const machine = runner.machine({ model: llama65b, gpu: "a100-80gb", tp: 8 });
    const small = runner.machine({ model: "llama-7b", gpu: "a100-80gb" });
    const exact = shareGptLike(runner.seed, 0);
    const limited = shareGptLike(runner.seed, 0, longestOutput);
    const rows: Row[] = [];
    const run = async (configuration: string, own: Partial<Setup>, trace = exact): Promise<Measured> => {
      const measured = await runner.run(trace, { machine, ...own });
      const { preemptions } = measured.counters;
      rows.push({ configuration, simulated: { ...commonMetrics(measured), preemptions } });
      return measured;
    };
    const lightllm = { preset: "lightllm", index: "none" } as const;
    const router = await run("65B: LightLLM", lightllm);
    const tgi = await run(`65B: TGI, ${tgiTokens} tokens a batch`, {
      preset: "tgi-simple",
      schedulerOptions: { "max-batch-total-tokens": tgiTokens },
    });
    const vllm = await run("65B: vLLM", { preset: "vllm-v0", index: "none", scheduler: "fcfs" });
    const fixed = await run("65B: static batches of 32", {
      preset: "tgi-simple",
      scheduler: "static",
      schedulerOptions: { "batch-size": 32 },
    });
    const noRouter = { ...lightllm, machine: small, scheduler: "fcfs" } as const;
    const withRouter = { ...lightllm, machine: small } as const;
    const smallNone = await run("7B: no router", noRouter);
    const smallRouter = await run("7B: router", withRouter);
    const limitedNone = await run(`7B, limit ${longestOutput}: no router`, noRouter, limited);
    const limitedRouter = await run(
      `7B, limit ${longestOutput}: router`,
      { ...withRouter, schedulerOptions: typicalOutputs },
      limited,
    );
    const gain = (of: Measured, over: Measured) => of.throughput.requestsPerS / over.throughput.requestsPerS;
    const others = [tgi, vllm, fixed].map((other) => gain(router, other).toFixed(2)).join(", ");
    return {
      workload:
        "1,000 requests at once with the lengths of ShareGPT chats: 226 prompt tokens and 161 output tokens on average. LLaMA-65B on 8 A100 with " +
        "80 GB, as published; llama-7b on one (assumed) for the Router alone.",
      rows,
      headlines: [
        { ratio: "65B: requests/s, LightLLM ÷ TGI", published: [2, 3], simulated: gain(router, tgi) },
        { ratio: "65B: requests/s, LightLLM ÷ vLLM", published: [2, 3], simulated: gain(router, vllm) },
        { ratio: "65B: requests/s, LightLLM ÷ static batches", published: [2, 3], simulated: gain(router, fixed) },
        { ratio: "7B: requests/s, router ÷ no router", simulated: gain(smallRouter, smallNone) },
        {
          ratio: `7B, limit ${longestOutput}: requests/s, router ÷ no router`,
          simulated: gain(limitedRouter, limitedNone),
        },
      ],
      explanations: [
        `On ShareGPT the Router gains little, as LightLLM reports: ${gain(smallRouter, smallNone).toFixed(2)} with the recorded output lengths as limits and ` +
          `${gain(limitedRouter, limitedNone).toFixed(2)} with a limit of ${longestOutput} for all. Requests are short and similar, so that preemption without a router is rare and cheap ` +
          `(${smallNone.counters.preemptions} and ${limitedNone.counters.preemptions} preempted requests). On mixed lengths it gains 1.5 (experiment efficient-router).`,
        `Against the other systems, scheduling and memory alone give ${others} times the requests a second (TGI, vLLM, static batches): TGI is limited by its token ` +
          `budget (${tgi.sums.batchMean.toFixed(0)} sequences at once), vLLM runs ${vllm.sums.batchMean.toFixed(0)}, LightLLM ${router.sums.batchMean.toFixed(0)}.` +
          " The rest of the published 2 to 3 is not scheduling: " +
          "kernels and host time of the engines of 2023 are not simulated, and all have the same ones here.",
      ],
    };
  },
};
