import type { ReplicaView, RequestView, RouterPlugin } from "../../core/plugins/index.ts";
import { leastLoadedOf, loadOf } from "./load.ts";
import { PrefixTrees } from "./prefix-trees.ts";

/**
 * Chooses a replica to which the longest prefix of the prompt was routed before. The router has an approximate prefix tree
 * per replica, built from its own decisions; it does not read the replicas' caches.
 *
 *   imbalanced (most − least requests > abs, and most > rel · least)   the replica with the fewest requests
 *   longest match > cache-threshold · prompt length                    a replica whose tree has the match
 *   else                                                               the replica with the smallest tree
 *
 * The prompt is inserted into the tree of the chosen replica; a tree above its maximum size evicts leaves in LRU order.
 *
 * Where we differ from SGLang: trees store full blocks, not characters, so `max-tree-size` is in tokens (the default is
 * SGLang's 2²⁴ characters at four characters per token), and a prompt without a full block goes to the least loaded
 * replica. Trees are trimmed after every insertion, not once a minute. Of several replicas that have the match we choose
 * the least loaded, SGLang any. Only an insertion counts as a use of a tree's entries, a match alone does not.
 *
 * Source: SGLang's router (`cache_aware`), with the defaults of its first releases.
 */
export const prefixAffinity: RouterPlugin = {
  name: "prefix-affinity",
  about: "the replica with the longest match in a tree of routed prompts; if imbalanced the least loaded",
  source: "SGLang router (cache_aware)",
  options: {
    "cache-threshold": {
      about: "fraction of the prompt that must match",
      default: 0.5,
      max: 1,
      fraction: true,
    },
    "balance-abs-threshold": {
      about: "imbalanced if the largest minus the smallest number of requests exceeds this, ...",
      default: 32,
    },
    "balance-rel-threshold": {
      about: "... and the largest number exceeds this factor times the smallest",
      default: 1.0001,
      fraction: true,
    },
    "max-tree-size": { about: "most tokens in the tree of a replica", default: 2 ** 22, max: 2 ** 30 },
  },
  create({ replicaCount, blockTokens, options }) {
    const { "cache-threshold": threshold, "max-tree-size": treeTokens } = options;
    const trees = new PrefixTrees(replicaCount, Math.floor(treeTokens / blockTokens));
    const candidates = new Int32Array(replicaCount);
    const chosen = (
      { keys, keyStart, promptBlocks, inputTokens }: RequestView,
      known: number,
      replicas: readonly ReplicaView[],
    ) => {
      if (promptBlocks === 0 || isImbalanced(replicas, options)) return leastLoadedOf(replicas);
      const knownTokens = Math.min(known * blockTokens, inputTokens);
      if (knownTokens <= threshold * inputTokens) return trees.smallest();
      return leastLoadedAmong(candidates, trees.replicasWith(keys[keyStart + known - 1], candidates), replicas);
    };
    return {
      route(request, replicas) {
        const { keys, keyStart, promptBlocks } = request;
        const known = trees.match(keys, keyStart, promptBlocks);
        const replica = chosen(request, known, replicas);
        trees.insert(keys, keyStart, promptBlocks, known, replica);
        return replica;
      },
    };
  },
};

function isImbalanced(replicas: readonly ReplicaView[], options: Readonly<Record<string, number>>): boolean {
  let most = 0;
  let least = Number.POSITIVE_INFINITY;
  for (const replica of replicas) {
    const load = loadOf(replica);
    if (load > most) most = load;
    if (load < least) least = load;
  }
  return most - least > options["balance-abs-threshold"] && most > options["balance-rel-threshold"] * least;
}

/** The least loaded of `candidates[0 .. count)`; of equals the one with the lowest number. */
function leastLoadedAmong(candidates: Int32Array, count: number, replicas: readonly ReplicaView[]): number {
  let best = candidates[0];
  for (let i = 1; i < count; i++) {
    const difference = loadOf(replicas[candidates[i]]) - loadOf(replicas[best]);
    if (difference < 0 || (difference === 0 && candidates[i] < best)) best = candidates[i];
  }
  return best;
}
