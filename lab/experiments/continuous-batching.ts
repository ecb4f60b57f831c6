import { seededRandom } from "../../core/random.ts";
import { exponential } from "../../traces/random.ts";
import type { Experiment, Headline, Row } from "./experiment.ts";
import { lengthsOf, type Prompt, traceOf } from "./requests.ts";
import { commonMetrics, type ExperimentRunner, type Measured } from "./runner.ts";

const requests = 400;
const systemTokens = 400;
const rates = [1, 4, 8, 16] as const;
const batch = 32;

/** Chats with the same system prompt; the same chats at every rate, with scaled arrival times. */
function chats(seed: number, perS: number): Prompt[] {
  const lengths = seededRandom(seed);
  const arrivals = seededRandom(seed ^ 0x5bd1e995);
  const spread = { sigma: 1, least: 4, most: 1024 };
  const promptLengths = lengthsOf(lengths, requests, 200 * requests, spread);
  const outputs = lengthsOf(lengths, requests, 200 * requests, spread);
  let arrivalNs = 0;
  return Array.from(promptLengths, (ownTokens, i) => {
    arrivalNs += Math.round((exponential(arrivals) / perS) * 1e9);
    return {
      arrivalNs,
      prefix: { id: 0, tokens: systemTokens },
      ownTokens,
      outputTokens: outputs[i],
      maxOutputTokens: Math.min(1024, Math.ceil((outputs[i] * 1.5) / 64) * 64),
    };
  });
}

export const continuousBatching: Experiment = {
  name: "continuous-batching",
  about: "static and continuous batching, radix allocator off and on, at 1 to 16 requests a second",
  source: "Text Generation Inference (continuous batching; RadixAllocator of v3); no numbers are published",
  async run(runner: ExperimentRunner) {
    const machine = runner.machine({ model: "llama-3.1-8b", gpu: "a100-80gb" });
    const rows: Row[] = [];
    const headlines: Headline[] = [];
    const all: Record<string, Measured>[] = [];
    for (const rate of rates) {
      const trace = traceOf(chats(runner.seed, rate));
      const setups = {
        static: { preset: "tgi-simple", scheduler: "static", schedulerOptions: { "batch-size": batch } },
        continuous: { preset: "tgi-simple" },
        radix: { preset: "tgi" },
        "radix, hits recomputed": { preset: "tgi", rules: { "hit-compute": "recompute" } },
      } as const;
      const runs: Record<string, Measured> = {};
      for (const [name, setup] of Object.entries(setups)) {
        const run = await runner.run(trace, { machine, ...setup });
        runs[name] = run;
        const { latency } = run;
        const { requestsPerS, hitRatioToken, batchMean } = commonMetrics(run);
        rows.push({
          configuration: `${rate}/s ${name}`,
          simulated: {
            requestsPerS,
            hitRatioToken,
            batchMean,
            ttftMsP50: latency.ttftMs?.p50 ?? 0,
            ttftMsP99: latency.ttftMs?.p99 ?? 0,
            tpotMsMean: latency.tpotMs?.mean ?? 0,
          },
        });
      }
      all.push(runs);
      const { static: staticBatches, continuous, radix } = runs;
      const ttft = (run: Measured) => run.latency.ttftMs!.p50;
      headlines.push(
        { ratio: `${rate}/s: TTFT p50, static ÷ continuous`, simulated: ttft(staticBatches) / ttft(continuous) },
        { ratio: `${rate}/s: TTFT p50, radix off ÷ on`, simulated: ttft(continuous) / ttft(radix) },
      );
    }
    const [slow] = all;
    const fast = all[all.length - 1];
    const perS = (run: Measured) => run.throughput.requestsPerS;
    const tpot = (run: Measured) => run.latency.tpotMs!.mean;
    return {
      workload:
        `${requests} chats with Poisson arrivals, a system prompt of ${systemTokens} tokens, on average 200 further prompt tokens and 200 output tokens; ` +
        `llama-3.1-8b on an A100 with 80 GB (assumed); static batches of ${batch}.`,
      rows,
      headlines,
      explanations: [
        `With static batches, new requests wait for the longest output of the batch: at ${rates[0]}/s the median TTFT is ` +
          `${slow["static"].latency.ttftMs!.p50.toFixed(0)} ms instead of ${slow["continuous"].latency.ttftMs!.p50.toFixed(0)}, and the batch shrinks as its shorter outputs end. ` +
          `At ${rates[rates.length - 1]}/s static batching serves ${perS(fast["static"]).toFixed(1)} requests a second, continuous batching ${perS(fast["continuous"]).toFixed(1)}.`,
        `The price of continuous batching is the time between tokens: prefill interrupts decode, and steps are larger. At ${rates[rates.length - 1]}/s TPOT is ` +
          `${tpot(fast["continuous"]).toFixed(1)} ms instead of ${tpot(fast["static"]).toFixed(1)}.`,
        `The radix allocator caches the system prompt: prefill computes fewer tokens, so TTFT is shorter and decode is ` +
          `interrupted for less time (TPOT ${tpot(fast["radix"]).toFixed(1)} ms at ${rates[rates.length - 1]}/s).`,
        `A backend may ignore prefix_len: it shares the memory of a hit and computes the hit again (--rule hit-compute=recompute). At ${rates[rates.length - 1]}/s ` +
          `the saved memory alone gives ${perS(fast["radix, hits recomputed"]).toFixed(1)} requests a second, between ${perS(fast["continuous"]).toFixed(1)} without and ${perS(fast["radix"]).toFixed(1)} with all of the radix ` +
          "allocator; at lower rates, where memory is not scarce, it changes nothing.",
      ],
    };
  },
};
