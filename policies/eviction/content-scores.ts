import { grown } from "../../core/grown.ts";

/** The score of a content that has none. */
export const noScore = Number.NEGATIVE_INFINITY;

/**
 * By content id: any number of scores, of which the largest counts. Most contents have one, so that only further scores are in a
 * map. Changes are O(1), except that removal of the last largest score searches the different smaller ones.
 */
export class ContentScores {
  #best = new Float64Array(1 << 10).fill(noScore);
  /** Number of scores that are equal to the largest one. */
  #bestCount = new Uint32Array(1 << 10);
  /** By content: the numbers of its smaller scores. */
  readonly #smaller = new Map<number, Map<number, number>>();

  /** The largest score of the content; `noScore` if it has none. */
  of(content: number): number {
    return content < this.#best.length ? this.#best[content] : noScore;
  }

  add(content: number, score: number): void {
    if (content >= this.#best.length) this.#grow(2 * content);
    const best = this.#best[content];
    if (score === best) {
      this.#bestCount[content]++;
    } else if (score > best) {
      if (best !== noScore) this.#smallerOf(content).set(best, this.#bestCount[content]);
      this.#best[content] = score;
      this.#bestCount[content] = 1;
    } else {
      const smaller = this.#smallerOf(content);
      smaller.set(score, (smaller.get(score) ?? 0) + 1);
    }
  }

  /** Removes one of the content's scores of this value. */
  remove(content: number, score: number): void {
    const smaller = this.#smaller.get(content);
    if (score === this.#best[content]) {
      if (--this.#bestCount[content] > 0) return;
      let next = noScore;
      if (smaller) for (const other of smaller.keys()) next = Math.max(next, other);
      this.#best[content] = next;
      this.#bestCount[content] = smaller?.get(next) ?? 0;
      smaller?.delete(next);
    } else {
      const left = smaller!.get(score)! - 1;
      if (left > 0) smaller!.set(score, left);
      else smaller!.delete(score);
    }
    if (smaller?.size === 0) this.#smaller.delete(content);
  }

  #smallerOf(content: number): Map<number, number> {
    let smaller = this.#smaller.get(content);
    if (smaller === undefined) this.#smaller.set(content, (smaller = new Map()));
    return smaller;
  }

  #grow(length: number): void {
    const before = this.#best.length;
    this.#best = grown(this.#best, length).fill(noScore, before);
    this.#bestCount = grown(this.#bestCount, length);
  }
}
