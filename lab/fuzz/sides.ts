import { InputError } from "../../core/errors.ts";
import { CacheReplay } from "../../core/replica/replay.ts";
import { quoted } from "../output/command-line.ts";
import { type PartChoice, type Parts, partsNamed } from "../run/configuration.ts";
import { nameOf } from "../run/simulation-options.ts";
import type { Side } from "./beat.ts";

/** The parts of one side of `fuzz --beat`; all others are the defaults. */
export interface SideChoice {
  /** The name of the side in reports. */
  readonly label: string;
  readonly names: PartChoice;
  readonly rules: Parts["rules"];
}

/** @throws InputError if both sides are the same configuration */
export function checkDifferent(first: SideChoice, second: SideChoice): void {
  if (hasSame(first.names, second.names) && hasSame(first.rules, second.rules))
    throw new InputError(`--beat has ${first.label} twice, expected two configurations that differ`);
}

function hasSame<T extends object>(one: T, other: T): boolean {
  const keys = Object.keys({ ...one, ...other }) as (keyof T)[];
  return keys.every((key) => one[key] === other[key]);
}

/** @throws InputError if a name is unknown or the parts do not fit together */
export async function sideOf({ label, names, rules }: SideChoice, seed: number): Promise<Side> {
  const parts = await partsNamed(names, rules);
  const config = (blocks: number) => ({ ...parts, blockTokens: 1, blocks, seed });
  // Throws if the plug-ins cannot be combined.
  new CacheReplay(config(1));
  return { label, config };
}

/** The commands that show both sides on a trace: one `compare` if it can express them, otherwise a `replay` for each. */
export function commandsFor(
  sides: readonly [SideChoice, SideChoice],
  file: string,
  blocks: number,
  seed: number,
): string[] {
  const size = `--block-size 1 --blocks ${blocks}`;
  const seedOption = seed === 1 ? "" : ` --seed ${seed}`;
  if (sides.every(({ label }) => !label.includes("=")))
    return [
      `kvlab compare ${quoted(file)} --eviction ${sides.map(({ label }) => quoted(label)).join(",")} ${size}${seedOption} --first-difference`,
    ];
  return sides.map(({ names, rules }) => {
    const options = [
      ...Object.entries(names).map(([name, value]) => `--${name} ${quoted(nameOf(value!))}`),
      ...Object.entries(rules).map(([name, value]) => `--rule ${name}=${value}`),
    ];
    return `kvlab replay ${quoted(file)} ${options.join(" ")} ${size}${seedOption}`;
  });
}
