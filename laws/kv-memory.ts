import type { Sequence } from "../core/cache/request.ts";
import type { StepPlan } from "../core/replica/step.ts";
import { ownContent } from "./book.ts";
import { require } from "./law.ts";
import { prefixOf, type WorldRequest } from "./worlds.ts";

/**
 * What is really in the blocks: each slot holds the prefix whose last token's keys and values were written there. It
 * runs steps as a model would, every layer writing before it reads, and fails where a request would attend to anything
 * but its own tokens.
 */
export class KvMemory {
  readonly #blockTokens: number;
  readonly #slots = new Map<number, (string | undefined)[]>();
  readonly #wiped: number[] = [];

  constructor(blockTokens: number) {
    this.#blockTokens = blockTokens;
  }

  /** A block has a new owner, who may not rely on what is in it; from the next step on, after its copies. */
  wipe(block: number): void {
    this.#wiped.push(block);
  }

  /** The step planned does not run. */
  skip(): void {
    for (const block of this.#wiped) this.#slots.set(block, []);
    this.#wiped.length = 0;
  }

  at(block: number, slot: number): string | undefined {
    if (this.#wiped.includes(block)) return undefined;
    return this.#slots.get(block)?.[slot];
  }

  run(plan: StepPlan, askOf: (sequence: Sequence) => WorldRequest): void {
    const copied = plan.copies.map(({ source, target }) => ({ target, slots: this.#slots.get(source)?.slice() ?? [] }));
    this.skip();
    for (const { target, slots } of copied) this.#slots.set(target, slots);
    const items = plan.items.slice(0, plan.count);
    for (const { sequence, from, tokens } of items) {
      for (let p = from; p < from + tokens; p++) this.#write(sequence, p, prefixOf(askOf(sequence), p + 1));
    }
    for (const { sequence, from, tokens } of items) {
      for (let p = 0; p < from + tokens; p++) {
        const is = this.#read(sequence, p);
        const expected = prefixOf(askOf(sequence), p + 1);
        require(ownContent, is === expected, () => {
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
