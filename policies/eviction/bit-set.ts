/** A set of integers below `size`, as a tree of bits: bit i of a level is 1 if word i of the level below is not 0. O(log size). */
export class BitSet {
  readonly #levels: Int32Array[] = [];

  constructor(size: number) {
    for (let bits = Math.max(1, size); ; bits = Math.ceil(bits / 32)) {
      this.#levels.push(new Int32Array(Math.ceil(bits / 32)));
      if (bits <= 32) break;
    }
  }

  add(member: number): void {
    let at = member;
    for (const level of this.#levels) {
      const word = at >>> 5;
      const before = level[word];
      level[word] = before | (1 << (at & 31));
      if (before !== 0) return;
      at = word;
    }
  }

  remove(member: number): void {
    let at = member;
    for (const level of this.#levels) {
      const word = at >>> 5;
      level[word] &= ~(1 << (at & 31));
      if (level[word] !== 0) return;
      at = word;
    }
  }

  /** The smallest member that is at least `from`. */
  next(from: number): number | undefined {
    const levels = this.#levels;
    let at = from;
    for (let i = 0; i < levels.length; i++) {
      const word = at >>> 5;
      if (word >= levels[i].length) return undefined;
      const bits = levels[i][word] & (-1 << (at & 31));
      if (bits !== 0) {
        at = 32 * word + lowestBit(bits);
        while (i-- > 0) at = 32 * at + lowestBit(levels[i][at]);
        return at;
      }
      at = word + 1;
    }
    return undefined;
  }
}

const lowestBit = (bits: number) => 31 - Math.clz32(bits & -bits);
