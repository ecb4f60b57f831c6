import { grouped } from "../../core/counted.ts";
import { readTrace } from "../../core/trace/trace.ts";
import { codingAgent } from "../../traces/generators/coding-agent.ts";
import { generated } from "../../traces/generators/generator.ts";
import { percent } from "../output/numbers.ts";
import type { Experiment } from "./experiment.ts";
import { cachesWith, capacityText, replayTable } from "./replay-table.ts";
import type { ExperimentRunner } from "./runner.ts";

const caches = cachesWith(["lru", "marconi", "marconi:alpha=0.5", "marconi:last-states=0", "cost-aware", "slru"]);
const shares = [0.03, 0.06, 0.1, 0.2];

export const marconi: Experiment = {
  name: "marconi",
  about: "Marconi's admission and FLOP-aware eviction, and LRU: token hit ratios of agents",
  source: "Pan et al.: Marconi: Prefix Caching for the Era of Hybrid LLMs (MLSys 2025)",
  takesTrace: true,
  async run(runner: ExperimentRunner) {
    const agents = { agents: 20, steps: 15, systemTokens: 3000, sessionsPerS: 0.1 };
    const given = runner.trace;
    const trace =
      given ??
      (await readTrace(generated(codingAgent, { ...agents, requests: 1500, seed: runner.seed, unitTokens: 128 })));
    const table = await replayTable(runner, trace, { caches, shares });
    const gains = shares.map((share) => table.hits(share, "marconi") / table.hits(share, "lru"));
    const branches = shares.map((share) => table.hits(share, "marconi:last-states=0") / table.hits(share, "lru"));
    return {
      workload:
        given === undefined
          ? `${grouped(trace.requestCount)} requests of coding agents of ${agents.agents} kinds, ${agents.steps} steps a session on average, in blocks of 128 tokens; the paper has SWE-bench, LMSYS and ShareGPT. ` +
            "Requests one at a time; capacities are shares of all blocks."
          : `${grouped(trace.requestCount)} requests of the trace, one at a time; capacities are shares of all blocks.`,
      rows: table.rows,
      headlines: [
        {
          ratio: "hit tokens, marconi ÷ lru, the highest",
          published: 34.4,
          simulated: Math.max(...gains),
        },
        { ratio: "hit tokens, marconi without last states ÷ lru, the highest", simulated: Math.max(...branches) },
      ],
      explanations: [
        `Published is "up to 34.4 times" the hit rate of vLLM extended to hybrid models, which stores a recurrent state, as large as the KV of ` +
          "many tokens, for every block. Most of that gain is admission: Marconi stores two states a request. Blocks of attention layers need no states, and all can be hit, so that " +
          "only the order of eviction is left.",
        `The weight of the FLOPs per byte is tuned in a window after the first eviction. It gains ${gains.map((gain, i) => `${percent(gain - 1)} at ${capacityText(shares[i])}`).join(", ")} of the blocks: ` +
          "few long contexts that stay whole save more than many that lose their ends. Where LRU has room for all contexts in use, a weight of 0 is chosen; a fixed weight loses there.",
        "Without last states a request's blocks are stored up to the point at which it branches off. That removes what is used once, and costs the first hit of every new turn.",
      ],
    };
  },
};
