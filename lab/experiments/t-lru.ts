import { grouped } from "../../core/counted.ts";
import { readTrace } from "../../core/trace/trace.ts";
import { chatSource } from "../../traces/generators/chat.ts";
import type { Experiment, Row } from "./experiment.ts";
import { commonMetrics, type ExperimentRunner, type Measured } from "./runner.ts";

const requests = 1500;
const capacities = [3000, 4500];
/** Tokens that a turn may compute (ξ). */
const thresholds = [1000, 2000, 3000];
const largest = capacities[capacities.length - 1];

export const tLru: Experiment = {
  name: "t-lru",
  about: "tail-optimised LRU and LRU: TTFT of multi-turn chats in a small cache",
  source: "Zhang et al.: Tail-Optimized Caching for LLM Inference (NeurIPS 2025)",
  takesTrace: true,
  async run(runner: ExperimentRunner) {
    const machine = runner.machine({ model: "llama-3.1-8b", gpu: "a100-80gb" });
    const given = runner.trace;
    const chats = { turns: 8, userTokens: 150, outputTokens: 250, thinkS: 60, sessionsPerS: 0.25 };
    const trace =
      given ??
      (await readTrace(
        chatSource({ ...chats, requests, seed: runner.seed, unitTokens: 16, systemPrompts: 1, systemTokens: 0 }),
      ));
    const rows: Row[] = [];
    const runs = new Map<string, Measured>();
    const nameOf = (blocks: number, eviction: string) => `${grouped(blocks)} blocks, ${eviction}`;
    for (const blocks of capacities) {
      for (const eviction of ["lru", ...thresholds.map((tokens) => `t-lru:threshold-tokens=${tokens}`)]) {
        const run = await runner.run(trace, { preset: "vllm", machine, blocks, eviction });
        const { p50 = 0, p90 = 0, p95 = 0, p99 = 0 } = run.latency.ttftMs ?? {};
        runs.set(nameOf(blocks, eviction), run);
        rows.push({
          configuration: nameOf(blocks, eviction),
          simulated: {
            hitRatioToken: commonMetrics(run).hitRatioToken,
            ...{ ttftMsP50: p50, ttftMsP90: p90, ttftMsP95: p95, ttftMsP99: p99 },
          },
        });
      }
    }
    const ttft = (blocks: number, eviction: string, share: "p90" | "p95") =>
      runs.get(nameOf(blocks, eviction))?.latency.ttftMs?.[share] ?? 0;
    const best = (share: "p90" | "p95") =>
      Math.min(
        ...capacities.flatMap((blocks) =>
          thresholds.map(
            (tokens) => ttft(blocks, `t-lru:threshold-tokens=${tokens}`, share) / ttft(blocks, "lru", share),
          ),
        ),
      );
    return {
      workload:
        given === undefined
          ? `${grouped(requests)} requests of chats of ${chats.turns} turns on average, ${chats.userTokens} tokens a message and ${chats.outputTokens} an output, a minute between turns, ` +
            `${chats.sessionsPerS} new chats a second: llama-3.1-8b on an A100, blocks of 16. The paper's WildChat has no arrival times; its TTFT is a function of the tokens that miss.`
          : `${grouped(given.requestCount)} requests of the trace: llama-3.1-8b on an A100.`,
      rows,
      headlines: [
        { ratio: "TTFT p90, t-lru ÷ lru, the lowest", published: 1 - 0.275, simulated: best("p90") },
        { ratio: "TTFT p95, t-lru ÷ lru, the lowest", published: 1 - 0.239, simulated: best("p95") },
      ],
      explanations: [
        "LRU evicts long and short chats alike. T-LRU evicts the end of each chat first, as far as it can be computed again with " +
          "the next turn within the threshold, and so has room for the beginnings of the long ones, whose turns are the tail.",
        `The gain depends on the capacity and on the threshold: with ${grouped(largest)} blocks TTFT p90 is ${ttft(largest, "lru", "p90").toFixed(0)} ms with LRU and ` +
          `${thresholds.map((tokens) => `${ttft(largest, `t-lru:threshold-tokens=${tokens}`, "p90").toFixed(0)} at ${grouped(tokens)} tokens`).join(", ")}. ` +
          "A threshold above the lengths of most chats evicts their whole prefixes first. The published ratios are the lowest of the paper's capacities and thresholds, too.",
      ],
    };
  },
};
