import { seededRandom } from "../../core/random.ts";
import { type Slo, timesOf } from "../../core/serving/metrics.ts";
import { exponential } from "../../traces/random.ts";
import { percent } from "../output/numbers.ts";
import type { Experiment, Headline, Row } from "./experiment.ts";
import { lengthsOf, type Prompt, traceOf } from "./requests.ts";
import type { ExperimentRunner, Measured, Setup } from "./runner.ts";

const requests = 400;
const gpus = 4;
const promptTokens = 2000;
const outputTokens = 200;
/** Requests per second of all GPUs, at which the goodput is searched, and those that the table has. */
const rates = [4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32] as const;
const shownRates: readonly number[] = [8, 16, 24];
/** The share of requests that must attain an SLO, as in DistServe's goodput. */
const leastAttained = 0.9;

const slos = {
  tight: { ttftMs: 2000, tpotMs: 15 },
  loose: { ttftMs: 2000, tpotMs: 150 },
} as const satisfies Record<string, Slo>;
type SloName = keyof typeof slos;
const sloNames = Object.keys(slos) as SloName[];

/** Mixed replicas by scheduler, and the divisions of the GPUs into prefill and decode replicas. */
const mixed = { "mixed, prefill first": "fcfs", "mixed, chunked prefill": "fcfs-chunked" } as const;
const divisions = [1, 2, 3].map((prefillReplicas) => ({ prefillReplicas, decodeReplicas: gpus - prefillReplicas }));

/** Summaries of long texts: no shared prefixes. The same at every rate, with scaled arrival times. */
function summaries(seed: number, perS: number): Prompt[] {
  const lengths = seededRandom(seed);
  const arrivals = seededRandom(seed ^ 0x5bd1e995);
  const prompts = lengthsOf(lengths, requests, promptTokens * requests, { sigma: 0.6, least: 64, most: 8192 });
  const outputs = lengthsOf(lengths, requests, outputTokens * requests, { sigma: 0.6, least: 4, most: 1024 });
  let arrivalNs = 0;
  return Array.from(prompts, (ownTokens, i) => {
    arrivalNs += Math.round((exponential(arrivals) / perS) * 1e9);
    return { arrivalNs, ownTokens, outputTokens: outputs[i] };
  });
}

/** Share of the requests that attain every limit. */
function attainedBy({ requests: outcomes }: Measured, { ttftMs, tpotMs }: (typeof slos)[SloName]): number {
  let attained = 0;
  outcomes.refused.forEach((_, row) => {
    const times = timesOf(outcomes, row);
    if (times !== undefined && times.ttftMs <= ttftMs && (times.tpotMs ?? 0) <= tpotMs) attained++;
  });
  return attained / outcomes.refused.length;
}

