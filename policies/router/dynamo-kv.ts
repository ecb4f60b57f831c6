import type { ReplicaView, RequestView, RouterPlugin } from "../../core/plugins/index.ts";
import type { Random } from "../../core/random.ts";
import { loadOf } from "./load.ts";

/**
 * The replica with the lowest cost, in blocks, were the request to go there:
 *
 *   overlap-weight · prefill blocks + decode blocks
 *
 *   prefill blocks   tokens to be computed: of this prompt what is not cached there, and what waits there
 *   decode blocks    blocks that requests hold there, and those that this one and those that wait will hold
 *
 * Of equals it takes one with fewest requests, of these any. With a temperature it draws one: costs are scaled to
 * [0, 1], and the chance of each is in proportion to exp(−cost / temperature).
 *
 * Where we differ: what is cached is looked up in the replica, where Dynamo follows its events; Dynamo counts itself
 * what it has sent, and so knows which part of a waiting prompt is cached and what a prefill under way has left to do;
 * of equals it takes one with the smallest tree.
 *
 * Source: NVIDIA Dynamo, lib/kv-router (`DefaultWorkerSelector`).
 */
export const dynamoKv: RouterPlugin = {
  name: "dynamo-kv",
  about: "least work: uncached blocks of the prompt, by their weight, plus blocks in use",
  source: "NVIDIA Dynamo (KV router)",
  options: {
    "overlap-weight": { about: "weight of blocks to be computed against blocks in use", default: 1, fraction: true },
    temperature: { about: "of the softmax that draws a replica; 0: the lowest cost", default: 0, fraction: true },
  },
  create({ random, replicaCount, blockTokens, options }) {
    const { "overlap-weight": overlapWeight, temperature } = options;
    const costs = new Float64Array(replicaCount);
    return {
      route(request, replicas) {
        for (let i = 0; i < replicaCount; i++) {
          costs[i] = costOf(request, replicas[i], overlapWeight, blockTokens);
        }
        return temperature === 0 ? cheapest(costs, replicas, random) : drawn(costs, temperature, random);
      },
    };
  },
};

function costOf(request: RequestView, replica: ReplicaView, overlapWeight: number, blockTokens: number): number {
  const { waitingTokens } = replica;
  const uncachedTokens = request.inputTokens - replica.cachedTokens(request);
  const prefillBlocks = (waitingTokens + uncachedTokens) / blockTokens;
  const decodeBlocks = replica.referencedBlocks + Math.ceil((waitingTokens + request.inputTokens) / blockTokens);
  return overlapWeight * prefillBlocks + decodeBlocks;
}

function cheapest(costs: Float64Array, replicas: readonly ReplicaView[], random: Random): number {
  let best = 0;
  let equals = 1;
  for (let i = 1; i < costs.length; i++) {
    const difference = costs[i] - costs[best] || loadOf(replicas[i]) - loadOf(replicas[best]);
    if (difference > 0) continue;
    equals = difference < 0 ? 1 : equals + 1;
    // The n-th of equals takes the others' place once in n times: in the end each is as likely.
    if (difference < 0 || random.below(equals) === 0) best = i;
  }
  return best;
}

function drawn(costs: Float64Array, temperature: number, random: Random): number {
  let least = costs[0];
  let most = costs[0];
  for (const cost of costs) {
    if (cost < least) least = cost;
    if (cost > most) most = cost;
  }
  const scale = most > least ? 1 / ((most - least) * temperature) : 0;
  const weightOf = (cost: number) => Math.exp((least - cost) * scale);
  let total = 0;
  for (const cost of costs) total += weightOf(cost);
  let left = random.unit() * total;
  for (let i = 0; i < costs.length - 1; i++) {
    left -= weightOf(costs[i]);
    if (left < 0) return i;
  }
  return costs.length - 1;
}
