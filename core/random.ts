import { uniformFloat64 } from "pure-rand/distribution/uniformFloat64";
import { uniformInt } from "pure-rand/distribution/uniformInt";
import { xoroshiro128plus } from "pure-rand/generator/xoroshiro128plus";

/** Random numbers from a seed: the same on every machine. All randomness of kvlab comes from here or from `chanceOf`. */
export interface Random {
  /** An integer in 0 .. n − 1. */
  below(n: number): number;
  /** A number in [0, 1). */
  unit(): number;
}

/** A pseudorandom number in [0, 1), a pure function of its arguments: reading it changes no state. */
export function chanceOf(key: number, n: number): number {
  let x = Math.imul(n ^ key, 0x9e3779b1);
  x = Math.imul(x ^ (x >>> 16) ^ (key >>> 7), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return ((x ^ (x >>> 16)) >>> 0) / 2 ** 32;
}

export function seededRandom(seed: number): Random {
  const generator = xoroshiro128plus(seed | 0);
  return {
    below: (n) => uniformInt(generator, 0, n - 1),
    unit: () => uniformFloat64(generator),
  };
}
