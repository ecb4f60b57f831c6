import type { ReplicaView, RequestView, RouterPlugin } from "../../core/plugins/index.ts";
import { leastLoadedOf, loadOf } from "./load.ts";
import { PrefixTrees } from "./prefix-trees.ts";

/**
 * Where most of the prompt went before, as far as the router remembers what it sent where: it keeps a tree of prefixes
 * for each replica, and does not look into the replicas' caches.
 *
 *   imbalanced (most − least requests > abs, and most > rel · least)   the replica with the fewest requests
 *   longest known prefix > cache-threshold of the prompt               a replica that has it
 *   else                                                               the replica with the smallest tree
 *
 * Whoever gets the request has its prompt in its tree, which forgets leaves by last use when it is too large.
 *
 * Where we differ: trees hold whole blocks, not characters, and `max-tree-size` counts tokens, the default being 2²⁴
 * characters of four to a token, and a prompt without a whole block goes where fewest requests are; they are cut at once,
 * not once a minute; of several replicas that have the prefix SGLang takes any, we the least loaded; a tree is used by
 * what goes into it, and not by a match alone.
 *
 * Source: SGLang's router (`cache_aware`), with the defaults of its first releases.
 */
export const prefixAffinity: RouterPlugin = {
  name: "prefix-affinity",
  about: "where most of the prompt went before, else to the smallest tree; if imbalanced to the shortest queue",
  source: "SGLang router (cache_aware)",
  options: {
    "cache-threshold": {
      about: "part of the prompt that must have gone to a replica before",
      default: 0.5,
      max: 1,
      fraction: true,
    },
    "balance-abs-threshold": { about: "imbalanced: most minus least requests are more than this, ...", default: 32 },
    "balance-rel-threshold": {
      about: "... and most requests are more than this times the least",
      default: 1.0001,
      fraction: true,
    },
    "max-tree-size": { about: "tokens in a replica's tree", default: 2 ** 22, max: 2 ** 30 },
  },
  create({ replicaCount, blockTokens, options }) {
    const { "cache-threshold": threshold, "max-tree-size": treeTokens } = options;
    const trees = new PrefixTrees(replicaCount, Math.floor(treeTokens / blockTokens));
    const owners = new Int32Array(replicaCount);
    const chosen = (
      { keys, keyStart, promptBlocks, inputTokens }: RequestView,
      known: number,
      replicas: readonly ReplicaView[],
    ) => {
      if (promptBlocks === 0 || isImbalanced(replicas, options)) return leastLoadedOf(replicas);
      const knownTokens = Math.min(known * blockTokens, inputTokens);
      if (knownTokens <= threshold * inputTokens) return trees.smallest();
      return leastLoadedAmong(owners, trees.ownersOf(keys[keyStart + known - 1], owners), replicas);
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

/** Of these replicas the one with the fewest requests; of equals the one that comes first among all. */
function leastLoadedAmong(owners: Int32Array, count: number, replicas: readonly ReplicaView[]): number {
  let best = owners[0];
  for (let i = 1; i < count; i++) {
    const difference = loadOf(replicas[owners[i]]) - loadOf(replicas[best]);
    if (difference < 0 || (difference === 0 && owners[i] < best)) best = owners[i];
  }
  return best;
}
