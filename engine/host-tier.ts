import { blocksOf, type Sequence } from "../core/cache/request.ts";
import { assert } from "../core/errors.ts";
import type { BlockData, Executor } from "./executor.ts";

/**
 * Swapped-out blocks in host memory, by request. `swappedOut` and `swappedIn` record the swaps of a plan; they are carried out
 * before the step runs: swap-outs before any block is overwritten, swap-ins after all block copies.
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
      // Admitted and preempted by the same plan: its blocks may already be allocated to another sequence.
      if (!sequence.inStep || sequence.request.id !== request) continue;
      const stored = this.#stored.get(request);
      assert(stored !== undefined, `request ${request} is swapped in, but none of its blocks is in host memory`);
      if (blocks.length > 0) await this.#executor.writeBlocks([...blocks], stored.slice(first, first + blocks.length));
      this.#stored.delete(request);
    }
  }

  /** Discards the blocks of a finished or refused request. */
  ended(request: number): void {
    this.#stored.delete(request);
  }
}
