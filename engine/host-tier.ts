import { blocksOf, type Sequence } from "../core/cache/request.ts";
import { assert } from "../core/errors.ts";
import type { BlockData, Executor } from "./executor.ts";

/**
 * What preempted sequences have on the host. A plan only says what is to move; it moves before the step runs: out while the
 * blocks still hold what they held, in when all copies have been made.
 */
export class HostTier {
  readonly #executor: Executor;
  readonly #stored = new Map<number, BlockData[]>();
  readonly #out: { readonly request: number; readonly blocks: Int32Array }[] = [];
  readonly #in: {
    readonly sequence: Sequence;
    readonly request: number;
    readonly first: number;
    readonly blocks: Int32Array;
  }[] = [];

  constructor(executor: Executor) {
    this.#executor = executor;
  }

  swappedOut({ request, table }: Sequence, tokens: number): void {
    const blocks = table.slice(0, blocksOf(tokens, this.#executor.blockTokens));
    this.#out.push({ request: request.id, blocks });
  }

  swappedIn(sequence: Sequence, tokens: number): void {
    const { request, table, computedTokens } = sequence;
    const { blockTokens } = this.#executor;
    const first = Math.floor(computedTokens / blockTokens);
    const end = tokens === 0 ? first : blocksOf(computedTokens + tokens, blockTokens);
    this.#in.push({ sequence, request: request.id, first, blocks: table.slice(first, end) });
  }

  async moveOut(): Promise<void> {
    for (const { request, blocks } of this.#out.splice(0)) {
      this.#stored.set(request, await this.#executor.readBlocks([...blocks]));
    }
  }

  async moveIn(): Promise<void> {
    for (const { sequence, request, first, blocks } of this.#in.splice(0)) {
      // Sent back by the very plan that admitted it: its blocks may be somebody else's now.
      if (!sequence.inStep || sequence.request.id !== request) continue;
      const stored = this.#stored.get(request);
      assert(stored !== undefined, `request ${request} comes back from a host that has nothing of it`);
      if (blocks.length > 0) await this.#executor.writeBlocks([...blocks], stored.slice(first, first + blocks.length));
      this.#stored.delete(request);
    }
  }

  /** The request has ended. */
  ended(request: number): void {
    this.#stored.delete(request);
  }
}
