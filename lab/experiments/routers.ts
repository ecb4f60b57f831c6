import { grouped } from "../../core/counted.ts";
import { InputError } from "../../core/errors.ts";
import { readTrace, type Trace } from "../../core/trace/trace.ts";
import { routerRegistry } from "../../policies/registry.ts";
import { chatSource } from "../../traces/generate.ts";
import { percent } from "../output/numbers.ts";
import type { Experiment, Headline, Row } from "./experiment.ts";
import { type ExperimentRunner, type Measured, usualMetrics } from "./runner.ts";

const replicaCounts = [1, 4, 16] as const;
const most = replicaCounts[replicaCounts.length - 1];
/** Less than a GPU has room for: all system prompts together are more than one replica can keep. */
const blocksEach = 4000;
/** Of each replica, however many there are. */
const requestsPerS = 4;
const turns = 5;
const systems = { systemPrompts: 60, systemTokens: 1200 };
const requests = 2500;
/** Of a trace, which may have prompts of any length: about as much work. */
const promptTokensPerS = 3000;

/** As many sessions a second as keep each replica as busy as one alone. */
const chat = (seed: number, replicas: number) =>
  readTrace(
    chatSource({
      ...systems,
      ...{ requests, seed, unitTokens: 16, turns, userTokens: 200, thinkS: 10 },
      sessionsPerS: (requestsPerS / turns) * replicas,
    }),
  );

export const routers: Experiment = {
  name: "routers",
  about: "which replica gets a request: hits, duplicated content and first tokens, over 1 to 16 replicas",
  source: "SGLang's router, NVIDIA Dynamo's, KubeAI's and the usual ones; no common figures are published",
  takesTrace: true,
  async run(laboratory: ExperimentRunner) {
    const machine = laboratory.machine({ model: "llama-3.1-8b", gpu: "a100-80gb" });
    const given = laboratory.trace;
    const rows: Row[] = [];
    const headlines: Headline[] = [];
    const runs: Record<string, Measured> = {};
    for (const replicas of replicaCounts) {
      const trace = given ?? (await chat(laboratory.seed, replicas));
      const arrivals =
        given === undefined ? ({ loop: "closed" } as const) : { speed: speedFor(given, promptTokensPerS * replicas) };
      const common = {
        preset: "vllm",
        machine,
        replicas,
        arrivals,
        ...(given === undefined && { blocks: blocksEach }),
      };
      const names = replicas === 1 ? ["alone"] : routerRegistry.all.map(({ name }) => name);
      for (const name of names) {
        const run = await laboratory.run(trace, { ...common, ...(replicas > 1 && { router: name }) });
        runs[name] = run;
        const { hitRatioToken } = usualMetrics(run);
        const { cluster, latency } = run;
        rows.push({
          configuration: replicas === 1 ? "1 replica" : `${replicas} ${name}`,
          simulated: {
            hitRatioToken,
            ...(replicas > 1 && { duplicated: cluster.duplicated, imbalance: cluster.imbalance }),
            ttftMsP50: latency.ttftMs?.p50 ?? 0,
            ttftMsP99: latency.ttftMs?.p99 ?? 0,
          },
        });
      }
    }
    const hits = (name: string) => usualMetrics(runs[name]).hitRatioToken;
    const ttft = (name: string) => runs[name].latency.ttftMs?.p50 ?? 0;
    for (const name of ["session-affinity", "dynamo-kv", "consistent-hash", "prefix-affinity"])
      headlines.push(
        { ratio: `${most} replicas: hits, ${name} ÷ round-robin`, simulated: hits(name) / hits("round-robin") },
        { ratio: `${most} replicas: TTFT p50, round-robin ÷ ${name}`, simulated: ttft("round-robin") / ttft(name) },
      );
    const figure = (name: string) =>
      `${percent(hits(name))} with ${percent(runs[name].cluster.duplicated)} of what is cached there for a second time`;
    const { "consistent-hash": hashed, "prefix-affinity": affine } = runs;
    return {
      workload:
        given === undefined
          ? `${grouped(requests)} requests of chats of ${turns} turns on average, which begin with one of ${systems.systemPrompts} system prompts of ` +
            `${systems.systemTokens} tokens on average; the next turn comes 10 s after an answer. ${requestsPerS} requests a second for each replica, which is ` +
            `llama-3.1-8b on an A100 with room for ${grouped(blocksEach)} blocks of 16.`
          : `${grouped(given.requestCount)} requests of the trace, at ${grouped(promptTokensPerS)} prompt tokens a second for each replica, which is llama-3.1-8b on an A100.`,
      rows,
      headlines,
      explanations: [
        `Routers that do not look at content spread every prefix over all replicas, and each keeps its own copies: with ${most} of them ` +
          `round-robin finds ${figure("round-robin")}, prefix-affinity ${figure("prefix-affinity")}. A single replica alone finds ${percent(hits("alone"))}.`,
        (given?.optional.session === undefined && given !== undefined
          ? "The trace names no sessions, so that session-affinity does as least-loaded. "
          : `Sessions that stay where they are find their history (${percent(hits("session-affinity"))}), but every replica still needs all system prompts. `) +
          `dynamo-kv weighs what is cached against load (${percent(hits("dynamo-kv"))}).`,
        `Who follows prefixes pays with balance: the busiest replica has ${affine.cluster.imbalance.toFixed(2)} times the mean of requests with prefix-affinity, ` +
          `${hashed.cluster.imbalance.toFixed(2)} with consistent-hash, ${runs["round-robin"].cluster.imbalance.toFixed(2)} with round-robin.`,
      ],
    };
  },
};

/** How many times as fast as recorded so many prompt tokens a second come. @throws InputError for a trace without duration. */
function speedFor({ requestCount, arrivalNs, inputTokens }: Trace, perS: number): number {
  const durationS = (arrivalNs[requestCount - 1] - arrivalNs[0]) / 1e9;
  const tokens = inputTokens.reduce((sum, length) => sum + length, 0);
  if (durationS > 0) return (perS * durationS) / tokens;
  throw new InputError("--trace needs arrival times that differ; all requests of this one arrive at once");
}
