import type { Sequence } from "../core/cache/request.ts";
import type { StepPlan } from "../core/replica/step.ts";
import { longestMatch } from "./contract-laws.ts";
import { require } from "./law.ts";
import { prefixOf, type WorkloadRequest } from "./workloads.ts";

/**
 * The contents of the KV cache: each slot stores the prefix whose last token's KV was written there. It executes steps as
 * a model does, where every layer writes before it reads, and fails if a request attends to a slot with other content
 * than its own tokens.
 */
export class KvMemory {
  readonly #blockTokens: number;
  readonly #slots = new Map<number, (string | undefined)[]>();
  readonly #wiped: number[] = [];

  constructor(blockTokens: number) {
    this.#blockTokens = blockTokens;
  }

  /** Clears a newly allocated block; takes effect with the next step, after its copies. */
  clear(block: number): void {
    this.#wiped.push(block);
  }

  /** The planned step does not run. */
  discardStep(): void {
    for (const block of this.#wiped) this.#slots.set(block, []);
    this.#wiped.length = 0;
  }

  at(block: number, slot: number): string | undefined {
    if (this.#wiped.includes(block)) return undefined;
    return this.#slots.get(block)?.[slot];
  }

  run(plan: StepPlan, requestOf: (sequence: Sequence) => WorkloadRequest): void {
    const copied = plan.copies.map(({ source, target }) => ({ target, slots: this.#slots.get(source)?.slice() ?? [] }));
    this.discardStep();
    for (const { target, slots } of copied) this.#slots.set(target, slots);
    const items = plan.items.slice(0, plan.count);
    for (const { sequence, from, tokens } of items) {
      for (let p = from; p < from + tokens; p++) this.#write(sequence, p, prefixOf(requestOf(sequence), p + 1));
    }
    for (const { sequence, from, tokens } of items) {
      for (let p = 0; p < from + tokens; p++) {
        const is = this.#read(sequence, p);
        const expected = prefixOf(requestOf(sequence), p + 1);
        require(longestMatch, is === expected, () => {
          const where = `block ${sequence.table[Math.floor(p / this.#blockTokens)]}, slot ${p % this.#blockTokens}`;
          return `request ${sequence.request.id} reads ${is ?? "nothing"} in ${where}, expected ${expected}`;
        });
      }
    }
  }

  #write({ table }: Sequence, position: number, prefix: string): void {
    const block = table[Math.floor(position / this.#blockTokens)];
    const slots = this.#slots.get(block) ?? [];
    slots[position % this.#blockTokens] = prefix;
    this.#slots.set(block, slots);
  }

  #read({ table }: Sequence, position: number): string | undefined {
    return this.at(table[Math.floor(position / this.#blockTokens)], position % this.#blockTokens);
  }
}
