/**
 * Which of our blocks a case means by its block ids. Another system numbers blocks otherwise, so ids are compared up to
 * a one-to-one map, which grows over the case with every pair that is seen to be the same block.
 */
export class BlockNames {
  readonly #oursOf = new Map<string, string>();
  readonly #theirsOf = new Map<string, string>();

  /** Whether the case's block can be our block, given all that was seen before. From now on it is, if so. */
  same(theirs: string | number, ours: string | number): boolean {
    const [a, b] = [String(theirs), String(ours)];
    const isNew = !this.#oursOf.has(a) && !this.#theirsOf.has(b);
    if (isNew) {
      this.#oursOf.set(a, b);
      this.#theirsOf.set(b, a);
    }
    return this.#oursOf.get(a) === b;
  }

  /** Our block for a block id in a case's inputs; undefined if it has not been seen. */
  ours(theirs: string | number): number | undefined {
    const ours = this.#oursOf.get(String(theirs));
    return ours === undefined ? undefined : Number(ours);
  }

  /** The case's id of our block, or our own number in brackets: for messages. */
  theirs(ours: string | number): string {
    return this.#theirsOf.get(String(ours)) ?? `(${ours})`;
  }

  /** The same as sets: what is known must be in both, and of the others there must be as many here as there. */
  sameSet(theirs: readonly (string | number)[], ours: readonly (string | number)[]): boolean {
    const left = new Set(ours.map(String));
    if (left.size !== ours.length || new Set(theirs.map(String)).size !== theirs.length) return false;
    const unknown: (string | number)[] = [];
    for (const id of theirs) {
      const known = this.#oursOf.get(String(id));
      if (known === undefined) unknown.push(id);
      else if (!left.delete(known)) return false;
    }
    const others = [...left];
    if (others.length !== unknown.length || others.some((id) => this.#theirsOf.has(id))) return false;
    return unknown.length !== 1 || this.same(unknown[0], others[0]);
  }
}
