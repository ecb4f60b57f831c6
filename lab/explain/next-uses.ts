import { grown } from "../../core/grown.ts";

const never = -1;

/**
 * For each lookup of a block, the next lookup of the same content, read from a whole log in advance. Lookups are numbered in the
 * order of the log.
 */
export class NextUses {
  /** Lookups so far. */
  count = 0;
  /** By lookup, the next lookup of its content. */
  #next = new Int32Array(1 << 12);
  /** By lookup, its request. */
  #request = new Int32Array(1 << 12);
  /** By content, its first and last lookup. */
  #first = new Int32Array(1 << 10).fill(never);
  #last = new Int32Array(1 << 10).fill(never);

  /** First pass: the next lookup of the log. */
  add(content: number, request: number): void {
    const at = this.count++;
    if (at === this.#next.length) {
      this.#next = grown(this.#next, 2 * at);
      this.#request = grown(this.#request, 2 * at);
    }
    if (content >= this.#last.length) {
      const { length } = this.#last;
      const larger = Math.max(content + 1, 2 * length);
      this.#first = grown(this.#first, larger).fill(never, length);
      this.#last = grown(this.#last, larger).fill(never, length);
    }
    this.#next[at] = never;
    this.#request[at] = request;
    const before = this.#last[content];
    if (before === never) this.#first[content] = at;
    else this.#next[before] = at;
    this.#last[content] = at;
  }

  /** Second pass: the lookup after lookup `at`; undefined: there is none. */
  after(at: number): number | undefined {
    return defined(this.#next[at]);
  }

  /** The first lookup of a content. */
  firstOf(content: number): number | undefined {
    return content < this.#first.length ? defined(this.#first[content]) : undefined;
  }

  requestOf(at: number): number {
    return this.#request[at];
  }
}

const defined = (at: number) => (at === never ? undefined : at);
