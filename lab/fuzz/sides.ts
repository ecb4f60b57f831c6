import { InputError } from "../../core/errors.ts";
import { CacheReplay } from "../../core/replica/replay.ts";
import { quoted } from "../output/command-line.ts";
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

/** The commands that show what a side does with a trace: one for both where `compare` can, else one each. */
export function commandsFor(
  sides: readonly [SideChoice, SideChoice],
  file: string,
  blocks: number,
  seed: number,
): string[] {
  const size = `--block-size 1 --blocks ${blocks}`;
  const draws = seed === 1 ? "" : ` --seed ${seed}`;
  if (sides.every(({ label }) => !label.includes("=")))
    return [
      `kvlab compare ${quoted(file)} --eviction ${sides.map(({ label }) => quoted(label)).join(",")} ${size}${draws} --first-difference`,
    ];
  return sides.map(({ names, rules }) => {
    const words = [
      ...Object.entries(names).map(([name, value]) => `--${name} ${quoted(value!)}`),
      ...Object.entries(rules).map(([name, value]) => `--rule ${name}=${value}`),
    ];
    return `kvlab replay ${quoted(file)} ${words.join(" ")} ${size}${draws}`;
  });
}
