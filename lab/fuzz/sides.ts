import { InputError } from "../../core/errors.ts";
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

/** @throws InputError if both sides are one configuration, of which neither can have more hits */
export function checkDifferent(first: SideChoice, second: SideChoice): void {
  const parts = ({ names, rules }: SideChoice) =>
    JSON.stringify([Object.entries(names).sort(), Object.entries(rules).sort()]);
  if (parts(first) === parts(second))
    throw new InputError(`--beat has ${first.label} twice, expected two configurations that differ`);
}

/** @throws InputError if a name is unknown or the parts do not fit together */
export async function sideOf({ label, names, rules }: SideChoice, seed: number): Promise<Side> {
  const parts = await partsNamed(names, rules);
  const config = (blocks: number) => ({ ...parts, blockTokens: 1, blocks, seed });
  // Refuses parts that cannot be combined.
  new CacheReplay(config(1));
  return { label, config };
}
