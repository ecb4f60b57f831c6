import type { BandAxis, BandGroup, Configuration } from "./comparison.ts";

/** Every configuration with every seed; bounds, which draw no random numbers, with the first one. */
export function withSeeds(configurations: readonly Configuration[], seeds: readonly number[]): Configuration[] {
  return configurations.flatMap((one) =>
    (one.kind === "online" ? seeds : seeds.slice(0, 1)).map((seed) => ({ ...one, seed })),
  );
}

/** What bands are made from: configurations or curves. */
interface Varying {
  readonly rules: readonly string[];
  readonly seed?: number | undefined;
}

/** Groups those that differ only in what policies leave open, in the order of their first members; `isSame` compares all else. */
export function bandGroups<Each extends Varying>(
  all: readonly Each[],
  isSame: (one: Each, other: Each) => boolean,
): BandGroup[] {
  const groups: number[][] = [];
  for (const [number, one] of all.entries()) {
    const isMember = (other: Each) => otherRules(one).join() === otherRules(other).join() && isSame(one, other);
    const group = groups.find(([first]) => isMember(all[first]));
    if (group) group.push(number);
    else groups.push([number]);
  }
  return groups.map((members) => {
    const count = (of: (one: Each) => unknown) => new Set(members.map((i) => of(all[i]))).size;
    const axes: [BandAxis, number][] = [
      ["free-order", count(({ rules }) => rules.find(isOrder))],
      ["seed", count(({ seed }) => seed)],
    ];
    return { members, over: axes.filter(([, values]) => values > 1).map(([axis]) => axis) };
  });
}

/** The rules that all members of a band have. */
export const commonRules = (one: Varying, over: readonly BandAxis[]): readonly string[] =>
  over.includes("free-order") ? otherRules(one) : one.rules;

const isOrder = (text: string) => text.startsWith("free-order=");
const otherRules = ({ rules }: Varying) => rules.filter((text) => !isOrder(text));

/** Groups the configurations of a comparison. */
export function configurationBands(configurations: readonly Configuration[]): BandGroup[] {
  const parts = ["preset", "index", "eviction", "allocator", "scheduler"] as const;
  const fields = ["kind", "label", "indexLabel", "blocksOf"] as const;
  const all = configurations.map((one) => ({ one, rules: one.ruleTexts, seed: one.seed }));
  return bandGroups(
    all,
    ({ one }, { one: other }) =>
      fields.every((name) => one[name] === other[name]) && parts.every((name) => one.parts[name] === other.parts[name]),
  );
}
