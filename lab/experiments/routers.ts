import { grouped } from "../../core/counted.ts";
import { InputError } from "../../core/errors.ts";
import { readTrace, type Trace } from "../../core/trace/trace.ts";
import { routerRegistry } from "../../policies/registry.ts";
import { chatSource } from "../../traces/generators/chat.ts";
import { percent } from "../output/numbers.ts";
import type { Experiment, Headline, Row } from "./experiment.ts";
import { commonMetrics, type ExperimentRunner, type Measured } from "./runner.ts";

/** All routers except that of the replicas of one server. */
const clusterRouters = routerRegistry.all.map(({ name }) => name).filter((name) => name !== "vllm-dp");
const replicaCounts = [1, 4, 16] as const;
const most = replicaCounts[replicaCounts.length - 1];
/** Fewer than fit on the GPU, so that one replica cannot cache all system prompts. */
const blocksEach = 4000;
/** Arrival rate for each replica. */
const requestsPerS = 4;
const turns = 5;
const systems = { systemPrompts: 60, systemTokens: 1200 };
const requests = 2500;
/** The load of each replica for a given trace, whose prompts may have any length: about the same work. */
const promptTokensPerS = 3000;

/** Chats whose session rate is proportional to the number of replicas. */
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
  about: "routers: hits, duplicated content and TTFT on 1 to 16 replicas",
  source: "SGLang's router, NVIDIA Dynamo's, KubeAI's and generic ones; no common numbers are published",
  takesTrace: true,
  async run(runner: ExperimentRunner) {
    const machine = runner.machine({ model: "llama-3.1-8b", gpu: "a100-80gb" });
    const given = runner.trace;
    const rows: Row[] = [];
    const headlines: Headline[] = [];
    const runs: Record<string, Measured> = {};
    for (const replicas of replicaCounts) {
      const trace = given ?? (await chat(runner.seed, replicas));
      const arrivals =
        given === undefined ? ({ loop: "closed" } as const) : { speed: speedFor(given, promptTokensPerS * replicas) };
      const common = {
        preset: "vllm",
        machine,
        replicas,
        arrivals,
        ...(given === undefined && { blocks: blocksEach }),
      };
      const names = replicas === 1 ? ["alone"] : clusterRouters;
      for (const name of names) {
        const run = await runner.run(trace, { ...common, ...(replicas > 1 && { router: name }) });
        runs[name] = run;
        const { hitRatioToken } = commonMetrics(run);
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
    const hits = (name: string) => commonMetrics(runs[name]).hitRatioToken;
    const ttft = (name: string) => runs[name].latency.ttftMs?.p50 ?? 0;
    for (const name of ["session-affinity", "dynamo-kv", "consistent-hash", "prefix-affinity"])
      headlines.push(
        { ratio: `${most} replicas: hits, ${name} ÷ round-robin`, simulated: hits(name) / hits("round-robin") },
        { ratio: `${most} replicas: TTFT p50, round-robin ÷ ${name}`, simulated: ttft("round-robin") / ttft(name) },
      );
    const hitText = (name: string) =>
      `${percent(hits(name))} with ${percent(runs[name].cluster.duplicated)} of the cached content duplicated`;
    const { "consistent-hash": hashed, "prefix-affinity": affine } = runs;
    return {
      workload:
        given === undefined
          ? `${grouped(requests)} requests of chats of ${turns} turns on average, each with one of ${systems.systemPrompts} system prompts of ` +
            `${systems.systemTokens} tokens on average; the next turn arrives 10 s after an output. ${requestsPerS} requests a second for each replica: ` +
            `llama-3.1-8b on an A100 with ${grouped(blocksEach)} blocks of 16.`
          : `${grouped(given.requestCount)} requests of the trace, at ${grouped(promptTokensPerS)} prompt tokens a second for each replica: llama-3.1-8b on an A100.`,
      rows,
      headlines,
      explanations: [
        `Routers that ignore content distribute every prefix over all replicas, and each caches its own copy: with ${most} replicas the hit ratio of ` +
          `round-robin is ${hitText("round-robin")}, that of prefix-affinity ${hitText("prefix-affinity")}. A single replica has ${percent(hits("alone"))}.`,
        (given?.optional.session === undefined && given !== undefined
          ? "The trace has no sessions, so session-affinity routes as least-loaded. "
          : `With session-affinity a session hits its history (${percent(hits("session-affinity"))}), but every replica still caches all system prompts. `) +
          `dynamo-kv weighs cached blocks against load (${percent(hits("dynamo-kv"))}).`,
        `Routing by prefix costs balance: the busiest replica has ${affine.cluster.imbalance.toFixed(2)} times the mean number of requests with prefix-affinity, ` +
          `${hashed.cluster.imbalance.toFixed(2)} with consistent-hash, ${runs["round-robin"].cluster.imbalance.toFixed(2)} with round-robin.`,
      ],
    };
  },
};

/** The `--speed` at which `perS` prompt tokens a second arrive. @throws InputError for a trace without duration. */
function speedFor({ requestCount, arrivalNs, inputTokens }: Trace, perS: number): number {
  const durationS = (arrivalNs[requestCount - 1] - arrivalNs[0]) / 1e9;
  const tokens = inputTokens.reduce((sum, length) => sum + length, 0);
  if (durationS > 0) return (perS * durationS) / tokens;
  throw new InputError("--trace needs arrival times that differ; all requests of this one arrive at once");
}
