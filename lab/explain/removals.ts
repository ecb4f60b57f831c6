import { grown } from "../../core/grown.ts";
import type { RemovalCause } from "../../core/log/removal-causes.ts";

const causes: readonly RemovalCause[] = ["eviction", "expiry", "operator", "request"];
/** Numbers of lookups and requests that do not exist. */
export const none = -1;

/** Whether the block was the right victim, and otherwise the block that was. */
export interface Choice {
  readonly isRight: boolean;
  /** The request that last used the right victim, and the one that looks it up next. */
  readonly usedBy: number;
  readonly nextUsedBy: number;
}

/** By content, the last removal of its block from the index. A later publication of the content ends the entry. */
export class Removals {
  at = new Float64Array(0);
  usedAt = new Float64Array(0);
  usedBy = new Int32Array(0);
  request = new Int32Array(0);
  /** Of an eviction: the number of its batch, and the right victim. */
  batch = new Int32Array(0);
  isRight = new Uint8Array(0);
  rightUsedBy = new Int32Array(0);
  rightNextUsedBy = new Int32Array(0);
  /** 0: none; else the index of the cause + 1. */
  #cause = new Uint8Array(0);
  /** 1 after the first lookup since the removal. */
  #isLookedUp = new Uint8Array(0);

  add(content: number, cause: RemovalCause): void {
    this.#grow(content + 1);
    this.#cause[content] = causes.indexOf(cause) + 1;
    this.#isLookedUp[content] = 0;
    this.batch[content] = none;
  }

  setChoice(content: number, { isRight, usedBy, nextUsedBy }: Choice): void {
    this.isRight[content] = isRight ? 1 : 0;
    this.rightUsedBy[content] = usedBy;
    this.rightNextUsedBy[content] = nextUsedBy;
  }

  published(content: number): void {
    if (content < this.#cause.length) this.#cause[content] = 0;
  }

  /** The cause of the removal that a lookup of the content finds: the first one since then. */
  causeOf(content: number): RemovalCause | undefined {
    if (content >= this.#cause.length || this.#isLookedUp[content] === 1) return undefined;
    return causes[this.#cause[content] - 1];
  }

  lookedUp(content: number): void {
    if (content < this.#cause.length) this.#isLookedUp[content] = 1;
  }

  #grow(count: number): void {
    const { length } = this.at;
    if (count <= length) return;
    const larger = Math.max(count, 2 * length, 1 << 10);
    for (const name of ["at", "usedAt"] as const) this[name] = grown(this[name], larger);
    for (const name of ["usedBy", "request", "batch", "rightUsedBy", "rightNextUsedBy"] as const)
      this[name] = grown(this[name], larger);
    this.isRight = grown(this.isRight, larger);
    this.#cause = grown(this.#cause, larger);
    this.#isLookedUp = grown(this.#isLookedUp, larger);
  }
}
