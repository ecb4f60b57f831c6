import { grouped } from "../../core/counted.ts";
import { seededRandom } from "../../core/random.ts";
import { type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import { Prompt, PromptKeys } from "../../traces/generators/prompt.ts";
import { exponential, geometric, logNormal, zipf } from "../../traces/random.ts";
import { percent } from "../output/numbers.ts";
import type { Experiment } from "./experiment.ts";
import { cachesWith, capacityText, replayTable } from "./replay-table.ts";
import type { ExperimentRunner } from "./runner.ts";

const caches = cachesWith(["lru", "lfu", "gdsf", "workload-aware"]);
const shares = [0.02, 0.05, 0.1, 0.2];
const [chats, files, calls] = [1, 2, 3];
const hourS = 3600;

interface Arrival {
  readonly atS: number;
  readonly prompt: Prompt;
  readonly category: number;
  readonly session?: number;
}

/** An hour of chats with pauses of a minute, questions about files that are asked once, and calls of an API with templates. */
function requestsLike(seed: number): Trace {
  const random = seededRandom(seed);
  const arrivals: Arrival[] = [];
  for (let session = 1; session <= 250; session++) {
    let prompt = new Prompt(undefined, Math.ceil(logNormal(random, 400, 0.8)));
    let atS = random.unit() * hourS;
    for (let left = geometric(random, 4); left > 0; left--) {
      arrivals.push({ atS, prompt, category: chats, session });
      prompt = prompt.extend(Math.ceil(logNormal(random, 500, 0.8)));
      atS += 10 + 50 * exponential(random);
    }
  }
  for (let i = 0; i < 350; i++) {
    const prompt = new Prompt(undefined, Math.ceil(logNormal(random, 5000, 0.6)));
    arrivals.push({ atS: random.unit() * hourS, prompt, category: files });
  }
  const popular = zipf(random, 40, 1);
  const templates = Array.from({ length: 40 }, () => new Prompt(undefined, Math.ceil(logNormal(random, 600, 0.5))));
  for (let i = 0; i < 900; i++) {
    const prompt = templates[popular()].extend(Math.ceil(logNormal(random, 80, 0.8)));
    arrivals.push({ atS: random.unit() * hourS, prompt, category: calls });
  }
  const keys = new PromptKeys(16);
  const builder = new TraceBuilder(16);
  for (const { atS, prompt, category, session = 0 } of arrivals.sort((a, b) => a.atS - b.atS)) {
    const common = { inputTokens: prompt.tokens, outputTokens: 1, maxOutputTokens: 1 };
    builder.add({ arrivalNs: Math.round(atS * 1e9), ...common, keys: [...keys.of(prompt)], session, category });
  }
  return builder.take();
}

export const inTheWild: Experiment = {
  name: "in-the-wild",
  about: "workload-aware eviction and LRU: hits of chats, files and API calls",
  source: "Wang et al.: KVCache Cache in the Wild (USENIX ATC 2025)",
  takesTrace: true,
  async run(runner: ExperimentRunner) {
    const trace = runner.trace ?? requestsLike(runner.seed);
    const { rows, hits } = await replayTable(runner, trace, { caches, shares });
    const gain = (share: number, than: string) => hits(share, "workload-aware") / hits(share, than);
    const most = shares.reduce((a, b) => (gain(b, "lru") > gain(a, "lru") ? b : a));
    return {
      workload:
        runner.trace === undefined
          ? `${grouped(trace.requestCount)} requests of an hour, in blocks of 16 tokens: chats with about a minute between turns, questions about files that are asked once, and API calls with 40 templates. ` +
            "The paper's traces are public without their users (kvlab trace fetch qwen-bailian-a; --trace FILE). Requests one at a time; capacities are shares of all blocks."
          : `${grouped(trace.requestCount)} requests of the trace, one at a time; capacities are shares of all blocks.`,
      rows,
      // Without the published range: its baselines are other policies, and its trace another one.
      headlines: shares.map((share) => ({
        ratio: `hits, workload-aware ÷ lru, ${capacityText(share)}`,
        simulated: gain(share, "lru"),
      })),
      explanations: [
        "Published are 8.1 to 23.9 % more hits than with the policies that the paper compares, by cache size and trace. " +
          `These are other policies than LRU alone, and ${runner.trace === undefined ? "the requests here are generated" : "the trace is another one"}: the gains are not compared. The gain depends on the share of requests whose content is never used again: ` +
          "LRU keeps them as long as the next turn of a chat, workload-aware evicts them first.",
        `Here it is highest with ${capacityText(most)} of the blocks, ${percent(gain(most, "lru") - 1)}. ` +
          "In a large cache LRU evicts little that is used again, and the gain vanishes. " +
          "With one category and no sessions the policy is LRU.",
      ],
    };
  },
};
