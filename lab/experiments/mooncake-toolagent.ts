import { grouped } from "../../core/counted.ts";
import { seededRandom } from "../../core/random.ts";
import { type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import { Prompt, PromptKeys } from "../../traces/generators/prompt.ts";
import { exponential, geometric, logNormal, zipf } from "../../traces/random.ts";
import type { Experiment } from "./experiment.ts";
import { type CacheChoice, capacityText, replayTable } from "./replay-table.ts";
import type { ExperimentRunner } from "./runner.ts";

const lru = "lru, first block first";
const leafLru = "lru of leaves";
const costAware = "cost-aware, leaves";
const index = "block-trie";
const caches: Readonly<Record<string, CacheChoice>> = {
  [lru]: { eviction: "lru", rules: { "free-order": "forward" } },
  "lru, deepest block first": { eviction: "lru" },
  [leafLru]: { eviction: "lru", index },
  [costAware]: { eviction: "cost-aware", index },
  "gdsf, leaves": { eviction: "gdsf", index },
};
const shares = [0.02, 0.05, 0.1, 0.2];
const published: Readonly<Record<string, number>> = { [lru]: 0.611, [leafLru]: 0.587, [costAware]: 0.616 };
const [tools, sessions] = [150, 1800];

/** Sessions of tool calls: the long prompt of a tool, which many sessions share, and a context that each step extends. */
function requestsLike(seed: number): Trace {
  const random = seededRandom(seed);
  const popular = zipf(random, tools, 1);
  const prompts = Array.from({ length: tools }, () => new Prompt(undefined, Math.ceil(logNormal(random, 5500, 0.6))));
  const arrivals: { readonly atS: number; readonly prompt: Prompt }[] = [];
  for (let session = 0; session < sessions; session++) {
    let atS = random.unit() * 3600;
    let prompt = prompts[popular()];
    for (let left = geometric(random, 1.3); left > 0; left--) {
      prompt = prompt.extend(Math.ceil(logNormal(random, 2500, 0.8)));
      arrivals.push({ atS, prompt });
      atS += 20 * exponential(random);
    }
  }
  const keys = new PromptKeys(512);
  const builder = new TraceBuilder(512);
  for (const { atS, prompt } of arrivals.sort((a, b) => a.atS - b.atS)) {
    const common = { inputTokens: prompt.tokens, outputTokens: 180, maxOutputTokens: 180 };
    builder.add({ arrivalNs: Math.round(atS * 1e9), ...common, keys: [...keys.of(prompt)] });
  }
  return builder.take();
}

export const mooncakeToolagent: Experiment = {
  name: "mooncake-toolagent",
  about: "LRU, LRU of leaves and cost-aware eviction of leaves: block hits of tool calls",
  source: "Mooncake's issue 1998 (July 2026)",
  takesTrace: true,
  async run(runner: ExperimentRunner) {
    const trace = runner.trace ?? requestsLike(runner.seed);
    const largest = shares[shares.length - 1];
    const { rows, hits } = await replayTable(runner, trace, {
      caches,
      shares,
      published: (share, name) =>
        share === largest && name in published ? { hitRatioBlock: published[name] } : undefined,
    });
    const ratio = (policy: string, share: number) => hits(share, policy) / hits(share, lru);
    const ratios = (name: string) =>
      `${shares.map((share) => `${ratio(name, share).toFixed(2)} at ${capacityText(share)}`).join(", ")}`;
    return {
      workload:
        `${grouped(trace.requestCount)} requests ${runner.trace === undefined ? `of ${grouped(sessions)} generated sessions of tool calls with the prompts of ${tools} tools, in blocks of 512 tokens` : "of the trace"}, one at a time. ` +
        "The issue replays Mooncake's toolagent trace (kvlab trace fetch mooncake-toolagent; --trace FILE), without its capacity: the published ratios are beside the largest of ours. Capacities are shares of all blocks.",
      rows,
      headlines: [
        // Without the published ratio, whose capacity is unknown.
        ...shares.map((share) => ({
          ratio: `hits, cost-aware ÷ lru, ${capacityText(share)}`,
          simulated: ratio(costAware, share),
        })),
        {
          ratio: `hits, leaf lru ÷ lru, ${capacityText(largest)}`,
          published: 0.587 / 0.611,
          simulated: ratio(leafLru, largest),
        },
      ],
      explanations: [
        "The issue's LRU leaves orphans, blocks whose beginnings were evicted, and its LRU of leaves has fewer hits than that, for which it gives no cause. Here LRU leaves orphans " +
          `if the first block of a prompt is evicted first; LRU of leaves has ${ratios(leafLru)} of its hits. If the deepest block is evicted first, the least recently used block is always a leaf, so that both are the same.`,
        `Cost-aware eviction of leaves has ${ratios(costAware)} of the hits of LRU. The issue has ${(0.616 / 0.611).toFixed(2)} at a capacity that it does not state, so that no verdict follows. The policy counts uses, each worth half after 1,000 requests: it keeps the prompts of popular tools, and loses those of ` +
          "sessions whose next step comes soon. The issue's weights and half-life are not published.",
      ],
    };
  },
};
