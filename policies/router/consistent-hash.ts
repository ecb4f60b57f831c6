import type { ReplicaView, RequestView, RouterPlugin } from "../../core/plugins/index.ts";
import { chanceOf } from "../../core/random.ts";
import { leastLoadedOf, loadOf } from "./load.ts";

/**
 * Consistent hashing with bounded loads: each replica has many virtual nodes on a ring, the first blocks of the prompt are
 * hashed to a point on the ring, and the request goes to the replica of the next virtual node. If that replica has reached
 * its capacity (c times the mean number of requests, rounded up), the next replica on the ring below capacity is chosen.
 *
 *   ring   ──r2──r0──r0──▼──r1──r2──r1──r0──      ▼ prompt: r1; if r1 is full r2; if r2 is full r0
 *
 * A prompt without a full block cannot hit, so it goes to the least loaded replica.
 *
 * The hash is computed from content ids, so another numbering of the same contents gives other points on the ring.
 *
 * Source: Karger et al., STOC 1997; bounded loads: Mirrokni, Thorup, Zadimoghaddam, SODA 2018. The defaults are KubeAI's
 * (PrefixHash), whose prefix of 100 characters is one or two blocks of 16 tokens. Where we differ from KubeAI: the
 * capacity is rounded up, as in the paper, so that some replica is always below capacity.
 */
export const consistentHash: RouterPlugin = {
  name: "consistent-hash",
  about: "consistent hashing of the prompt's first blocks, with bounded loads",
  source: "Karger et al., STOC 1997; Mirrokni et al., SODA 2018 (bounded loads); KubeAI (PrefixHash)",
  options: {
    "prefix-blocks": { about: "blocks of the prompt that are hashed", default: 2, min: 1 },
    "mean-load-factor": {
      about: "most requests of a replica, in percent of the mean; 0: no limit",
      default: 125,
      min: 0,
    },
    replication: { about: "virtual nodes per replica", default: 256, min: 1, max: 4096 },
  },
  create({ replicaCount, options }) {
    const { "prefix-blocks": prefixBlocks, "mean-load-factor": loadFactor, replication } = options;
    const ring = new Ring(replicaCount, replication);
    return {
      route(request, replicas) {
        if (request.promptBlocks === 0) return leastLoadedOf(replicas);
        const at = ring.at(prefixKey(request, prefixBlocks));
        const own = ring.replicaAt(at);
        if (loadFactor === 0) return own;
        return ring.firstBelowCapacity(at, replicas, capacityOf(replicas, loadFactor)) ?? own;
      },
    };
  },
};

/** Content id of the last hashed block; as content ids are chained, it identifies all blocks up to there. */
const prefixKey = ({ keys, keyStart, promptBlocks }: RequestView, blocks: number) =>
  keys[keyStart + Math.min(blocks, promptBlocks) - 1];

/** Most requests that a replica may have, including the new one. */
function capacityOf(replicas: readonly ReplicaView[], loadFactor: number): number {
  let total = 1;
  for (const replica of replicas) total += loadOf(replica);
  return Math.ceil((total * loadFactor) / (100 * replicas.length));
}

/** Hash seeds of prompts and of virtual nodes. */
const [promptSeed, nodeSeed] = [0x85eb_ca77, 0xc2b2_ae3d];

class Ring {
  /** Points of the virtual nodes in [0, 1), ascending; node i belongs to replica `#replicas[i]`. */
  readonly #points: Float64Array;
  readonly #replicas: Int32Array;
  readonly #replicaCount: number;

  constructor(replicaCount: number, replication: number) {
    this.#replicaCount = replicaCount;
    const nodes = Array.from({ length: replicaCount * replication }, (_, i) => {
      const replica = i % replicaCount;
      // A replica's points do not depend on the number of replicas.
      const number = Math.floor(i / replicaCount) + replica * 4096;
      return { point: chanceOf(nodeSeed, number), replica };
    });
    nodes.sort((a, b) => a.point - b.point || a.replica - b.replica);
    this.#points = Float64Array.from(nodes, ({ point }) => point);
    this.#replicas = Int32Array.from(nodes, ({ replica }) => replica);
  }

  /** Index of the first virtual node at or after the point of the key. */
  at(key: number): number {
    const point = chanceOf(promptSeed, key);
    let from = 0;
    let to = this.#points.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (this.#points[middle] < point) from = middle + 1;
      else to = middle;
    }
    return from === this.#points.length ? 0 : from;
  }

  replicaAt(at: number): number {
    return this.#replicas[at];
  }

  /** The first replica from node `at` on that has fewer than `capacity` requests; undefined if none has. */
  firstBelowCapacity(at: number, replicas: readonly ReplicaView[], capacity: number): number | undefined {
    const full = new Set<number>();
    for (let i = at; full.size < this.#replicaCount; i = i + 1 === this.#replicas.length ? 0 : i + 1) {
      const replica = this.#replicas[i];
      if (full.has(replica)) continue;
      if (loadOf(replicas[replica]) < capacity) return replica;
      full.add(replica);
    }
    return undefined;
  }
}
