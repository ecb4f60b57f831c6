import { uniformFloat64 } from "pure-rand/distribution/uniformFloat64";
import { uniformInt } from "pure-rand/distribution/uniformInt";
import { xoroshiro128plus } from "pure-rand/generator/xoroshiro128plus";

/** The only source of chance: seeded, and the same on every machine. */
export interface Random {
  /** An integer in 0 .. n − 1. */
  below(n: number): number;
  /** A number in [0, 1). */
  unit(): number;
}

export function seededRandom(seed: number): Random {
  const generator = xoroshiro128plus(seed | 0);
  return {
    below: (n) => uniformInt(generator, 0, n - 1),
    unit: () => uniformFloat64(generator),
  };
}
