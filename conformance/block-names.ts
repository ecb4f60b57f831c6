type Id = string | number;

/** As many of a case's ids as of our blocks: each of the ids is one of the blocks, and no other id is. */
interface Group {
  readonly theirs: Set<string>;
  readonly ours: Set<string>;
}

/**
 * Which of our blocks a case means by its block ids. Another system numbers blocks otherwise, so ids are compared up to
 * a one-to-one map, of which every comparison says more. What is known of it are groups of ids that are the same blocks;
 * a group of one is a pair. Two sets that are the same split each group into what is in them and what is not.
 */
export class BlockNames {
  readonly #groupOfTheirs = new Map<string, Group>();
  readonly #groupOfOurs = new Map<string, Group>();

  /** Whether the case's block can be our block, given all that was seen before. From now on it is, if so. */
  same(theirs: Id, ours: Id): boolean {
    return this.sameSet([theirs], [ours]);
  }

  /** Our block for a block id in a case's inputs; undefined if more than one can be meant, or any. */
  ours(theirs: Id): number | undefined {
    const group = this.#groupOfTheirs.get(String(theirs));
    return group?.ours.size === 1 ? Number([...group.ours][0]) : undefined;
  }

  /** The case's id of our block, or our own number in brackets: for messages. */
  theirs(ours: Id): string {
    const group = this.#groupOfOurs.get(String(ours));
    return group?.theirs.size === 1 ? [...group.theirs][0] : `(${ours})`;
  }

  /** Whether these can be the same blocks in any order, given all that was seen before. From now on they are, if so. */
  sameSet(theirs: readonly Id[], ours: readonly Id[]): boolean {
    const [a, b] = [new Set(theirs.map(String)), new Set(ours.map(String))];
    if (a.size !== theirs.length || b.size !== ours.length || a.size !== b.size) return false;
    const [inTheirs, inOurs] = [byGroup(a, this.#groupOfTheirs), byGroup(b, this.#groupOfOurs)];
    for (const [group, ids] of inTheirs) if (inOurs.get(group)?.length !== ids.length) return false;
    for (const [group, ids] of inTheirs) this.#split(group, ids, inOurs.get(group)!);
    return true;
  }

  /**
   * Whether each of the case's blocks can be one of ours with its value. Where ours with a value are no more than theirs,
   * those are the same from now on; of several that nothing else tells apart, only how many there are is compared.
   */
  sameValues(theirs: ReadonlyMap<string, string>, ours: ReadonlyMap<string, string>): boolean {
    const [expected, found] = [byGroup(theirs.keys(), this.#groupOfTheirs), byGroup(ours.keys(), this.#groupOfOurs)];
    const known: (readonly [readonly string[], readonly string[]])[] = [];
    for (const [group, ids] of expected) {
      const there = byGroup(found.get(group) ?? [], ours);
      for (const [value, named] of byGroup(ids, theirs)) {
        const candidates = there.get(value) ?? [];
        if (candidates.length < named.length) return false;
        if (candidates.length === named.length) known.push([named, candidates]);
      }
    }
    return known.every(([named, candidates]) => this.sameSet(named, candidates));
  }

  /** Makes a group of its own of a part of a group, or of ids that are in none. */
  #split(from: Group | undefined, theirs: readonly string[], ours: readonly string[]): void {
    if (from?.theirs.size === theirs.length) return;
    const group: Group = { theirs: new Set(theirs), ours: new Set(ours) };
    for (const id of theirs) {
      from?.theirs.delete(id);
      this.#groupOfTheirs.set(id, group);
    }
    for (const id of ours) {
      from?.ours.delete(id);
      this.#groupOfOurs.set(id, group);
    }
  }
}

/** Ids by what they belong to. */
function byGroup<G>(ids: Iterable<string>, groupOf: ReadonlyMap<string, G>): Map<G | undefined, string[]> {
  const found = new Map<G | undefined, string[]>();
  for (const id of ids) {
    const group = groupOf.get(id);
    const others = found.get(group);
    if (others === undefined) found.set(group, [id]);
    else others.push(id);
  }
  return found;
}
