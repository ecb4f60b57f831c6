import { grown } from "../../core/grown.ts";
import type { BlockHistory } from "./block-history.ts";
import { MaxTree } from "./max-tree.ts";
import type { NextUses } from "./next-uses.ts";
import { type Choice, none } from "./removals.ts";

/** The number of a next use that does not exist. */
const never = Number.MAX_SAFE_INTEGER;

/**
 * The evictable blocks by their next use: idle blocks and, with the rule `victims=leaf`, only those that no cached block extends.
 * A block whose content another cached block has, too, counts as never used again.
 */
export class Victims {
  readonly #blocks: BlockHistory;
  readonly #uses: NextUses;
  readonly #leavesOnly: boolean;
  /** By block: number of the next lookup + 1; 0: not evictable. */
  readonly #order = new MaxTree();
  /** By content, 1 + its last lookup so far. */
  #last = new Int32Array(1 << 10);
  #lookups = 0;

  constructor(blocks: BlockHistory, uses: NextUses, leavesOnly: boolean) {
    this.#blocks = blocks;
    this.#uses = uses;
    this.#leavesOnly = leavesOnly;
    blocks.changed = (block) => this.#update(block);
  }

  /** The next lookup of the log. */
  lookedUp(content: number): void {
    if (content >= this.#last.length) this.#last = grown(this.#last, Math.max(content + 1, 2 * this.#last.length));
    this.#last[content] = ++this.#lookups;
    this.#blocks.contentChanged(content);
  }

  /** The choice of a block as victim, before its eviction is applied. */
  choice(victim: number): Choice {
    const { max, argMax } = this.#order;
    const own = this.#nextUse(this.#blocks.content[victim]);
    const block = own >= max ? victim : argMax;
    const next = Math.max(own, max);
    return {
      isRight: block === victim,
      usedBy: this.#blocks.usedBy[block],
      nextUsedBy: next === never ? none : this.#uses.requestOf(next - 1),
    };
  }

  #update(block: number): void {
    const { content } = this.#blocks;
    const isEvictable = this.#blocks.isIdle(block) && (!this.#leavesOnly || this.#blocks.isLeaf(content[block]));
    this.#order.set(block, isEvictable ? this.#nextUse(content[block]) : 0);
  }

  /** Number of the next lookup of a cached content + 1. */
  #nextUse(content: number): number {
    if (this.#blocks.copiesOf(content) > 1) return never;
    const last = content < this.#last.length ? this.#last[content] : 0;
    const next = last === 0 ? this.#uses.firstOf(content) : this.#uses.after(last - 1);
    return next === undefined ? never : next + 1;
  }
}
