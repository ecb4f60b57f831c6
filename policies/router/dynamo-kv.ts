import type { ReplicaView, RequestView, RouterPlugin } from "../../core/plugins/index.ts";
import type { Random } from "../../core/random.ts";
import { loadOf } from "./load.ts";

/**
 * Chooses the replica with the lowest cost, in blocks, including the new request:
 *
 *   overlap-weight · prefill blocks + decode blocks
 *
 *   prefill blocks   uncached tokens of this prompt and prompt tokens of waiting requests, divided by the block size
 *   decode blocks    referenced blocks, and the prompt blocks of this request and of waiting requests
 *
 * Ties are broken by the number of requests (fewest first), then at random. With a temperature it samples: costs are
 * scaled to [0, 1], and the probability of each replica is proportional to exp(−cost / temperature).
 *
 * Difference to Dynamo: cached tokens are looked up in the replica's cache; Dynamo derives them from the replica's KV events.
 * Dynamo counts the requests that it has routed itself, so it also subtracts the cached part of waiting prompts and the
 * finished part of chunked prefills. Dynamo breaks ties by the smallest tree.
 *
 * Source: NVIDIA Dynamo, lib/kv-router (`DefaultWorkerSelector`).
 */
export const dynamoKv: RouterPlugin = {
  name: "dynamo-kv",
  about: "lowest cost: weighted uncached blocks of the prompt plus referenced blocks",
  source: "NVIDIA Dynamo (KV router)",
  options: {
    "overlap-weight": { about: "weight of uncached blocks relative to referenced blocks", default: 1, fraction: true },
    temperature: {
      about: "softmax temperature for sampling a replica; 0: the lowest cost",
      default: 0,
      fraction: true,
    },
  },
  create({ random, replicaCount, blockTokens, options }) {
    const { "overlap-weight": overlapWeight, temperature } = options;
    const costs = new Float64Array(replicaCount);
    return {
      route(request, replicas) {
        for (let i = 0; i < replicaCount; i++) {
          costs[i] = costOf(request, replicas[i], overlapWeight, blockTokens);
        }
        return temperature === 0 ? cheapest(costs, replicas, random) : sampled(costs, temperature, random);
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
    // Reservoir sampling: the n-th of equals replaces the current choice with probability 1 / n.
    if (difference < 0 || random.below(equals) === 0) best = i;
  }
  return best;
}

function sampled(costs: Float64Array, temperature: number, random: Random): number {
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
