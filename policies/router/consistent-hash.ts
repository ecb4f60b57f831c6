import type { ReplicaView, RequestView, RouterPlugin } from "../../core/plugins/index.ts";
import { chanceOf } from "../../core/random.ts";
import { leastLoadedOf, loadOf } from "./load.ts";

/**
 * The hash of a prompt's beginning is a place on a ring, on which every replica has many places of its own; the request
 * goes to the replica whose place comes next. Another replica takes over only what lies before its own places. If that
 * replica has its share of all requests, c times the mean rounded up, the next one on the ring that has not gets it.
 *
 *   ring   ──r2──r0──r0──▼──r1──r2──r1──r0──      ▼ prompt: r1, or if that is full r2, or else r0
 *
 * Prompts without a whole block have nothing to find in a cache: the least loaded replica gets them.
 *
 * A content's number in the trace stands for its hash: numbered otherwise, prompts lie elsewhere on the ring.
 *
 * Source: Karger et al., STOC 1997; bounded loads: Mirrokni, Thorup, Zadimoghaddam, SODA 2018. The defaults are KubeAI's
 * (PrefixHash), whose prefix of 100 characters is one or two blocks of 16 tokens. We round its share up, as the paper
 * does: there is always a replica that has room.
 */
export const consistentHash: RouterPlugin = {
  name: "consistent-hash",
  about: "where a hash of the prompt's first blocks falls on a ring of replicas, unless that one is full",
  source: "Karger et al., STOC 1997; Mirrokni et al., SODA 2018 (bounded loads); KubeAI (PrefixHash)",
  options: {
    "prefix-blocks": { about: "blocks of the prompt that are hashed", default: 2, min: 1 },
    "mean-load-factor": {
      about: "load that a replica may have, in percent of the mean; 0: any",
      default: 125,
      min: 0,
    },
    replication: { about: "places of a replica on the ring", default: 256, min: 1, max: 4096 },
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
        return ring.firstWithRoom(at, replicas, shareOf(replicas, loadFactor)) ?? own;
      },
    };
  },
};

/** Stands for all of the prompt's first blocks: content ids are chained. */
const prefixKey = ({ keys, keyStart, promptBlocks }: RequestView, blocks: number) =>
  keys[keyStart + Math.min(blocks, promptBlocks) - 1];

/** Requests that a replica may have, the new one included. */
function shareOf(replicas: readonly ReplicaView[], loadFactor: number): number {
  let total = 1;
  for (const replica of replicas) total += loadOf(replica);
  return Math.ceil((total * loadFactor) / (100 * replicas.length));
}

/** So that prompts and places of replicas hash apart. */
const [promptSeed, placeSeed] = [0x85eb_ca77, 0xc2b2_ae3d];

class Ring {
  /** In order; place i is replica `#replicas[i]`'s. */
  readonly #places: Float64Array;
  readonly #replicas: Int32Array;
  readonly #replicaCount: number;

  constructor(replicaCount: number, replication: number) {
    this.#replicaCount = replicaCount;
    const places = Array.from({ length: replicaCount * replication }, (_, i) => {
      const replica = i % replicaCount;
      // The same places whatever the number of replicas.
      const number = Math.floor(i / replicaCount) + replica * 4096;
      return { place: chanceOf(placeSeed, number), replica };
    });
    places.sort((a, b) => a.place - b.place || a.replica - b.replica);
    this.#places = Float64Array.from(places, ({ place }) => place);
    this.#replicas = Int32Array.from(places, ({ replica }) => replica);
  }

  /** Number of the first place at or after that of the key. */
  at(key: number): number {
    const place = chanceOf(promptSeed, key);
    let from = 0;
    let to = this.#places.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (this.#places[middle] < place) from = middle + 1;
      else to = middle;
    }
    return from === this.#places.length ? 0 : from;
  }

  replicaAt(at: number): number {
    return this.#replicas[at];
  }

  /** The first replica from there on that has fewer requests than its share; undefined if none has. */
  firstWithRoom(at: number, replicas: readonly ReplicaView[], share: number): number | undefined {
    const full = new Set<number>();
    for (let i = at; full.size < this.#replicaCount; i = i + 1 === this.#replicas.length ? 0 : i + 1) {
      const replica = this.#replicas[i];
      if (full.has(replica)) continue;
      if (loadOf(replicas[replica]) < share) return replica;
      full.add(replica);
    }
    return undefined;
  }
}
