import { CacheReplay } from "../../core/replica/replay.ts";
import { type PartNames, type Parts, partsNamed } from "../run/configuration.ts";
import type { Side } from "./beat.ts";

/** The parts of one side of `fuzz --beat`; all others are the defaults. */
export interface SideChoice {
  /** The name of the side in reports. */
  readonly label: string;
  readonly names: PartNames;
  readonly rules: Parts["rules"];
}

/** @throws InputError if a name is unknown or the parts do not fit together */
export async function sideOf({ label, names, rules }: SideChoice, seed: number): Promise<Side> {
  const parts = await partsNamed(names, rules);
  const config = (blocks: number) => ({ ...parts, blockTokens: 1, blocks, seed });
  // Refuses parts that cannot be combined.
  new CacheReplay(config(1));
  return { label, config };
}
