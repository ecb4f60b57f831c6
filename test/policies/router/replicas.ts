import type { ReplicaView, RequestView, Router } from "../../../core/plugins/index.ts";
import { createRouter } from "../../../core/replica/compose.ts";
import { routerRegistry } from "../../../policies/registry.ts";

/** The load of a replica, for a router under test. */
export interface Load {
  readonly waiting?: number;
  readonly running?: number;
  readonly waitingTokens?: number;
  readonly heldBlocks?: number;
  readonly cachedTokens?: number;
}

export const replicaOf = (load: Load | number): ReplicaView => {
  const { waiting = 0, running = 0, ...rest } = typeof load === "number" ? { running: load } : load;
  return {
    waitingCount: waiting,
    runningCount: running,
    waitingTokens: rest.waitingTokens ?? 0,
    referencedBlocks: rest.heldBlocks ?? 0,
    totalBlocks: 1000,
    cachedTokens: () => rest.cachedTokens ?? 0,
  };
};

export const blockTokens = 4;

/** Options of a request. Each letter of its prompt is a block of 4 tokens, whose content id depends on all letters up to it. */
export interface RequestOptions {
  readonly session?: number;
  readonly namespace?: number;
  /** Tokens after the last whole block. */
  readonly more?: number;
}

/** Assigns content ids, as a replay does. */
export class Prompts {
  readonly #ids = new Map<string, number>();
  #count = 0;

  request(letters: string, { session = 0, namespace = 0, more = 0 }: RequestOptions = {}): RequestView {
    // Requests are rows of one long array.
    const keys = Uint32Array.from([7, 7, ...Array.from(letters, (_, i) => this.#idOf(letters.slice(0, i + 1)))]);
    return {
      id: this.#count++,
      arrivalNs: 0,
      inputTokens: letters.length * blockTokens + more,
      maxOutputTokens: 1,
      namespace,
      session,
      category: 0,
      priority: 0,
      markedTokens: 0,
      keys,
      keyStart: 2,
      promptBlocks: letters.length,
    };
  }

  #idOf(prefix: string): number {
    const known = this.#ids.get(prefix) ?? this.#ids.size;
    this.#ids.set(prefix, known);
    return known;
  }
}

/** A router by name, for a number of replicas. */
export const routerOf = (
  name: string,
  replicaCount: number,
  { seed = 1, ...options }: Readonly<Record<string, number>> = {},
): Router =>
  createRouter({ router: routerRegistry.get(name), routerOptions: options, replicaCount, blockTokens, seed });

/** The replicas of these requests, routed one after the other, each at the given loads. */
export function routed(
  router: Router,
  requests: readonly (readonly [letters: string, loads: readonly (Load | number)[], options?: RequestOptions])[],
): number[] {
  const prompts = new Prompts();
  return requests.map(([letters, loads, options]) =>
    router.route(prompts.request(letters, options), loads.map(replicaOf), 0),
  );
}
