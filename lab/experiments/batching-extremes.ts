import { seededRandom } from "../../core/random.ts";
import type { Experiment, Headline, Row } from "./experiment.ts";
import { lengthsOf, type Prompt, traceOf } from "./requests.ts";
import { commonMetrics, type ExperimentRunner, type Measured, type Setup } from "./runner.ts";

const requests = 480;
const userCounts = [1, 10, 20, 40, 80, 160] as const;

/** The same requests for each number of users, who send the next one when the output of the one before is complete. */
function chatsOf(users: number, seed: number): Prompt[] {
  const random = seededRandom(seed);
  const spread = { sigma: 0.7, least: 4, most: 1024 };
  const prompts = lengthsOf(random, requests, 400 * requests, spread);
  const outputs = lengthsOf(random, requests, 200 * requests, spread);
  return Array.from(prompts, (ownTokens, i) => ({
    session: 1 + (i % users),
    ownTokens,
    outputTokens: outputs[i],
    maxOutputTokens: Math.min(1024, Math.ceil((outputs[i] * 1.5) / 64) * 64),
  }));
}

export const batchingExtremes: Experiment = {
  name: "batching-extremes",
  about: "no batching and continuous batching, for 1 to 160 users who each wait for their output",
  source: 'Text Generation Inference, in words: "2× the latency for 10× the users"',
  async run(runner: ExperimentRunner) {
    const machine = runner.machine({ model: "llama-3.1-8b", gpu: "a100-80gb" });
    const rows: Row[] = [];
    const run = async (users: number, batching: string, setup: Partial<Setup>): Promise<Measured> => {
      const trace = traceOf(chatsOf(users, runner.seed));
      const all = { machine, preset: "tgi-simple", arrivals: { loop: "closed" }, ...setup } as const;
      const measured = await runner.run(trace, all);
      const { requestsPerS, batchMean } = commonMetrics(measured);
      rows.push({
        configuration: `${users} ${users === 1 ? "user" : "users"}, ${batching}`,
        simulated: { requestsPerS, batchMean, ...times(measured) },
      });
      return measured;
    };
    const none: Measured[] = [];
    const continuous: Measured[] = [];
    for (const users of userCounts) {
      if (users <= 10) none.push(await run(users, "no batching", { scheduler: "naive" }));
      continuous.push(await run(users, "continuous", {}));
    }
    const latency = (measured: Measured) => times(measured).latencyMsP50;
    const perS = (measured: Measured) => measured.throughput.requestsPerS;
    const headlines: Headline[] = userCounts.slice(1).map((users, i) => ({
      ratio: `continuous: latency p50, ${users} users ÷ 1 user`,
      ...(users === 10 && { published: 2 }),
      simulated: latency(continuous[i + 1]) / latency(continuous[0]),
    }));
    headlines.push(
      {
        ratio: "10 users: latency p50, no batching ÷ continuous",
        simulated: latency(none[1]) / latency(continuous[1]),
      },
      { ratio: "10 users: requests/s, continuous ÷ no batching", simulated: perS(continuous[1]) / perS(none[1]) },
    );
    const doubled = userCounts.find((_, i) => latency(continuous[i]) >= 2 * latency(continuous[0]));
    return {
      workload:
        `${requests} requests, divided among the users, of whom each sends one after the other; on average 400 prompt tokens and 200 output tokens; llama-3.1-8b on an A100 ` +
        "with 80 GB (assumed, the source names neither).",
      rows,
      headlines,
      explanations: [
        `Without batching a request that is served has the shortest latency (${latency(none[0]).toFixed(0)} ms), but only one is served: with 10 users each waits for ` +
          `nine others, ${(latency(none[1]) / latency(none[0])).toFixed(1)} times as long, and throughput stays at ${perS(none[1]).toFixed(2)} requests a second.`,
        "With continuous batching a step of 10 sequences reads the weights once, as a step of one does, so that 10 users cost " +
          `${(latency(continuous[1]) / latency(continuous[0])).toFixed(2)} times the latency here; ${doubled === undefined ? "the latency is not doubled by any of these numbers of users" : `the latency is doubled at ${doubled} users`}. ` +
          "The published factor is of an engine of 2023, in which steps of more sequences cost more.",
      ],
    };
  },
};

const times = ({ latency }: Measured) => ({
  latencyMsP50: latency.e2eMs?.p50 ?? 0,
  ttftMsP50: latency.ttftMs?.p50 ?? 0,
  tpotMsMean: latency.tpotMs?.mean ?? 0,
});
