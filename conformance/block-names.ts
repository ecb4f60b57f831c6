type Id = string | number;

/** A group of ids of the case and equally many blocks of kvlab: each of the ids stands for one of the blocks. */
interface Group {
  readonly theirs: Set<string>;
  readonly ours: Set<string>;
}

/**
 * Maps the block ids of a case (`theirs`) to kvlab's blocks (`ours`). Another system numbers blocks differently, so ids are
 * compared up to a one-to-one map, which every comparison narrows. The state of the map is a partition into groups of ids and
 * blocks; a group of one is a pair. Two equal sets split each group into the members inside and outside of the sets.
 */
export class BlockNames {
  readonly #groupOfTheirs = new Map<string, Group>();
  readonly #groupOfOurs = new Map<string, Group>();

  /** Whether the case's block can be our block, given all earlier comparisons; if so, they are paired. */
  same(theirs: Id, ours: Id): boolean {
    return this.sameSet([theirs], [ours]);
  }

  /** Our block for a block id in a case's inputs; undefined if it is not determined. */
  ours(theirs: Id): number | undefined {
    const group = this.#groupOfTheirs.get(String(theirs));
    return group?.ours.size === 1 ? Number([...group.ours][0]) : undefined;
  }

  /** For messages: the case's id of our block, or our number in brackets. */
  theirs(ours: Id): string {
    const group = this.#groupOfOurs.get(String(ours));
    return group?.theirs.size === 1 ? [...group.theirs][0] : `(${ours})`;
  }

  /** Whether these can be the same blocks in any order, given all earlier comparisons; if so, the map is narrowed. */
  sameSet(theirs: readonly Id[], ours: readonly Id[]): boolean {
    const [a, b] = [new Set(theirs.map(String)), new Set(ours.map(String))];
    if (a.size !== theirs.length || b.size !== ours.length || a.size !== b.size) return false;
    const [inTheirs, inOurs] = [byGroup(a, this.#groupOfTheirs), byGroup(b, this.#groupOfOurs)];
    for (const [group, ids] of inTheirs) if (inOurs.get(group)?.length !== ids.length) return false;
    for (const [group, ids] of inTheirs) this.#split(group, ids, inOurs.get(group)!);
    return true;
  }

  /**
   * Whether each of the case's blocks can be one of ours with an equal value. If equally many of ours and of theirs have a
   * value, they are one group from now on; if more of ours have it, only their number is compared.
   */
  sameValues(theirs: ReadonlyMap<string, string>, ours: ReadonlyMap<string, string>): boolean {
    const [expected, found] = [byGroup(theirs.keys(), this.#groupOfTheirs), byGroup(ours.keys(), this.#groupOfOurs)];
    const paired: (readonly [readonly string[], readonly string[]])[] = [];
    for (const [group, ids] of expected) {
      const foundByValue = byGroup(found.get(group) ?? [], ours);
      for (const [value, named] of byGroup(ids, theirs)) {
        const candidates = foundByValue.get(value) ?? [];
        if (candidates.length < named.length) return false;
        if (candidates.length === named.length) paired.push([named, candidates]);
      }
    }
    return paired.every(([named, candidates]) => this.sameSet(named, candidates));
  }

  /** Makes a part of a group, or ids and blocks that are in no group, a new group. */
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

/** Ids by group. */
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