export const disaggregation: Experiment = {
  name: "disaggregation",
  about: "prefill and decode on separate GPUs and mixed on the same ones, four GPUs each",
  source: "DistServe (OSDI 2024): up to 7.4 times the requests of a mixed system at equal SLO attainment",
  async run(runner: ExperimentRunner) {
    const machine = runner.machine({ model: "llama-3.1-8b", gpu: "a100-80gb" });
    const tp = machine.tp ?? 1;
    const setups: Record<string, Omit<Setup, "machine">> = {};
    for (const [name, scheduler] of Object.entries(mixed))
      setups[name] = { scheduler, replicas: gpus, router: "least-loaded" };
    for (const pools of divisions)
      setups[`${pools.prefillReplicas} prefill, ${pools.decodeReplicas} decode`] = {
        ...{ scheduler: "fcfs-chunked", ...pools, router: "least-loaded" },
      };
    const rows: Row[] = [];
    const goodput: Record<string, Record<SloName, number>> = {};
    const p90: Record<string, number> = {};
    for (const [name, setup] of Object.entries(setups)) {
      goodput[name] = { tight: 0, loose: 0 };
      for (const perS of rates) {
        const trace = traceOf(summaries(runner.seed, perS));
        const run = await runner.run(trace, { ...setup, machine });
        const attained = { tight: attainedBy(run, slos.tight), loose: attainedBy(run, slos.loose) };
        for (const slo of sloNames) if (attained[slo] >= leastAttained) goodput[name][slo] = perS;
        p90[`${perS} ${name}`] = run.latency.tpotMs?.p90 ?? 0;
        if (!shownRates.includes(perS)) continue;
        rows.push({
          configuration: `${perS}/s ${name}`,
          simulated: {
            ttftMsP50: run.latency.ttftMs?.p50 ?? 0,
            ttftMsP99: run.latency.ttftMs?.p99 ?? 0,
            tpotMsMean: run.latency.tpotMs?.mean ?? 0,
            tpotMsP90: run.latency.tpotMs?.p90 ?? 0,
            sloTight: attained.tight,
            sloLoose: attained.loose,
          },
        });
      }
    }
    const names = Object.keys(setups);
    const isMixed = (name: string) => Object.hasOwn(mixed, name);
    const best = (slo: SloName, of: (name: string) => boolean) =>
      names.filter(of).reduce((a, b) => (goodput[b][slo] > goodput[a][slo] ? b : a));
    const separate = (name: string) => !isMixed(name);
    const headlines: Headline[] = sloNames.flatMap((slo) =>
      Object.keys(mixed).map((name) => ({
        ratio: `${slo} SLO: requests/s at ${percent(leastAttained)}, separate ÷ ${name}`,
        // The source compares with a mixed system without chunked prefill, at SLOs that bind decode.
        ...(slo === "tight" && name === "mixed, prefill first" && { published: [1, 7.4] as const }),
        simulated: goodput[best(slo, separate)][slo] / Math.max(rates[0] / 2, goodput[name][slo]),
      })),
    );
    rows.sort((a, b) => Number.parseFloat(a.configuration) - Number.parseFloat(b.configuration));
    const list = (slo: SloName) =>
      names.map((name) => `${name}: ${goodput[name][slo] || `below ${rates[0]}`}`).join("; ");
    const limits = ({ ttftMs, tpotMs }: (typeof slos)[SloName]) => `TTFT ${ttftMs / 1000} s and TPOT ${tpotMs} ms`;
    const least = shownRates[0];
    return {
      workload:
        `${requests} requests with Poisson arrivals and no common prefixes, ${promptTokens} prompt and ${outputTokens} output tokens on average; ` +
        `${typeof machine.model === "string" ? machine.model : machine.model.name} on ${gpus} replicas of ${tp} ${machine.gpu}; KV over links of 50 GB/s. Mixed replicas run vLLM v1's scheduler (chunked prefill) or ` +
        `vLLM v0's (whole prompts before decodes), which is DistServe's baseline. SLOs: tight, ${limits(slos.tight)}; loose, ${limits(slos.loose)}.`,
      rows,
      headlines,
      explanations: [
        `Highest of the rates ${rates[0]} to ${rates[rates.length - 1]} requests/s at which ${percent(leastAttained)} of the requests attain the tight SLO: ${list("tight")}. The loose SLO: ${list("loose")}.`,
        `In a mixed replica a decode waits for the prompts of its step: at ${least} requests/s the P90 of TPOT is ${p90[`${least} mixed, chunked prefill`].toFixed(0)} ms with chunked prefill and ` +
          `${p90[`${least} mixed, prefill first`].toFixed(0)} ms with prefill first, and ${p90[`${least} 2 prefill, 2 decode`].toFixed(0)} ms on separate decode replicas. ` +
          "Therefore separate replicas win where the SLO binds TPOT.",
        `With a loose TPOT the limit is prefill throughput: ${gpus} mixed GPUs compute prompts, and only ${best("loose", separate).split(" ")[0]} of ${gpus} in the best division. ` +
          "A division must fit the ratio of prompt and output tokens, and the rest of its GPUs is idle: above that load mixed serving wins (Mooncake, FAST 2025, converts replicas between pools for this reason).",
      ],
    };
  },
};
